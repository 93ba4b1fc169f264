//! What a scheduler tells about nodes and placements: the answers of its HTTP API, which the page
//! of the cluster, the rebalancer and `kubectl walras explain --placement` read.
//!
//! Points go from 0 to 100, moments are milliseconds since 1970. What is not known is `null`. New
//! fields may be added; readers ignore what they do not know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The nodes: the answer of `GET /api/v1/nodes`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodesTold {
    /// When this was true.
    pub at_ms: u64,
    /// `shadow` or `active`.
    pub mode: String,
    /// What scores: the name of a model, or that there is none.
    pub model: String,
    /// The nodes, by name.
    pub nodes: Vec<NodeTold>,
}

/// A node for a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeTold {
    /// Its name.
    pub node: String,
    /// What it scores, after the market.
    pub points: f64,
    /// What its market took away.
    pub paid: f64,
    /// Why: `model`, `no_model`, `unfit`, `silent`, `no_telemetry` or `stale`.
    pub basis: String,
    /// How old its telemetry is.
    pub age_ms: Option<u64>,
    /// How busy its CPUs are, from 0 to 1, with pods that were bound a moment ago.
    pub cpu: Option<f64>,
    /// How full its memory is, from 0 to 1, with pods that were bound a moment ago.
    pub memory: Option<f64>,
    /// The price of its market.
    pub price: Option<f64>,
    /// What its pods have a right to and do not need.
    pub lent_milli: Option<u64>,
}

/// The last placements: the answer of `GET /api/v1/placements`, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlacementsTold {
    /// When this was true.
    pub at_ms: u64,
    /// Them.
    pub placements: Vec<PlacementTold>,
}

/// One pod that nodes were scored for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlacementTold {
    /// The pod's namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// Its uid.
    pub uid: String,
    /// When nodes were scored.
    pub at_ms: u64,
    /// `shadow` or `active`.
    pub mode: String,
    /// How many nodes were asked about.
    pub candidates: usize,
    /// The best node by points.
    pub recommended: String,
    /// Whether no other node was as good in a scheduler's whole numbers.
    pub strictly: bool,
    /// Why, in a sentence.
    pub reasoning: String,
    /// The node that the pod was bound to, once it is.
    pub actual: Option<String>,
    /// The best of the candidates, the best first; the others are left out.
    pub nodes: Vec<NodeTold>,
}
