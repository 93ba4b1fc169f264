//! What the controller tells of a whole cluster: every allocation, and how resizing goes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a cluster stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterState {
    /// The controller's version.
    pub version: String,
    /// When this was true, in milliseconds since 1970.
    pub at_ms: u64,
    /// The controller that tells this, by the name it has in the lease.
    pub me: String,
    /// Whether this controller acts.
    pub leader: bool,
    /// The name in the lease, where there are several controllers and one of them wrote it.
    pub holder: Option<String>,
    /// Whether it only says what it would do, whatever the mode.
    pub dry_run: bool,
    /// Whether all objects of the cluster have been read; no pod is resized before.
    pub synced: bool,
    /// Whether any settings have been read; no pod is resized before, whatever a pod says.
    pub configured: bool,
    /// What may be changed of pods that say nothing themselves.
    pub mode: String,
    /// Resizes asked for since it started.
    pub resizes: u64,
    /// Resizes that were seen in force.
    pub verified: u64,
    /// How many allocations wait to be looked at.
    pub waiting: u64,
    /// What a person should know.
    pub problems: Vec<String>,
    /// The allocations, by namespace and pod; of very many, those first whose pods do not have what
    /// they ask for.
    pub allocations: Vec<AllocationState>,
    /// How many more there are.
    #[serde(default)]
    pub left_out: u64,
}

/// How one pod's allocation stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AllocationState {
    /// The object that asks for it: its namespace and its name.
    pub allocation: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// Its node.
    pub node: Option<String>,
    /// What it should request, in thousandths of a core.
    pub desired_request_milli: Option<u64>,
    /// What its limit should be.
    pub desired_limit_milli: Option<u64>,
    /// What it requests, as far as its node has agreed.
    pub request_milli: Option<u64>,
    /// What its limit is, as its node enforces it.
    pub limit_milli: Option<u64>,
    /// What CPU cost on its node.
    pub price: Option<f64>,
    /// Whether a controller has answered to what is asked for now; what follows is about something
    /// older otherwise, or not there.
    pub answered: bool,
    /// `Pending`, `Applied` or `Failed`.
    pub phase: String,
    /// Why, for programs.
    pub reason: String,
    /// Why and what comes next, for people.
    pub message: String,
}
