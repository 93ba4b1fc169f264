//! A figure that was measured, or the reason why it was not.
//!
//! Zero and "not measured" are different things: a node without a counter of cache misses is not a
//! node without cache misses. So nothing here has a default, and every reader has to say what it
//! does with a figure that is missing.

use std::fmt;

/// What is known of one metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// It was measured; the number is finite and not negative.
    Measured(f64),
    /// It was not, and this is why.
    Unavailable(Unavailable),
}

/// A raw value as it was read, or why it was not.
pub type Seen<T> = Result<T, Unavailable>;

/// Why something was not measured. `what` names a file, an event or a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// A rate needs two looks at a counter, and there was only one.
    FirstLook,
    /// The two looks were at the same moment, or the clock stepped back.
    NoTime,
    /// The two looks were too far apart to tell anything about now.
    Gap,
    /// A counter went back between the two looks: it was started anew.
    Reset {
        /// Which one.
        what: &'static str,
    },
    /// The kernel has no such thing, or it is switched off.
    Absent {
        /// What.
        what: &'static str,
    },
    /// The hardware has no such counter, or a hypervisor hides it.
    NoHardware {
        /// Which one.
        what: &'static str,
    },
    /// This process may not look.
    NotAllowed {
        /// At what.
        what: &'static str,
    },
    /// It is there, and cannot be read or understood.
    Unreadable {
        /// What.
        what: &'static str,
    },
    /// It is counted for more than this node alone.
    NotOurs {
        /// What.
        what: &'static str,
    },
    /// What can be seen from here is that of a container.
    NotOfNode {
        /// What.
        what: &'static str,
    },
    /// No label and no setting says so.
    NotSaid {
        /// What.
        what: &'static str,
    },
    /// Whoever was asked does not report it.
    NotReported {
        /// What.
        what: &'static str,
    },
    /// What was computed is no number that anybody could use.
    NotFinite,
}

// === impl Reading ===

impl Reading {
    /// `value` if it is finite and not negative.
    #[must_use]
    pub fn of(value: f64) -> Self {
        if value.is_finite() && value >= 0.0 {
            Self::Measured(value)
        } else {
            Self::Unavailable(Unavailable::NotFinite)
        }
    }

    /// The number, where there is one.
    #[must_use]
    pub const fn value(self) -> Option<f64> {
        match self {
            Self::Measured(value) => Some(value),
            Self::Unavailable(_) => None,
        }
    }

    /// Why there is none.
    #[must_use]
    pub const fn why_not(self) -> Option<Unavailable> {
        match self {
            Self::Measured(_) => None,
            Self::Unavailable(why) => Some(why),
        }
    }
}

impl From<Seen<f64>> for Reading {
    fn from(seen: Seen<f64>) -> Self {
        seen.map_or_else(Self::Unavailable, Self::of)
    }
}

// === impl Unavailable ===

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FirstLook => f.write_str("a rate needs a second look"),
            Self::NoTime => f.write_str("no time passed between two looks"),
            Self::Gap => f.write_str("the last two looks are too far apart"),
            Self::Reset { what } => write!(f, "{what} was started anew since the last look"),
            Self::Absent { what } => write!(f, "this kernel has no {what}"),
            Self::NoHardware { what } => write!(f, "this hardware shows no {what}"),
            Self::NotAllowed { what } => write!(f, "this process may not use {what}"),
            Self::Unreadable { what } => write!(f, "{what} cannot be read"),
            Self::NotOfNode { what } => write!(f, "{what} is not the node's"),
            Self::NotOurs { what } => write!(f, "{what} counts more than this node"),
            Self::NotSaid { what } => write!(f, "{what} is not set"),
            Self::NotReported { what } => write!(f, "{what} is not reported"),
            Self::NotFinite => f.write_str("the figure came out as no number"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_not_measured() {
        assert_eq!(Reading::of(0.0), Reading::Measured(0.0));
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
            assert_eq!(Reading::of(value), Reading::Unavailable(Unavailable::NotFinite));
        }
        let absent = Unavailable::Absent { what: "/proc/pressure" };
        assert_eq!(Reading::from(Err(absent)).why_not(), Some(absent));
        assert_eq!(Reading::from(Err(absent)).value(), None);
        assert_eq!(absent.to_string(), "this kernel has no /proc/pressure");
    }
}
