//! What `walras telemetry --json` and a daemon tell of a node: every figure, with its source or the
//! reason why there is none.
//!
//! Moments are milliseconds since 1970. A figure that was not measured is `null`, never 0. New
//! fields may be added; readers ignore what they do not know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of this message.
pub const VERSION: u32 = 1;

/// A node at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeTelemetry {
    /// The version of this message.
    pub version: u32,
    /// The node's name.
    pub node: String,
    /// When the figures were taken.
    pub taken_unix_ms: u64,
    /// How old they were when this was written.
    pub age_ms: u64,
    /// Whether that is too old to tell anything about now.
    pub stale: bool,
    /// The time that rates are over.
    pub over_ms: Option<u64>,
    /// Its zone.
    pub zone: Option<String>,
    /// Its rack.
    pub rack: Option<String>,
    /// All figures: first the features of models, in their order.
    pub figures: Vec<Figure>,
    /// Why packets were thrown away, the most frequent reason first.
    pub drops: Vec<Drops>,
    /// What the market of the node says about itself, if it has one.
    #[serde(default)]
    pub market: Option<MarketSaid>,
}

/// A node's market.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MarketSaid {
    /// The published price.
    pub price: f64,
    /// The mode it is in.
    pub mode: String,
    /// What pods have a right to and do not need.
    pub lent_milli: u64,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// The metric of Prometheus that it is served as.
    #[serde(default)]
    pub metric: String,
    /// What it is, in a sentence.
    #[serde(default)]
    pub about: String,
    /// What its number counts.
    pub unit: String,
    /// Whether it is one of the features that models are given.
    pub feature: bool,
    /// The number.
    pub value: Option<f64>,
    /// Why there is none.
    pub unavailable: Option<String>,
    /// Where it comes from, or would.
    pub source: String,
}

/// Packets thrown away for one reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drops {
    /// The kernel's name of the reason, or its number.
    pub reason: String,
    /// How many in a second.
    pub per_second: f64,
}
