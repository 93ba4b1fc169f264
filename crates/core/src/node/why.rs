//! Why an action is taken, as data with a sentence for people.

use core::fmt;

use crate::demand::Signal;
use crate::market::Reason;
use crate::request::RequestWhy;
use crate::units::{Millicores, Ratio, WorkloadUid};

/// What a loose cap rests on: the largest of these decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestsOn {
    /// The limit the workload came with.
    CameWith,
    /// What the workload has a right to.
    Right,
    /// What every cap has.
    Comfort,
    /// The most it used within the last day, and a tenth.
    Peak,
    /// What it was granted.
    Grant,
    /// It came without a limit.
    NoLimit,
    /// The most it may have.
    Max,
}

/// The reason of one action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The fast loop raised a throttled workload.
    Throttled {
        /// Throttled periods since the last look.
        throttled_periods: u64,
        /// Periods since the last look.
        periods: u64,
        /// Throttled time over used time.
        throttle_ratio: Ratio,
    },
    /// The fast loop raised a workload that misses its latency target.
    LatencyMissed,
    /// The market's answer moved by more than the bands.
    Market {
        /// Whether the workload gets less than it had.
        shrinks: bool,
        /// What the workload needs.
        need: Millicores,
        /// What it was granted.
        grant: Millicores,
        /// Why that much.
        reason: Reason,
    },
    /// A loose cap follows what it rests on.
    Cap {
        /// Whether the workload's cap becomes smaller.
        shrinks: bool,
        /// What it rests on.
        rests_on: RestsOn,
    },
    /// Its request goes back to what it came with.
    RequestRestored {
        /// What it came with.
        request: Millicores,
    },
    /// Its request follows the slow rules.
    Request {
        /// What it requested.
        from: Millicores,
        /// What it requests now.
        to: Millicores,
        /// Why.
        because: RequestWhy,
    },
    /// It takes all it can get while another waits: its cap follows what is idle.
    Contained {
        /// Who waited when this began.
        waiting: WorkloadUid,
        /// What is idle now.
        idle: Millicores,
        /// What it was granted.
        grant: Millicores,
    },
    /// None waits for it any more.
    Released,
    /// The sums did not fit, so the workload had to give way.
    Forced {
        /// Whether only its request had to, while its limit grows.
        raised: bool,
        /// What it was granted.
        grant: Millicores,
    },
    /// Only its weight or its burst buffer changes.
    Trimmed,
}

impl Why {
    /// The fast loop saw this.
    pub(super) const fn throttled(signal: &Signal) -> Self {
        Self::Throttled {
            throttled_periods: signal.throttled_periods,
            periods: signal.periods,
            throttle_ratio: signal.throttle_ratio,
        }
    }
}

impl fmt::Display for RestsOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CameWith => "the limit it came with",
            Self::Right => "what it has a right to",
            Self::Comfort => "what every cap has",
            Self::Peak => "the most it used within a day, and a tenth",
            Self::Grant => "what it was granted",
            Self::NoLimit => "the whole node",
            Self::Max => "the most it may have",
        })
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Throttled { throttled_periods, periods, throttle_ratio } => write!(
                f,
                "throttled in {throttled_periods} of {periods} periods (throttle ratio \
                 {throttle_ratio}): limit raised at once"
            ),
            Self::LatencyMissed => f.write_str("misses its latency target: limit raised at once"),
            Self::Market {
                shrinks: true, need, reason: Reason::NeedMet | Reason::AtMin, ..
            } => {
                write!(f, "needs only {need} now")
            }
            Self::Market { need, grant, reason, .. } => match reason {
                Reason::NeedMet | Reason::AtMin | Reason::AtMax => {
                    write!(f, "needs {need}, granted {grant}: there is room for it")
                }
                Reason::Filled => {
                    write!(f, "needs {need}, granted all of it: less than its share")
                }
                Reason::Cut => {
                    write!(f, "needs {need}, granted {grant}: CPU is scarce and shared by weight")
                }
                Reason::MinScaled | Reason::SurvivalFloor | Reason::EqualSplit => {
                    write!(f, "needs {need}, granted {grant}: not even the mins fit")
                }
                Reason::IfAllAsked => {
                    write!(f, "needs {need}; {grant} would be left for it if all asked at once")
                }
            },
            Self::Cap { shrinks: true, rests_on: RestsOn::Max } => {
                f.write_str("its cap comes down to the most it may have")
            }
            Self::Cap { shrinks: true, rests_on } => {
                write!(f, "has not needed more for a while: its cap goes back to {rests_on}")
            }
            Self::Cap { shrinks: false, rests_on: RestsOn::NoLimit } => {
                f.write_str("may have the whole node, so it has no limit")
            }
            // The largest step may leave some of it for later.
            Self::Cap { shrinks: false, rests_on } => {
                write!(f, "its cap is to be at least {rests_on}")
            }
            Self::RequestRestored { request } => {
                write!(f, "its request follows what it came with: {request}")
            }
            Self::Request { from, to, because } => {
                write!(f, "its request goes from {from} to {to}: {because}")
            }
            // It may be raised while that is so: what is idle is named, and not called little.
            Self::Contained { waiting, idle, grant } => write!(
                f,
                "takes all it can get, so it is held to its grant of {grant} and its part of what \
                 is idle, now {idle}: {waiting} had to wait"
            ),
            Self::Released => f.write_str("no other workload waits for it any more"),
            Self::Forced { raised: true, grant } => write!(
                f,
                "its limit grows with its need, but all workloads together requested too much: \
                 it was granted {grant}"
            ),
            Self::Forced { raised: false, grant } => {
                write!(f, "granted {grant}: cut because all workloads together had too much")
            }
            Self::Trimmed => f.write_str("only its weight or burst buffer follows the market"),
        }
    }
}
