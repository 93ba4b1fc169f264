//! Why an action is taken, as data with a sentence for people.

use core::fmt;

use crate::demand::Signal;
use crate::market::Reason;
use crate::units::{Millicores, Ratio};

/// The reason of one action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The fast loop raised a throttled pod.
    Throttled {
        /// Throttled periods since the last look.
        throttled_periods: u64,
        /// Periods since the last look.
        periods: u64,
        /// Throttled time over used time.
        throttle_ratio: Ratio,
    },
    /// The fast loop raised a pod that misses its latency target.
    LatencyMissed,
    /// The market's answer moved by more than the bands.
    Market {
        /// Whether the pod gets less than it had.
        shrinks: bool,
        /// What the pod needs.
        need: Millicores,
        /// What it was granted.
        grant: Millicores,
        /// Why that much.
        reason: Reason,
    },
    /// The sums did not fit, so the pod had to give way.
    Forced {
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
            },
            Self::Forced { grant } => {
                write!(f, "granted {grant}: cut because all pods together had too much")
            }
            Self::Trimmed => f.write_str("only its weight or burst buffer follows the market"),
        }
    }
}
