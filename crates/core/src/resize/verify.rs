//! Whether a resize that was asked for is in force, from what the API server shows of the pod.
//!
//! The controller calls [`verify`] whenever it sees the pod change, until the verdict is final or
//! its patience ends. The order of the checks is that of the node's own steps: it hears of the
//! change, agrees to it or not, carries it out, and says so. A verdict is about what is seen now; a
//! mismatch may be gone a moment later, and only its age makes it a fault.

use alloc::string::String;
use core::fmt;

use super::{ContainerPatch, Rules};
use crate::units::{Millicores, Moment};

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    /// What each container should have.
    pub containers: &'a [ContainerPatch],
    /// The pod's generation with the change in it.
    pub generation: i64,
    /// How often each container had been restarted before, in the same order; nothing is checked
    /// where that is not known.
    pub restarts: &'a [u32],
}

/// What is seen of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The newest generation that the node has heard of, where it says so.
    pub generation: Option<i64>,
    /// The node has not agreed to a change.
    pub pending: Option<Pending>,
    /// The node is carrying out a change.
    pub in_progress: Option<InProgress>,
    /// Its containers.
    pub containers: alloc::vec::Vec<ContainerSeen>,
}

/// Why a node has not agreed to a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pending {
    /// It has no room now.
    Deferred {
        /// Since when.
        since: Moment,
        /// What the node says.
        message: String,
    },
    /// It will never have room.
    Infeasible {
        /// What the node says.
        message: String,
    },
}

/// A change that a node is carrying out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InProgress {
    /// What went wrong with it so far.
    pub error: Option<String>,
}

/// What is seen of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerSeen {
    /// Its name.
    pub name: String,
    /// The request in force.
    pub request: Option<Millicores>,
    /// The limit in force.
    pub limit: Option<Millicores>,
    /// The request that the node has agreed to, where it says so.
    pub allocated: Option<Millicores>,
    /// How often it was restarted.
    pub restarts: u32,
}

/// How a resize stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is in force.
    Applied,
    /// The node has not heard of it, or is at it.
    Waiting,
    /// The node has no room now.
    Deferred {
        /// Since when.
        since: Moment,
        /// What the node says.
        message: String,
    },
    /// The node can never do it.
    Infeasible {
        /// What the node says.
        message: String,
    },
    /// The node tried and could not; it tries again by itself.
    Failed {
        /// What the node says.
        error: String,
    },
    /// The node says nothing is left to do, and something else is in force.
    Mismatch {
        /// The container.
        container: String,
        /// What differs.
        what: Difference,
        /// What it should be.
        wanted: Millicores,
        /// What it is.
        has: Option<Millicores>,
    },
    /// It is in force, and a container was restarted meanwhile.
    Restarted {
        /// The container.
        container: String,
    },
}

/// What differs between a container as it should be and as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The container is not there.
    Container,
    /// Its limit.
    Limit,
    /// Its request.
    Request,
    /// The request that the node has agreed to.
    Allocated,
}

/// How the change that was `asked` for stands.
#[must_use]
pub fn verify(asked: &Asked<'_>, observed: &Observed, rules: &Rules) -> Verdict {
    // Nodes before 1.34 do not say what they have heard of; there the figures alone must do.
    if observed.generation.is_some_and(|heard| heard < asked.generation) {
        return Verdict::Waiting;
    }
    match &observed.pending {
        Some(Pending::Infeasible { message }) => {
            return Verdict::Infeasible { message: message.clone() };
        }
        Some(Pending::Deferred { since, message }) => {
            return Verdict::Deferred { since: *since, message: message.clone() };
        }
        None => {}
    }
    match &observed.in_progress {
        Some(InProgress { error: Some(error) }) => return Verdict::Failed { error: error.clone() },
        Some(InProgress { error: None }) => return Verdict::Waiting,
        None => {}
    }
    let mut mismatches =
        asked.containers.iter().filter_map(|wanted| mismatch(wanted, observed, rules));
    if let Some(mismatch) = mismatches.next() {
        return mismatch;
    }
    restarted(asked, observed).unwrap_or(Verdict::Applied)
}

fn mismatch(wanted: &ContainerPatch, observed: &Observed, rules: &Rules) -> Option<Verdict> {
    let differs = |what, wanted_cpu, has| {
        let container = wanted.name.clone();
        Some(Verdict::Mismatch { container, what, wanted: wanted_cpu, has })
    };
    let mut containers = observed.containers.iter();
    let Some(seen) = containers.find(|seen| seen.name == wanted.name) else {
        return differs(Difference::Container, wanted.limit, None);
    };
    let near = |wanted: Millicores, has: Option<Millicores>| {
        let has = has.unwrap_or(Millicores::ZERO);
        has == wanted || has == wanted.round_up_to(rules.tolerance)
    };
    if !near(wanted.limit, seen.limit) {
        return differs(Difference::Limit, wanted.limit, seen.limit);
    }
    if seen.allocated.is_some() && !near(wanted.request, seen.allocated) {
        return differs(Difference::Allocated, wanted.request, seen.allocated);
    }
    // The kernel holds a request as a weight of whole numbers, so what is read back may be off
    // where the node does not remember what it was told: what it agreed to is what counts.
    if seen.allocated.is_none() && !near(wanted.request, seen.request) {
        return differs(Difference::Request, wanted.request, seen.request);
    }
    None
}

