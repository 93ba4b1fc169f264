//! Why a workload got what it got: a closed list, each with a stable code and a sentence for
//! people.

use alloc::format;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use super::{Bid, Fairness, Grant};
use crate::units::Millicores;

/// Why a grant is as large as it is. The serialised names are a promise to users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The need was met in full.
    NeedMet,
    /// The need is no more than the workload's min, and the min is guaranteed.
    AtMin,
    /// The need reaches the workload's max, and was met in full.
    AtMax,
    /// The market is congested, but this need was small enough to be met in full.
    Filled,
    /// The market is congested and part of the surplus above the min was cut.
    Cut,
    /// The market is overloaded and the min was scaled down.
    MinScaled,
    /// The market is overloaded and the workload was held at the survival floor.
    SurvivalFloor,
    /// The market is so overloaded that capacity was split equally.
    EqualSplit,
    /// Needs are more than there is, but none goes short: this much would be left if all asked
    /// for theirs at once.
    IfAllAsked,
}

impl Reason {
    /// The code a program matches on.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::NeedMet => "need_met",
            Self::AtMin => "at_min",
            Self::AtMax => "at_max",
            Self::Filled => "filled",
            Self::Cut => "cut",
            Self::MinScaled => "min_scaled",
            Self::SurvivalFloor => "survival_floor",
            Self::EqualSplit => "equal_split",
            Self::IfAllAsked => "if_all_asked",
        }
    }

    /// The reason of a need that was met where nothing was scarce.
    pub(super) fn met(bid: &Bid, need: Millicores) -> Self {
        if need == bid.min() {
            Self::AtMin
        } else if need == bid.max() {
            Self::AtMax
        } else {
            Self::NeedMet
        }
    }

    /// What a reason becomes where CPU is idle: no need is cut there.
    pub(super) const fn while_idle(self) -> Self {
        match self {
            Self::Cut | Self::MinScaled | Self::SurvivalFloor | Self::EqualSplit => {
                Self::IfAllAsked
            }
            kept
            @ (Self::NeedMet | Self::AtMin | Self::AtMax | Self::Filled | Self::IfAllAsked) => kept,
        }
    }

    /// The sentence a tired person reads, with the numbers in it.
    #[must_use]
    pub fn sentence(self, bid: &Bid, grant: &Grant, fairness: Fairness) -> String {
        let (need, min, amount) = (grant.need, bid.min(), grant.amount);
        match self {
            Self::NeedMet => format!("needs {need}, and there is room for it"),
            Self::AtMin => format!("needs no more than its guaranteed min of {min}"),
            Self::AtMax if bid.need() < need => format!("gets all it may have: its max of {need}"),
            Self::AtMax => format!("needs all it may have: its max of {need}"),
            Self::Filled => match fairness {
                Fairness::Proportional => {
                    format!("needs {need}, which its weight of {} secures in full", bid.weight())
                }
                Fairness::Nash => format!("needs {need}, less than its share, so it got it all"),
            },
            Self::Cut => {
                let extra = amount.saturating_sub(min);
                let surplus = need.saturating_sub(min);
                format!("keeps {min} and gets {extra} of the {surplus} it wanted above that")
            }
            Self::MinScaled => format!("the mins do not fit: {amount} of its min of {min}"),
            Self::SurvivalFloor => format!("the mins do not fit: held at the floor of {amount}"),
            Self::EqualSplit => {
                format!("there is not even 10m for each workload: an equal split, {amount}")
            }
            Self::IfAllAsked => {
                format!("needs {need}; {amount} would be left for it if all asked at once")
            }
        }
    }
}
