//! What a pod's condition says of its placement, by KubeAttention's precedence.

use crate::events::Outcome;

/// How a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its phase.
    pub phase: Phase,
    /// Whether its node sent it away.
    pub evicted: bool,
    /// Whether a container of it has ended, and how.
    pub ended: Option<Ended>,
    /// Whether a container of it was started again.
    pub restarted: bool,
}

/// The phase of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "Kubernetes' own words")]
pub enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

/// How a container ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ended {
    /// In any other way.
    Otherwise,
    /// It had no memory left.
    OutOfMemory,
}

impl Condition {
    /// Nobody has looked yet.
    pub const UNSEEN: Self =
        Self { phase: Phase::Unknown, evicted: false, ended: None, restarted: false };

    /// What is known after this one was seen as well: what happened once stays so, since a
    /// container that ran out of memory and runs again has done so all the same.
    #[must_use]
    pub fn then(self, newer: &Self) -> Self {
        let out_of_memory = Some(Ended::OutOfMemory);
        let ended = if self.ended == out_of_memory { self.ended } else { newer.ended };
        Self {
            phase: newer.phase,
            evicted: self.evicted || newer.evicted,
            ended,
            restarted: self.restarted || newer.restarted,
        }
    }
}

/// What became of a pod that is there.
#[must_use]
pub const fn outcome_of(condition: &Condition) -> Outcome {
    let Condition { phase, evicted, ended, restarted } = condition;
    match (ended, restarted, phase) {
        (Some(Ended::OutOfMemory), _, _) => Outcome::OomKilled,
        (Some(Ended::Otherwise), _, _) => Outcome::Terminated,
        (None, true, _) => Outcome::Restarted,
        (None, false, Phase::Failed) if *evicted => Outcome::Evicted,
        (None, false, Phase::Failed) => Outcome::Failed,
        (None, false, Phase::Running) => Outcome::Running,
        (None, false, Phase::Pending | Phase::Succeeded | Phase::Unknown) => Outcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_fits_counts() {
        use Ended::{Otherwise, OutOfMemory};
        let cases = [
            (Phase::Failed, true, Some(OutOfMemory), true, Outcome::OomKilled),
            (Phase::Failed, true, Some(Otherwise), true, Outcome::Terminated),
            (Phase::Failed, true, None, true, Outcome::Restarted),
            (Phase::Failed, true, None, false, Outcome::Evicted),
            (Phase::Failed, false, None, false, Outcome::Failed),
            (Phase::Running, true, None, false, Outcome::Running),
            (Phase::Pending, false, None, false, Outcome::Unknown),
            (Phase::Succeeded, false, None, false, Outcome::Unknown),
        ];
        for (phase, evicted, ended, restarted, outcome) in cases {
            let condition = Condition { phase, evicted, ended, restarted };
            assert_eq!(outcome_of(&condition), outcome, "{condition:?}");
        }
    }

    #[test]
    fn what_happened_once_stays_so() {
        let well = Condition { phase: Phase::Running, ..Condition::UNSEEN };
        let killed = Condition { ended: Some(Ended::OutOfMemory), ..well };
        let again = Condition { restarted: true, ..well };
        assert_eq!(outcome_of(&killed.then(&again)), Outcome::OomKilled);
        assert_eq!(outcome_of(&again.then(&well)), Outcome::Restarted);
        assert_eq!(outcome_of(&Condition::UNSEEN.then(&well)), Outcome::Running);
    }
}
