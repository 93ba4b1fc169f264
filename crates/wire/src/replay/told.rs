//! From a line of a replay to what a node is told, and back.

use walras_core::node;
use walras_core::units::Moment;

use super::{
    Applied, Capacity, Event, Found, Latency, MachineTaken, SampleTaken, TableRestored, Tick,
    UseRestored, WorkloadAdded, WorkloadRemoved,
};

impl Event {
    /// What a node is told; nothing of what sets one up.
    #[must_use]
    pub fn told(&self, at: Moment) -> Option<node::Fact> {
        Some(match self {
            Self::Config(_) => return None,
            Self::WorkloadAdded(workload) => node::Fact::WorkloadAdded(Box::new(workload.facts())),
            Self::Sample(taken) => node::Fact::Sampled(taken.uid.clone(), taken.sample(at)),
            Self::Machine(machine) => node::Fact::MachineSampled(machine.sample(at)),
            Self::WorkloadRemoved(workload) => node::Fact::WorkloadRemoved(workload.uid.clone()),
            Self::Tick(tick) => node::Fact::Ticked(tick.r#loop),
            Self::Capacity(capacity) => node::Fact::CapacityChanged(capacity.capacity_milli),
            Self::Applied(applied) => node::Fact::LimitTookEffect(applied.uid.clone()),
            Self::Found(Found { uid, limit_milli }) => {
                node::Fact::LimitFound { uid: uid.clone(), limit: *limit_milli }
            }
            Self::Latency(Latency { uid, missed }) => {
                node::Fact::LatencyJudged { uid: uid.clone(), missed: *missed }
            }
            Self::TableRestored(TableRestored { family, saved_hex }) => {
                let (family, saved) = (family.clone(), saved_hex.clone());
                node::Fact::TableRestored { family, saved }
            }
            Self::UseRestored(UseRestored { family, saved_hex }) => {
                let (family, saved) = (family.clone(), saved_hex.clone());
                node::Fact::UseRestored { family, saved }
            }
            Self::Allocatable(told) => node::Fact::AllocatableChanged(told.told()),
        })
    }
}

impl From<&node::Fact> for Event {
    fn from(fact: &node::Fact) -> Self {
        match fact {
            node::Fact::WorkloadAdded(workload) => {
                Self::WorkloadAdded(WorkloadAdded::from(&**workload))
            }
            node::Fact::WorkloadRemoved(uid) => {
                Self::WorkloadRemoved(WorkloadRemoved { uid: uid.clone() })
            }
            node::Fact::Sampled(uid, sample) => Self::Sample(SampleTaken {
                uid: uid.clone(),
                usage_usec: sample.usage,
                throttled_usec: sample.throttled,
                nr_periods: sample.nr_periods,
                nr_throttled: sample.nr_throttled,
                stalled_usec: sample.stalled,
            }),
            node::Fact::MachineSampled(sample) => {
                Self::Machine(MachineTaken { idle_usec: sample.idle, busy_usec: sample.busy })
            }
            node::Fact::CapacityChanged(capacity) => {
                Self::Capacity(Capacity { capacity_milli: *capacity })
            }
            node::Fact::AllocatableChanged(allocatable) => Self::Allocatable((*allocatable).into()),
            node::Fact::LatencyJudged { uid, missed } => {
                Self::Latency(Latency { uid: uid.clone(), missed: *missed })
            }
            node::Fact::LimitTookEffect(uid) => Self::Applied(Applied { uid: uid.clone() }),
            node::Fact::LimitFound { uid, limit } => {
                Self::Found(Found { uid: uid.clone(), limit_milli: *limit })
            }
            node::Fact::TableRestored { family, saved } => {
                Self::TableRestored(TableRestored::new(family.clone(), saved))
            }
            node::Fact::UseRestored { family, saved } => {
                Self::UseRestored(UseRestored::new(family.clone(), saved))
            }
            node::Fact::Ticked(tick) => Self::Tick(Tick { r#loop: *tick }),
        }
    }
}
