//! What is done in a case, and what comes of it: in the kernel and in the model alike.

use std::time::Duration;

use walras_core::units::Millicores;
use walras_sim::machine::PERIOD_MS;

use crate::burner::Job;

/// The kernel's period, and the model's.
pub(crate) const PERIOD: Duration = Duration::from_millis(PERIOD_MS as u64);

/// One group with a limit, and its load. Times count from the beginning of a period.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The limit of a group above it, if there is one.
    pub(crate) above: Option<Millicores>,
    /// The limit.
    pub(crate) limit: Millicores,
    /// The burst buffer.
    pub(crate) burst: Millicores,
    /// The load.
    pub(crate) jobs: Vec<Job>,
    /// Another limit, and when it is set.
    pub(crate) raise: Option<(Duration, Millicores)>,
    /// When the counters are read.
    pub(crate) until: Duration,
}

/// Two groups below another, and one beside that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weights {
    /// The two.
    pub(crate) children: [u32; 2],
    /// The one they are in.
    pub(crate) parent: u32,
    /// The other one.
    pub(crate) beside: u32,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// CPU time used.
    pub(crate) usage_ms: f64,
    /// Time throttled.
    pub(crate) throttled_ms: f64,
    /// Periods counted.
    pub(crate) nr_periods: f64,
    /// Those of them that were throttled.
    pub(crate) nr_throttled: f64,
    /// Periods of the group above; 0 where there is none.
    pub(crate) above_nr_periods: f64,
    /// Those of them in which it was throttled itself.
    pub(crate) above_nr_throttled: f64,
    /// From arrival to completion, for each job that was completed.
    pub(crate) completion_ms: Vec<f64>,
    /// From the setting of another limit to the first work after it.
    pub(crate) resumed_ms: f64,
}

// === impl Outcome ===

impl Outcome {
    /// The mean time of completion.
    pub(crate) fn mean_completion_ms(&self) -> f64 {
        let jobs = u32::try_from(self.completion_ms.len()).expect("a handful of jobs");
        self.completion_ms.iter().sum::<f64>() / f64::from(jobs)
    }

    /// The longest time of completion.
    pub(crate) fn slowest_completion_ms(&self) -> f64 {
        self.completion_ms.iter().copied().fold(0.0, f64::max)
    }
}
