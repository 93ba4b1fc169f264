//! What Prometheus is asked about pods, in the words of Kubernetes. `walras_node::latency` asks it.

use walras_core::units::WorkloadUid;
use walras_node::latency::{SettingNames, Target};

/// What the keys of the ConfigMap are called.
pub const SETTINGS: SettingNames = SettingNames { url: "prometheusURL", query: "prometheusQuery" };

/// A pod with a target: `$namespace` and `$pod` stand for it in the query.
#[must_use]
pub fn target(uid: WorkloadUid, namespace: &str, name: &str, missed_above_ms: f64) -> Target {
    Target {
        uid,
        name: format!("{namespace}/{name}"),
        placeholders: vec![("$namespace", namespace.to_owned()), ("$pod", name.to_owned())],
        missed_above_ms,
    }
}
