//! What is written about a tick. The names and their meaning are a promise to users.

use schemars::JsonSchema;
use serde::Serialize;
use walras_core::market::Mode;
use walras_core::node::Action;
use walras_core::units::Millicores;

use super::Ticked;
use crate::kind::{Cpu, LoopWord, Milliseconds, ModeWord, Uid};

/// What one tick decided.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TickLine {
    /// When, as in the input.
    #[schemars(with = "Milliseconds")]
    at_ms: u64,
    /// Which loop ticked.
    #[schemars(with = "LoopWord")]
    r#loop: &'static str,
    /// How the market stood at the last clearing.
    #[schemars(with = "ModeWord")]
    mode: Mode,
    /// The published price of the last clearing.
    #[schemars(range(min = 0.0))]
    shadow_price: f64,
    /// What to do, in uid order.
    actions: Vec<ActionLine>,
    /// What was noticed, and what was wanted but not done.
    notes: Vec<String>,
}

/// What is to be done to one workload, all of it at once.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct ActionLine {
    /// The workload.
    #[schemars(with = "Uid")]
    uid: String,
    /// The cap to set.
    #[schemars(with = "Cpu")]
    limit_milli: Millicores,
    /// The guarantee to set.
    #[schemars(with = "Cpu")]
    request_milli: Millicores,
    /// The kernel's weight to set (`cpu.weight`).
    #[schemars(range(min = 1, max = 10000))]
    weight: u32,
    /// The burst buffer to set; never above the limit.
    #[schemars(with = "Cpu")]
    burst_milli: Millicores,
    /// Why.
    why: String,
}

// === impl TickLine ===

impl TickLine {
    /// What is written about `ticked`.
    #[must_use]
    pub fn new(ticked: &Ticked) -> Self {
        let Ticked { at, outcome } = ticked;
        Self {
            at_ms: at.as_ms_floor(),
            r#loop: outcome.tick.name(),
            mode: outcome.mode,
            shadow_price: outcome.price.to_f64(),
            actions: outcome.actions.iter().map(ActionLine::new).collect(),
            notes: outcome.notes.iter().map(ToString::to_string).collect(),
        }
    }
}

// === impl ActionLine ===

impl ActionLine {
    fn new(action: &Action) -> Self {
        Self {
            uid: action.uid.to_string(),
            limit_milli: action.limit,
            request_milli: action.request,
            weight: action.weight.get(),
            burst_milli: action.burst,
            why: action.why.to_string(),
        }
    }
}
