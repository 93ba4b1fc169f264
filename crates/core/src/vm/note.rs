//! What an agent noticed, and what it wanted and could not do: for people.

use core::fmt;

use crate::units::{Moment, Resources};

/// One of the three an agent talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Party {
    /// Whoever keeps the ledger of permits.
    Scheduler,
    /// Whoever runs the machine.
    Machine,
    /// The program in the guest.
    Informant,
}

/// Something worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Note {
    /// There are no metrics, or they are too old, so the machine is not shrunk.
    NoMetrics,
    /// Nobody in the guest can agree to it, so the machine is not shrunk.
    NoInformant {
        /// What the machine should have.
        goal: Resources,
    },
    /// A request failed, or nobody answered in time.
    Failed {
        /// Whom it was made to.
        party: Party,
        /// When it is tried again.
        again_at: Moment,
    },
    /// Less was permitted than was asked for.
    GrantedLess {
        /// What was asked for.
        asked: Resources,
        /// What was permitted.
        permit: Resources,
        /// When it is asked for again.
        again_at: Moment,
    },
    /// A permit that cannot be: above what was asked for, or below what was held.
    PermitRefused {
        /// What was asked for.
        asked: Resources,
        /// What was said to be permitted.
        permit: Resources,
    },
    /// The guest refused to shrink.
    DownscaleDenied {
        /// What it was asked to make do with.
        asked: Resources,
        /// When it may be asked again.
        again_at: Moment,
    },
    /// The machine moves away, so nothing is changed any more.
    Moving,
    /// The machine was changed by somebody else to more than was permitted.
    AbovePermit {
        /// What it was seen to use.
        using: Resources,
        /// What it may use.
        permit: Resources,
    },
}

impl Party {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::Machine => "machine",
            Self::Informant => "informant",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |at: &Moment| at.as_ms_floor();
        match self {
            Self::NoMetrics => f.write_str("no metrics, so it is not shrunk"),
            Self::NoInformant { goal } => {
                write!(f, "to have {goal}, but nobody in the guest can agree to shrink")
            }
            Self::Failed { party, again_at } => {
                write!(f, "no answer of the {}, again at {} ms", party.name(), ms(again_at))
            }
            Self::GrantedLess { asked, permit, again_at } => write!(
                f,
                "permitted {permit} where {asked} were asked for, again at {} ms",
                ms(again_at)
            ),
            Self::PermitRefused { asked, permit } => {
                write!(f, "a permit of {permit} where {asked} were asked for cannot be right")
            }
            Self::DownscaleDenied { asked, again_at } => {
                write!(f, "the guest needs more than {asked}, again at {} ms", ms(again_at))
            }
            Self::Moving => f.write_str("it moves to another node, so nothing is changed"),
            Self::AbovePermit { using, permit } => {
                write!(f, "somebody gave it {using} where {permit} are permitted")
            }
        }
    }
}
