//! The columns of `walras top`: what each says, what it is sorted by, and which go first where
//! there is little room.

use std::cmp::Ordering;

use walras_core::units::Millicores;
use walras_wire::state::{ChangeResult, WorkloadState};

use crate::commands::explain::{ago, moved};

/// One column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Name,
    Kind,
    Usage,
    Need,
    Grant,
    Request,
    Limit,
    Throttled,
    Weight,
    Change,
}

// === impl Column ===

impl Column {
    /// In the order in which they are shown.
    pub(super) const ALL: [Self; 10] = [
        Self::Name,
        Self::Kind,
        Self::Usage,
        Self::Need,
        Self::Grant,
        Self::Request,
        Self::Limit,
        Self::Throttled,
        Self::Weight,
        Self::Change,
    ];

    /// Its heading.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Name => "POD",
            Self::Kind => "KIND",
            Self::Usage => "USAGE",
            Self::Need => "NEED",
            Self::Grant => "GRANT",
            Self::Request => "REQUEST",
            Self::Limit => "LIMIT",
            Self::Throttled => "THROTTLED",
            Self::Weight => "WEIGHT",
            Self::Change => "LAST CHANGE",
        }
    }

    /// Whether it holds text, which begins at the left.
    pub(super) const fn is_text(self) -> bool {
        match self {
            Self::Name | Self::Kind | Self::Change => true,
            Self::Usage
            | Self::Need
            | Self::Grant
            | Self::Request
            | Self::Limit
            | Self::Throttled
            | Self::Weight => false,
        }
    }

    /// How wide it is; names get what is left.
    pub(super) const fn width(self) -> u16 {
        match self {
            Self::Name => 16,
            Self::Kind => 10,
            Self::Usage | Self::Need | Self::Grant | Self::Limit => 8,
            Self::Request => 9,
            Self::Throttled => 11,
            Self::Weight => 7,
            Self::Change => 24,
        }
    }

    /// The columns that fit into `width`, in order.
    pub(super) fn fitting(width: u16) -> Vec<Self> {
        // The last to go first.
        let leaving = [
            Self::Change,
            Self::Weight,
            Self::Kind,
            Self::Request,
            Self::Grant,
            Self::Throttled,
            Self::Need,
        ];
        let mut columns = Self::ALL.to_vec();
        for leaving in leaving {
            let needed: u16 = columns.iter().map(|column| column.width() + 1).sum();
            if needed <= width {
                break;
            }
            columns.retain(|column| *column != leaving);
        }
        columns
    }

    /// What its cell says.
    pub(super) fn text(self, workload: &WorkloadState, now_ms: u64) -> String {
        match self {
            Self::Name => workload.name.clone(),
            Self::Kind => workload.kind.clone(),
            Self::Usage => known(workload.usage_milli),
            Self::Need => known(workload.need_milli),
            Self::Grant => known(workload.grant_milli),
            Self::Request => known(Some(workload.request_milli)),
            Self::Limit => known(Some(workload.limit_milli)),
            Self::Throttled => workload.throttled_period_ratio.map_or("-".to_owned(), percent),
            Self::Weight => workload.weight.to_string(),
            Self::Change => match &workload.last_change {
                None => "none yet".to_owned(),
                Some(change) => {
                    let became = match &change.result {
                        ChangeResult::Done => "",
                        ChangeResult::Asked => " (asked for)",
                        ChangeResult::OnlyWatching => " (not made)",
                        ChangeResult::Failed(_) => " FAILED",
                    };
                    format!("{} {}{became}", ago(now_ms, change.at_ms), moved(change))
                }
            },
        }
    }

    /// Which of two workloads comes first, the smaller one.
    pub(super) fn compare(self, a: &WorkloadState, b: &WorkloadState) -> Ordering {
        match self {
            Self::Name => a.name.cmp(&b.name),
            Self::Kind => a.kind.cmp(&b.kind),
            Self::Usage => a.usage_milli.cmp(&b.usage_milli),
            Self::Need => a.need_milli.cmp(&b.need_milli),
            Self::Grant => a.grant_milli.cmp(&b.grant_milli),
            Self::Request => a.request_milli.cmp(&b.request_milli),
            Self::Limit => a.limit_milli.cmp(&b.limit_milli),
            Self::Throttled => {
                let ratio =
                    |workload: &WorkloadState| workload.throttled_period_ratio.unwrap_or(-1.0);
                ratio(a).total_cmp(&ratio(b))
            }
            Self::Weight => a.weight.total_cmp(&b.weight),
            Self::Change => {
                let at = |workload: &WorkloadState| {
                    workload.last_change.as_ref().map(|change| change.at_ms)
                };
                at(a).cmp(&at(b))
            }
        }
    }
}

/// A ratio in percent.
pub(super) fn percent(ratio: f64) -> String {
    match ratio * 100.0 {
        0.0 => "0 %".to_owned(),
        small if small < 10.0 => format!("{small:.1} %"),
        large => format!("{large:.0} %"),
    }
}

fn known(amount: Option<u64>) -> String {
    amount.map_or("-".to_owned(), |amount| Millicores::new(amount).to_string())
}