fn restarted(asked: &Asked<'_>, observed: &Observed) -> Option<Verdict> {
    let known = asked.containers.iter().zip(asked.restarts);
    let mut more = known.filter(|(wanted, before)| {
        let mut containers = observed.containers.iter();
        containers.any(|seen| seen.name == wanted.name && seen.restarts > **before)
    });
    more.next().map(|(wanted, _)| Verdict::Restarted { container: wanted.name.clone() })
}

// === impl Verdict ===

impl Verdict {
    /// The code a program matches on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Applied => "Applied",
            Self::Waiting => "NotConfirmed",
            Self::Deferred { .. } => "Deferred",
            Self::Infeasible { .. } => "Infeasible",
            Self::Failed { .. } => "ResizeError",
            Self::Mismatch { what: Difference::Container, .. } => "NoAfterPod",
            Self::Mismatch { what: Difference::Limit, has: None, .. } => "NoLimitSet",
            Self::Mismatch { what: Difference::Limit, .. } => "LimitMismatch",
            Self::Mismatch {
                what: Difference::Request | Difference::Allocated, has: None, ..
            } => "NoRequestSet",
            Self::Mismatch { what: Difference::Request | Difference::Allocated, .. } => {
                "RequestMismatch"
            }
            Self::Restarted { .. } => "ContainerRestarted",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied => write!(f, "The pod has what it should have."),
            Self::Waiting => write!(f, "The node has not carried out the resize yet."),
            Self::Deferred { since: _, message } => {
                write!(f, "The node has no room for it now and waits for some ({message}).")
            }
            Self::Infeasible { message } => {
                write!(f, "The node can never give this much ({message}).")
            }
            Self::Failed { error } => {
                write!(f, "The node could not carry out the resize and tries again ({error}).")
            }
            Self::Mismatch { container, what, wanted, has } => {
                let what = match what {
                    Difference::Container => return write!(f, "Container {container} is gone."),
                    Difference::Limit => "limit",
                    Difference::Request => "request",
                    Difference::Allocated => "agreed request",
                };
                match has {
                    Some(has) => {
                        write!(f, "Container {container} has the {what} {has} instead of {wanted}.")
                    }
                    None => write!(f, "Container {container} has no {what}, instead of {wanted}."),
                }
            }
            Self::Restarted { container } => write!(
                f,
                "The pod has what it should have, but container {container} was restarted \
                 meanwhile."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    const FIXTURE: &str = include_str!("../../testdata/resize/verify.txt");

    fn cpu(text: &str) -> Option<Millicores> {
        let milli = |text: &str| text.strip_suffix('m').expect(text).parse().expect(text);
        (text != "-").then(|| Millicores::new(milli(text)))
    }

    fn pair(text: &str) -> (Option<Millicores>, Option<Millicores>) {
        let (request, limit) = text.split_once('/').expect(text);
        (cpu(request), cpu(limit))
    }

    /// What the lines of one case say is going on.
    fn verdict(lines: &[&str]) -> Verdict {
        let (mut containers, mut restarts, mut seen) =
            (Vec::new(), Vec::new(), Observed::default());
        let mut generation = 0;
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["asked", "generation", number] => generation = number.parse().unwrap(),
                ["asked", name, both] => {
                    let (request, limit) = pair(both);
                    let (request, limit) = (request.unwrap(), limit.unwrap());
                    containers.push(ContainerPatch { name: name.into(), request, limit });
                    restarts.push(0);
                }
                ["heard", number] => seen.generation = Some(number.parse().unwrap()),
                ["deferred", ref words @ ..] => {
                    let since = Moment::from_ms(7);
                    seen.pending = Some(Pending::Deferred { since, message: words.join(" ") });
                }
                ["infeasible", ref words @ ..] => {
                    seen.pending = Some(Pending::Infeasible { message: words.join(" ") });
                }
                ["working"] => seen.in_progress = Some(InProgress { error: None }),
                ["error", ref words @ ..] => {
                    seen.in_progress = Some(InProgress { error: Some(words.join(" ")) });
                }
                ["has", name, both, "allocated", allocated, "restarts", count] => {
                    let (request, limit) = pair(both);
                    seen.containers.push(ContainerSeen {
                        name: name.to_string(),
                        request,
                        limit,
                        allocated: cpu(allocated),
                        restarts: count.parse().unwrap(),
                    });
                }
                ref other => panic!("not a line of a case: {other:?}"),
            }
        }
        let asked = Asked { containers: &containers, generation, restarts: &restarts };
        verify(&asked, &seen, &Rules::DEFAULT)
    }

    #[test]
    fn every_case_is_judged_as_written_and_every_code_has_a_case() {
        let mut codes = alloc::collections::BTreeSet::new();
        for block in FIXTURE.split("\n\n").filter(|block| block.starts_with("    ")) {
            let lines: Vec<&str> = block.lines().map(str::trim_start).collect();
            let (expected, case) = lines.split_last().expect("a case has lines");
            let verdict = verdict(case);
            assert_eq!(format!("= {}: {verdict}", verdict.code()), *expected, "\n{block}");
            codes.insert(verdict.code());
        }
        let all = [
            "Applied",
            "ContainerRestarted",
            "Deferred",
            "Infeasible",
            "LimitMismatch",
            "NoAfterPod",
            "NoLimitSet",
            "NoRequestSet",
            "NotConfirmed",
            "RequestMismatch",
            "ResizeError",
        ];
        assert!(codes.iter().eq(&all), "{codes:?}");
    }
}
