//! What a workload should request, by what it used in the last week: the slow rules.
//!
//! A request decides where workloads fit and, on Kubernetes, how the kernel weighs them, so it
//! follows evidence and not the moment. What is suggested is the largest daily 90th percentile of
//! the mean use of five minutes, and a margin; [`step`] says how far a request goes there at once.
//!
//! Always: a request is not lowered before a day of evidence, nor below half of what it came with
//! before a week of it, nor by more than a quarter an hour, nor below what is suggested. It is not
//! raised above what it came with for elastic work, nor where the node's requests would add up to
//! more than nine tenths of it.

mod arrival;
mod counted;
mod pooled;
mod record;
mod saved;

use core::fmt;

use crate::units::{Millicores, Moment, Ratio, Span};

pub use arrival::at_arrival;
pub use counted::{WindowUse, is_lent};
pub use pooled::Pooled;
pub use record::{DAY_WINDOWS, Evidence, UseRecord, WEEK_WINDOWS};
pub use saved::{RECORD_BYTES_MAX, RecordNote};

/// Use is counted as the mean of this long.
pub const WINDOW: Span = Span::from_s(300);
/// What a request has above the use that is seen: a week knows nothing of the next one.
pub const MARGIN: Ratio = Ratio::from_percent(115);
/// What is left of a request after it was lowered once.
pub const KEPT_OF_A_STEP: Ratio = Ratio::from_percent(75);
/// The least time between two of these.
pub const BETWEEN_STEPS: Span = Span::from_s(3600);
/// What is kept of what a workload came with before a week of evidence.
pub const KEPT_OF_THE_FIRST_WEEK: Ratio = Ratio::from_percent(50);
/// What of the node requests may add up to where one is raised above what it came with, and what
/// the node's peak may be where one is lowered.
pub const OF_THE_NODE: Ratio = Ratio::from_percent(90);
/// No request is smaller: a workload that requests nothing has no weight.
pub const FLOOR: Millicores = Millicores::new(10);

/// What becomes of a workload's request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestRule {
    /// It stays what the workload came with.
    #[default]
    Kept,
    /// The same, because a HorizontalPodAutoscaler goes by use over request.
    Scaled,
    /// It follows the slow rules.
    Follows,
}

/// What is known of a workload when its request is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestFacts {
    /// What it came with.
    pub original: Millicores,
    /// What is in force.
    pub in_force: Millicores,
    /// What the workload was seen to use, with the margin, if it was ever seen.
    pub suggested: Option<Millicores>,
    /// For how long it was seen.
    pub evidence: Evidence,
    /// Whether it takes what it can get.
    pub is_elastic: bool,
    /// How the node's requests add up.
    pub room: Room,
    /// The node's peak, and what it may be at most, if that is known.
    pub pooled: Option<PooledPeak>,
    /// When its request was last lowered, or when it arrived.
    pub lowered_at: Moment,
}

/// How the requests of a node compare with what they may add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// They may grow by this.
    Left(Millicores),
    /// They are too much by this.
    Missing(Millicores),
}

/// How a node's use adds up, and what it may add up to where requests are lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PooledPeak {
    /// The mean of its use within a day, and three standard deviations.
    pub peak: Millicores,
    /// What that may be.
    pub most: Millicores,
}

/// Why a request is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestWhy {
    /// The mode leaves requests alone.
    Kept,
    /// A HorizontalPodAutoscaler goes by use over request.
    Scaled,
    /// Nothing is known of the workload yet.
    Unseen,
    /// What it was lowered to is not supported by what is known.
    Unsupported,
    /// It is what the workload uses, and a margin.
    Followed,
    /// It is on its way down, by as much as an hour allows.
    Lowered,
    /// The next step down is due later.
    Waits {
        /// When.
        until: Moment,
    },
    /// It would be lowered, but the evidence is younger than a day.
    TooEarly,
    /// It would be lowered, but not below half before a week has passed.
    FirstWeek,
    /// It would be lowered, but the node's peak is too high.
    NodeBusy,
    /// It would be raised further, but takes what it can get.
    Elastic,
    /// It would be raised further, but the node's requests add up to too much.
    NodeFull,
}

/// The request a workload should have at `now`, and why.
#[must_use]
pub fn step(facts: &RequestFacts, now: Moment) -> (Millicores, RequestWhy) {
    let RequestFacts { original, in_force, evidence, .. } = *facts;
    let Some(suggested) = facts.suggested else {
        return without_evidence(facts, now);
    };
    let (wanted, bound) = facts.allowed(suggested.max(FLOOR));
    if wanted > in_force {
        return (wanted, bound.unwrap_or(RequestWhy::Followed));
    }
    // What it was lowered to without a day of evidence was lowered by an agent that knew more.
    if evidence < Evidence::A_DAY && in_force < original {
        return without_evidence(facts, now);
    }
    if wanted == in_force {
        return (in_force, bound.unwrap_or(RequestWhy::Followed));
    }
    facts.lowered(wanted, now)
}

