//! What a node daemon tells about itself: the answers of its HTTP API, which the dashboard,
//! `walras top` and `walras explain` read.
//!
//! CPU is in millicores, moments are milliseconds since 1970, ratios are plain numbers. What is not
//! known is left out as `null`, never guessed as 0. New fields may be added; readers ignore what
//! they do not know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The whole node: the answer of `GET /api/v1/state`, and each event of `GET /api/v1/stream`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeState {
    /// The daemon's version.
    pub version: String,
    /// The machine's name.
    pub host: String,
    /// The profile its constants started from.
    pub profile: String,
    /// Whether it changes anything, or only watches.
    pub acting: bool,
    /// When this was true.
    pub at_ms: u64,
    /// How long the daemon has been running.
    pub uptime_s: u64,
    /// What there is to divide.
    pub capacity_milli: u64,
    /// What all limits together may reach.
    pub limit_budget_milli: u64,
    /// All usages together.
    pub usage_milli: u64,
    /// All needs together.
    pub need_milli: u64,
    /// All requests together.
    pub request_milli: u64,
    /// The limits of those that have one, together.
    pub limit_milli: u64,
    /// What is idle of the machine, where that was measured.
    #[serde(default)]
    pub idle_milli: Option<u64>,
    /// What others use that are not sized, where that was measured.
    #[serde(default)]
    pub unmanaged_milli: Option<u64>,
    /// How much idle CPU means that there is enough: with less, CPU is scarce.
    #[serde(default)]
    pub guard_milli: u64,
    /// What workloads have a right to and do not need, together.
    #[serde(default)]
    pub lent_milli: u64,
    /// `uncongested`, `congested` or `overloaded`.
    pub mode: String,
    /// The published price.
    pub price: f64,
    /// The solver's own multiplier.
    pub multiplier: f64,
    /// How many times the fast loop has ticked.
    pub fast_ticks: u64,
    /// How many times the market was cleared.
    pub slow_ticks: u64,
    /// How many changes took effect.
    pub changes: u64,
    /// How many were tried and failed.
    pub failures: u64,
    /// What a person should know, in sentences; the most urgent first.
    pub problems: Vec<String>,
    /// What its settings say without effect, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Whether the figures of the machine are told as well, at `/api/v1/telemetry`.
    #[serde(default)]
    pub telemetry: bool,
    /// Every workload, in uid order.
    #[serde(rename = "pods")]
    pub workloads: Vec<WorkloadState>,
}

/// One workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadState {
    /// Its identity for as long as it lives.
    pub uid: String,
    /// What a person calls it.
    pub name: String,
    /// Where it comes from: `walras`, `docker`, `podman`, `systemd`, `path` or `kubernetes`.
    pub kind: String,
    /// The least it is granted.
    pub min_milli: u64,
    /// The most it is granted.
    pub max_milli: u64,
    /// What its claim counts for.
    pub weight: f64,
    /// What it used lately.
    pub usage_milli: Option<u64>,
    /// What it needs.
    pub need_milli: Option<u64>,
    /// What the market granted it.
    pub grant_milli: Option<u64>,
    /// Why it was granted that much, in a few words.
    pub grant_reason: Option<String>,
    /// How much of what it bid for above its min was cut: 0 none, 1 all of it or more.
    pub reduction_ratio: Option<f64>,
    /// Its guarantee.
    pub request_milli: u64,
    /// Why it is that much, where it follows what the workload uses or an autoscaler goes by it.
    #[serde(default)]
    pub request_reason: Option<String>,
    /// Its cap; 1024000 or more where it has none.
    pub limit_milli: u64,
    /// What it has a right to and does not need.
    #[serde(default)]
    pub lent_milli: u64,
    /// Who waited when it was contained, if it is.
    #[serde(default)]
    pub contained_for: Option<String>,
    /// What would be set, where the daemon only watches and would change something.
    #[serde(default)]
    pub suggested: Option<Suggested>,
    /// Its burst buffer.
    pub burst_milli: u64,
    /// The kernel's weight, once set.
    pub kernel_weight: Option<u32>,
    /// The limit it came with; nothing where it came without.
    pub original_limit_milli: Option<u64>,
    /// Throttled periods over all periods, lately.
    pub throttled_period_ratio: Option<f64>,
    /// Throttled time over used time, lately.
    pub throttle_ratio: Option<f64>,
    /// The latency target, if it has one.
    pub target_latency_ms: Option<f64>,
    /// Whether it misses that target.
    pub latency_missed: bool,
    /// Whether every fast tick looks at it.
    pub hot: bool,
    /// The last change of it.
    pub last_change: Option<Change>,
}

/// What a daemon that only watches would have made of a workload by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Suggested {
    /// The guarantee it would set.
    pub request_milli: u64,
    /// The cap it would set; 1024000 or more for none.
    pub limit_milli: u64,
    /// How often it would have changed them in the last hour.
    pub changes_last_hour: u32,
}

/// One change of one workload, carried out or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// When.
    pub at_ms: u64,
    /// `fast` or `slow`.
    pub r#loop: String,
    /// The limit before.
    pub limit_from_milli: u64,
    /// The limit after.
    pub limit_to_milli: u64,
    /// The request before.
    pub request_from_milli: u64,
    /// The request after.
    pub request_to_milli: u64,
    /// Why, in a sentence.
    pub why: String,
    /// What became of it.
    pub result: ChangeResult,
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeResult {
    /// It is in force.
    Done,
    /// It was asked for, and is not in force yet.
    Asked,
    /// The daemon only watches, so nothing was written.
    OnlyWatching,
    /// It failed, and why.
    Failed(String),
}

/// Why a workload has what it has: the answer of `GET /api/v1/pods/{uid}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// When this was true.
    pub at_ms: u64,
    /// How it stands.
    #[serde(rename = "pod")]
    pub workload: WorkloadState,
    /// The story in sentences: what it did, what it needs, how the market stands, what it was
    /// granted and why, what was smoothed or held back.
    pub sentences: Vec<String>,
    /// The last changes, newest first.
    pub changes: Vec<Change>,
    /// What was noticed about it lately, newest first: a moment and a sentence each.
    pub notes: Vec<Noticed>,
}

/// Something that was noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Noticed {
    /// When.
    pub at_ms: u64,
    /// What.
    pub text: String,
}

/// The last hour as columns of equal length, oldest first: the answer of `GET /api/v1/history`,
/// and of `GET /api/v1/history?uid=UID` for one workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// The time between two points.
    pub step_ms: u64,
    /// When each point was true.
    pub at_ms: Vec<u64>,
    /// Usage.
    pub usage_milli: Vec<Option<u64>>,
    /// Need.
    pub need_milli: Vec<Option<u64>>,
    /// Request.
    pub request_milli: Vec<Option<u64>>,
    /// Limit.
    pub limit_milli: Vec<Option<u64>>,
    /// Throttled periods over all periods.
    pub throttled_period_ratio: Vec<Option<f64>>,
    /// The price.
    pub price: Vec<Option<f64>>,
}

/// What went wrong: the answer of every request that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// What went wrong, in a sentence.
    pub error: String,
}
