//! What is written about a clearing. The names and their meaning are a promise to users.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use walras_core::market::{Clearing, Mode, Reason};
use walras_core::need::NeedFrom;
use walras_core::units::{Millicores, WorkloadUid};

use super::Market;
use crate::kind::{Cpu, ModeWord, Uid};

/// How the market stands, at which price, and who gets what.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ClearOutput<'a> {
    /// How the market stands: all needs fit, only the mins fit, or not even those. While needs are
    /// within 5 % of capacity the previous mode is kept.
    #[schemars(with = "ModeWord")]
    mode: Mode,
    /// The published price: how far the needs exceed capacity, times the mean weight.
    #[schemars(range(min = 0.0))]
    shadow_price: f64,
    /// The solver's own price: weight per core (nash), weighted claims per share of spare capacity
    /// (proportional); 0 where all needs fit.
    #[schemars(range(min = 0.0))]
    multiplier: f64,
    /// What there was to divide.
    #[schemars(with = "Cpu")]
    capacity_milli: Millicores,
    /// The sum of what workloads cannot be bargained below: their mins, or what they need of them.
    #[schemars(with = "u64")]
    total_min_milli: Millicores,
    /// The sum of all needs.
    #[schemars(with = "u64")]
    total_need_milli: Millicores,
    /// The sum of all allocations; never above capacity.
    #[schemars(with = "Cpu")]
    total_allocation_milli: Millicores,
    /// What each workload gets, in the order of the input.
    #[serde(rename = "pods")]
    workloads: Vec<WorkloadOutput<'a>>,
}

/// What one workload gets.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct WorkloadOutput<'a> {
    /// The workload's name, as in the input.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "Uid")]
    uid: &'a WorkloadUid,
    /// What it needs, within its bounds; its max where needs do not cap.
    #[schemars(with = "Cpu")]
    need_milli: Millicores,
    /// What its need was made of.
    #[schemars(with = "NeedFromCode")]
    need_from: &'static str,
    /// What it has a right to and does not need, so that others may use it.
    #[schemars(with = "Cpu")]
    lent_milli: Millicores,
    /// What it gets.
    #[schemars(with = "Cpu")]
    allocation_milli: Millicores,
    /// How much of its need it does not get: 0 nothing, 1 all of it.
    #[schemars(range(min = 0.0, max = 1.0))]
    cut_ratio: f64,
    /// How much of what it wanted above its min was cut: 0 none, 1 all of it or more.
    #[schemars(range(min = 0.0, max = 1.0))]
    reduction_ratio: f64,
    /// Why it is this much.
    #[schemars(with = "ReasonCode")]
    reason: &'static str,
}

/// The codes of [`Reason`], for the schema.
struct ReasonCode;

/// The codes of [`NeedFrom`], for the schema.
struct NeedFromCode;

/// Every reason there is.
const REASONS: [Reason; 9] = [
    Reason::NeedMet,
    Reason::AtMin,
    Reason::AtMax,
    Reason::Filled,
    Reason::Cut,
    Reason::MinScaled,
    Reason::SurvivalFloor,
    Reason::EqualSplit,
    Reason::IfAllAsked,
];

fn as_text<S: Serializer>(uid: &WorkloadUid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(uid.as_str())
}

// === impl ClearOutput ===

impl<'a> ClearOutput<'a> {
    /// What is written about a clearing of `market`.
    #[must_use]
    pub fn new(market: &'a Market, clearing: &'a Clearing) -> Self {
        let workloads = market.granted(clearing).map(|(workload, grant)| WorkloadOutput {
            uid: &workload.uid,
            need_milli: grant.need,
            need_from: market.estimate(workload).from.code(),
            lent_milli: market.lent(workload),
            allocation_milli: grant.amount,
            cut_ratio: grant.cut().to_f64(),
            reduction_ratio: grant.reduction.to_f64(),
            reason: grant.reason.code(),
        });
        Self {
            mode: clearing.mode,
            shadow_price: clearing.price.to_f64(),
            multiplier: clearing.multiplier.to_f64(),
            capacity_milli: market.terms.capacity,
            total_min_milli: clearing.total_min,
            total_need_milli: clearing.total_need,
            total_allocation_milli: clearing.total_grant,
            workloads: workloads.collect(),
        }
    }
}

// === impl ReasonCode ===

impl JsonSchema for ReasonCode {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ReasonCode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": REASONS.map(Reason::code) })
    }
}

// === impl NeedFromCode ===

impl JsonSchema for NeedFromCode {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "NeedFromCode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": NeedFrom::ALL.map(NeedFrom::code) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_in_the_list_at_its_own_place() {
        for (place, reason) in REASONS.into_iter().enumerate() {
            // A new reason does not compile here until it is given a place.
            let expected = match reason {
                Reason::NeedMet => 0,
                Reason::AtMin => 1,
                Reason::AtMax => 2,
                Reason::Filled => 3,
                Reason::Cut => 4,
                Reason::MinScaled => 5,
                Reason::SurvivalFloor => 6,
                Reason::EqualSplit => 7,
                Reason::IfAllAsked => 8,
            };
            assert_eq!(place, expected);
        }
    }
}