/// Right after a start what is known may not be there yet; later it is not going to come.
fn without_evidence(facts: &RequestFacts, now: Moment) -> (Millicores, RequestWhy) {
    let RequestFacts { original, in_force, .. } = *facts;
    let waited = now.since(facts.lowered_at) >= BETWEEN_STEPS;
    if waited && in_force < original {
        (original, RequestWhy::Unsupported)
    } else {
        (in_force, RequestWhy::Unseen)
    }
}

// === impl RequestFacts ===

impl RequestFacts {
    /// What it may request of what is suggested, and what bounds it.
    fn allowed(&self, suggested: Millicores) -> (Millicores, Option<RequestWhy>) {
        if suggested <= self.original {
            return (suggested, None);
        }
        let in_force = self.in_force.max(self.original);
        let most = match (self.is_elastic, self.room) {
            // It is not raised. What it has is lowered when it is seen to use less.
            (true, _) => return (suggested.min(in_force), Some(RequestWhy::Elastic)),
            (false, Room::Missing(much)) => self.original.max(self.in_force.saturating_sub(much)),
            (false, Room::Left(room)) => self.original.max(self.in_force + room),
        };
        let bound = (most < suggested).then_some(RequestWhy::NodeFull);
        (suggested.min(most), bound)
    }

    fn lowered(&self, wanted: Millicores, now: Moment) -> (Millicores, RequestWhy) {
        let in_force = self.in_force;
        // What it has above what it came with was never its own.
        let is_own = in_force <= self.original;
        if is_own && self.evidence < Evidence::A_DAY {
            return (in_force, RequestWhy::TooEarly);
        }
        if is_own && self.pooled.is_none_or(|PooledPeak { peak, most }| peak > most) {
            return (in_force, RequestWhy::NodeBusy);
        }
        let wanted = if is_own { wanted } else { wanted.max(self.original) };
        let half = self.original.scale_ceil(KEPT_OF_THE_FIRST_WEEK);
        let is_young = self.evidence < Evidence::A_WEEK && wanted < half;
        let floor = if is_young { half } else { wanted };
        if floor >= in_force {
            return (in_force, RequestWhy::FirstWeek);
        }
        let until = self.lowered_at + BETWEEN_STEPS;
        if now < until {
            return (in_force, RequestWhy::Waits { until });
        }
        let target = floor.max(in_force.scale_ceil(KEPT_OF_A_STEP));
        let why = match (target == floor, is_young) {
            (true, true) => RequestWhy::FirstWeek,
            (true, false) => RequestWhy::Followed,
            (false, _) => RequestWhy::Lowered,
        };
        (target, why)
    }
}

// === impl Room ===

impl Room {
    /// The room that requests of `sum` leave of `most`.
    #[must_use]
    pub fn of(sum: Millicores, most: Millicores) -> Self {
        if sum <= most {
            Self::Left(most.saturating_sub(sum))
        } else {
            Self::Missing(sum.saturating_sub(most))
        }
    }
}

// === impl RequestRule ===

impl RequestRule {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Kept, Self::Scaled, Self::Follows];

    /// The name that recordings have.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Scaled => "scaled",
            Self::Follows => "follows",
        }
    }
}

// === impl RequestWhy ===

impl fmt::Display for RequestWhy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kept => "it stays what it came with: the mode leaves requests alone",
            Self::Scaled => {
                "it stays what it came with: a HorizontalPodAutoscaler goes by use over request"
            }
            Self::Unseen => "it stays: nothing is known yet of what the workload uses",
            Self::Unsupported => {
                "it goes back to what it came with: less is not supported by what is known"
            }
            Self::Followed => {
                "it is the largest daily P90 of what the workload uses in five minutes, and 15 %"
            }
            Self::Lowered => "it goes down to what the workload uses, by at most 25 % an hour",
            Self::Waits { .. } => "it goes on down by at most 25 % an hour",
            Self::TooEarly => "it stays: it is lowered after a day of evidence",
            Self::FirstWeek => "it is kept above half of what it came with for the first week",
            Self::NodeBusy => {
                "it stays: the node's peak is not known to leave a tenth of it, so nothing is \
                 lowered here"
            }
            Self::Elastic => {
                "it is not raised above what it came with: the workload takes what it can get"
            }
            Self::NodeFull => {
                "it is not raised further: the node's requests add up to nine tenths of it"
            }
        })
    }
}

#[cfg(test)]
mod tests;
