//! Which pods stay where they are, and why.
//!
//! Some reasons hold for every kind of move; others only forbid an eviction: such a pod may still
//! be named, for a person to decide.

use crate::units::Span;

/// What is known of a pod that might be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Who makes another one when it is gone.
    pub owner: Owner,
    /// How many pods of the same owner are ready.
    pub replicas: u32,
    /// Whether it runs and is not being deleted.
    pub running: bool,
    /// How long it has run.
    pub age: Span,
    /// Whether its namespace is left alone.
    pub excluded: bool,
    /// The annotation by which it wants to stay, if it has one.
    pub opted_out: Option<&'static str>,
    /// Whether an annotation says that it may be evicted, whatever else holds.
    pub safe_to_evict: bool,
    /// Whether it keeps files on its node.
    pub keeps_files: bool,
    /// Whether the cluster depends on it, by its priority class.
    pub critical: bool,
    /// Whether what it requires of a node is not all understood.
    pub unclear: bool,
}

/// Who makes another pod when one is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nobody.
    Nobody,
    /// A DaemonSet, which wants it on this node.
    DaemonSet,
    /// The kubelet, from a file.
    Kubelet,
    /// A Job: what it has done so far would be lost.
    Job,
    /// A controller that makes a new one anywhere.
    Controller,
}

/// What may be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveRules {
    /// Younger pods stay. What was moved is young, so nothing moves twice within this time.
    pub age_min: Span,
    /// Whether a pod may be evicted that is the only one of its owner.
    pub single_replicas: bool,
}

/// Why a pod stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stay {
    /// It does not run, or is being deleted.
    NotRunning,
    /// A DaemonSet wants it there.
    DaemonSet,
    /// The kubelet runs it from a file.
    Static,
    /// Its namespace is left alone.
    Excluded,
    /// An annotation says so.
    OptedOut,
    /// The cluster depends on it.
    Critical,
    /// It has not run for long enough.
    TooYoung,
    /// What it requires is not all understood.
    Unclear,
    /// Nobody would make another one.
    Bare,
    /// It is the work of a Job.
    Job,
    /// It is the only one of its owner.
    SingleReplica,
    /// It keeps files on its node.
    KeepsFiles,
}

/// Why a pod is not even named for a move, if so.
#[must_use]
pub fn stays(rules: &MoveRules, facts: &Facts) -> Option<Stay> {
    match facts.owner {
        Owner::DaemonSet => return Some(Stay::DaemonSet),
        Owner::Kubelet => return Some(Stay::Static),
        Owner::Nobody | Owner::Job | Owner::Controller => {}
    }
    let reasons = [
        (!facts.running, Stay::NotRunning),
        (facts.excluded, Stay::Excluded),
        (facts.opted_out.is_some(), Stay::OptedOut),
        (facts.critical, Stay::Critical),
        (facts.age < rules.age_min, Stay::TooYoung),
        (facts.unclear, Stay::Unclear),
    ];
    reasons.into_iter().find_map(|(holds, why)| holds.then_some(why))
}

/// Why a pod is not evicted, if so.
#[must_use]
pub fn not_evicted(rules: &MoveRules, facts: &Facts) -> Option<Stay> {
    if let Some(why) = stays(rules, facts) {
        return Some(why);
    }
    if facts.owner == Owner::Nobody {
        return Some(Stay::Bare);
    }
    if facts.safe_to_evict {
        return None;
    }
    let reasons = [
        (facts.owner == Owner::Job, Stay::Job),
        (facts.replicas < 2 && !rules.single_replicas, Stay::SingleReplica),
        (facts.keeps_files, Stay::KeepsFiles),
    ];
    reasons.into_iter().find_map(|(holds, why)| holds.then_some(why))
}

// === impl MoveRules ===

impl MoveRules {
    /// Ten minutes; a pod without a replica stays.
    pub const DEFAULT: Self = Self { age_min: Span::from_s(600), single_replicas: false };
}

// === impl Stay ===

impl Stay {
    /// Whether it goes away with its node, and is nobody's loss.
    #[must_use]
    pub const fn goes_with_its_node(self) -> bool {
        match self {
            Self::DaemonSet | Self::Static | Self::NotRunning => true,
            Self::Excluded
            | Self::OptedOut
            | Self::Critical
            | Self::TooYoung
            | Self::Unclear
            | Self::Bare
            | Self::Job
            | Self::SingleReplica
            | Self::KeepsFiles => false,
        }
    }

    /// Its name in metrics and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotRunning => "not_running",
            Self::DaemonSet => "daemon_set",
            Self::Static => "static",
            Self::Excluded => "excluded_namespace",
            Self::OptedOut => "opted_out",
            Self::Critical => "critical",
            Self::TooYoung => "too_young",
            Self::Unclear => "unclear",
            Self::Bare => "bare",
            Self::Job => "job",
            Self::SingleReplica => "single_replica",
            Self::KeepsFiles => "keeps_files",
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One of three replicas, an hour old.
    pub(in crate::rebalance) const MOVABLE: Facts = Facts {
        owner: Owner::Controller,
        replicas: 3,
        running: true,
        age: Span::from_s(3600),
        excluded: false,
        opted_out: None,
        safe_to_evict: false,
        keeps_files: false,
        critical: false,
        unclear: false,
    };

    #[test]
    fn every_reason_to_stay_is_heard() {
        let rules = MoveRules::DEFAULT;
        assert_eq!((stays(&rules, &MOVABLE), not_evicted(&rules, &MOVABLE)), (None, None));
        for (facts, why) in [
            (Facts { owner: Owner::DaemonSet, ..MOVABLE }, Stay::DaemonSet),
            (Facts { owner: Owner::Kubelet, ..MOVABLE }, Stay::Static),
            (Facts { running: false, ..MOVABLE }, Stay::NotRunning),
            (Facts { excluded: true, ..MOVABLE }, Stay::Excluded),
            (Facts { opted_out: Some("x"), safe_to_evict: true, ..MOVABLE }, Stay::OptedOut),
            (Facts { critical: true, ..MOVABLE }, Stay::Critical),
            (Facts { age: Span::from_s(599), safe_to_evict: true, ..MOVABLE }, Stay::TooYoung),
            (Facts { unclear: true, ..MOVABLE }, Stay::Unclear),
        ] {
            assert_eq!(stays(&rules, &facts), Some(why));
            assert_eq!(not_evicted(&rules, &facts), Some(why));
        }
    }

    #[test]
    fn some_are_named_and_not_evicted_unless_they_say_so() {
        let rules = MoveRules::DEFAULT;
        for (facts, why) in [
            (Facts { owner: Owner::Job, ..MOVABLE }, Stay::Job),
            (Facts { replicas: 1, ..MOVABLE }, Stay::SingleReplica),
            (Facts { keeps_files: true, ..MOVABLE }, Stay::KeepsFiles),
        ] {
            assert_eq!(stays(&rules, &facts), None);
            assert_eq!(not_evicted(&rules, &facts), Some(why));
            let safe = Facts { safe_to_evict: true, ..facts };
            assert_eq!(not_evicted(&rules, &safe), None);
        }
        let bare = Facts { owner: Owner::Nobody, safe_to_evict: true, ..MOVABLE };
        assert_eq!(not_evicted(&rules, &bare), Some(Stay::Bare), "nobody makes another one");
        let told = MoveRules { single_replicas: true, ..rules };
        assert_eq!(not_evicted(&told, &Facts { replicas: 1, ..MOVABLE }), None);
    }
}
