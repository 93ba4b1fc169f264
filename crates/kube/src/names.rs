//! Every name that a user of Kubernetes may type or meet: annotations, labels, objects, managers.
//!
//! Names that begin with `mbcas.io` and `kubeattention.io` are those of the predecessors, so that
//! their users change nothing; what is new begins with `walras.dev`.

use std::collections::BTreeSet;

/// The namespace that Walras is installed into, unless told otherwise.
pub const NAMESPACE: &str = "mbcas-system";
/// Namespaces whose pods are always left alone, beside the one Walras runs in.
pub const EXCLUDED_NAMESPACES: [&str; 2] = ["kube-system", NAMESPACE];

/// The agent's settings, a ConfigMap.
pub const CONFIG: &str = "mbcas-agent-config";
/// What agents learned: a ConfigMap for each node, whose name is this and the node's.
pub const TABLES_PREFIX: &str = "mbcas-qtable-";
/// The lease that says which controller acts.
pub const LEASE: &str = "mbcas-controller-leader-election";

/// `"false"` leaves a pod alone; an annotation or a label.
pub const MANAGED: &str = "mbcas.io/managed";
/// The least CPU that a pod may be granted.
pub const MIN_CPU: &str = "mbcas.io/min-cpu";
/// The latency that a pod's users should see at most, for 99 of 100 requests.
pub const TARGET_LATENCY_MS: &str = "mbcas.io/target-latency-ms";
/// `"false"` sizes a Guaranteed pod, too.
pub const SKIP_GUARANTEED: &str = "mbcas.io/skip-guaranteed";
/// Multiplies a pod's weight.
pub const PRIORITY_MULTIPLIER: &str = "mbcas.io/priority-multiplier";
/// The most CPU that a pod may be granted, or any pod of a namespace.
pub const MAX_CPU: &str = "walras.dev/max-cpu";
/// What the pods of a namespace may be granted for sure beyond what they requested, together on
/// each node; an annotation of the namespace.
pub const MAX_RIGHTS: &str = "walras.dev/max-rights";
/// What the weights of the pods of a namespace together may be multiplied by; an annotation of the
/// namespace.
pub const MAX_PRIORITY: &str = "walras.dev/max-priority";
/// What kind of work a pod does: `batch` takes what is left over, `service` is never contained.
pub const NATURE: &str = "walras.dev/nature";
/// What may be changed of a pod, or of every pod of a namespace: see [`crate::pod::Mode`].
pub const MODE: &str = "walras.dev/mode";
/// What the mode was before the pause; an empty text where none was said.
pub const MODE_BEFORE_PAUSE: &str = "walras.dev/mode-before-pause";
/// What a pod came with, as JSON; written before it is first resized.
pub const ORIGINAL_RESOURCES: &str = "walras.dev/original-resources";
/// Who else sizes a pod or goes by its requests, as `KIND/NAME`. The controller writes it, so that
/// the agent of the node need not watch autoscalers: see [`crate::pod::mark_of`].
pub const AUTOSCALER: &str = "walras.dev/autoscaler";

/// What a pod spends its time on, such as `cpu-bound`; an annotation or a label.
pub const WORKLOAD_TYPE: &str = "kubeattention.io/workload-type";
/// How much depends on a pod, such as `high`; an annotation or a label.
pub const CRITICALITY: &str = "kubeattention.io/criticality";
/// The node that scored best for a pod when it was placed.
pub const RECOMMENDED_NODE: &str = "kubeattention.io/recommended-node";
/// What that node scored, from 0 to 100.
pub const SCORE: &str = "kubeattention.io/score";
/// How much the model trusts that, from 0 to 1.
pub const CONFIDENCE: &str = "kubeattention.io/confidence";
/// Why it scored so, in words.
pub const REASONING: &str = "kubeattention.io/reasoning";
/// Whether scores steered the placement.
pub const PLACEMENT_MODE: &str = "kubeattention.io/mode";
/// When nodes were scored.
pub const PLACEMENT_TIME: &str = "kubeattention.io/time";
/// Whether the pod was put on the recommended node: `match` or `differ`.
pub const DECISION: &str = "kubeattention.io/decision";
/// The node that it was put on.
pub const ACTUAL_NODE: &str = "kubeattention.io/actual-node";
/// The node on which a pod would be better off.
pub const REBALANCE_TARGET: &str = "kubeattention.io/rebalance-target";
/// By how many points.
pub const REBALANCE_DELTA: &str = "kubeattention.io/rebalance-delta";
/// Why, in words.
pub const REBALANCE_REASON: &str = "kubeattention.io/rebalance-reason";
/// When that was found.
pub const REBALANCE_TIMESTAMP: &str = "kubeattention.io/rebalance-timestamp";
/// `"false"` keeps a pod where it is, whatever its node scores.
pub const REBALANCE: &str = "walras.dev/rebalance";

/// The audience of the tokens by which agents prove themselves to schedulers.
pub const SCHEDULER_AUDIENCE: &str = "walras-scheduler";
/// The service account of agents.
pub const AGENT_ACCOUNT: &str = "walras-agent";

/// The node whose agent wrote an object; a label.
pub const NODE: &str = "walras.dev/node";

/// The field manager of the agent.
pub const AGENT_MANAGER: &str = "walras-agent";
/// The field manager of the scheduler.
pub const SCHEDULER_MANAGER: &str = "walras-scheduler";
/// The field manager of the controller.
pub const CONTROLLER_MANAGER: &str = "walras-controller";

/// A label's value can be no longer.
const LABEL_LONGEST: usize = 63;

/// Namespaces whose pods are left alone, beside the one Walras runs in: those that always are, and
/// those that the setting `excludedNamespaces` says, with commas between them.
#[must_use]
pub fn excluded_namespaces(said: &str) -> BTreeSet<String> {
    let said = said.split(',').map(str::trim).filter(|name| !name.is_empty());
    EXCLUDED_NAMESPACES.into_iter().chain(said).map(str::to_owned).collect()
}

/// A node's name as a label's value: cut where it is too long, but still different from others'.
#[must_use]
pub fn node_label(node: &str) -> String {
    if node.len() <= LABEL_LONGEST {
        return node.to_owned();
    }
    let hash = format!("-{:016x}", fnv(node.as_bytes()));
    let kept: String = node.chars().take(LABEL_LONGEST - hash.len()).collect();
    format!("{kept}{hash}")
}

/// A hash that is the same everywhere.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_said_with_commas_between_them_and_some_need_not_be_said() {
        let check = |said: &str| Vec::from_iter(excluded_namespaces(said)).join(" ");
        assert_eq!(check(""), "kube-system mbcas-system");
        assert_eq!(check(" shop, bank,,kube-system,"), "bank kube-system mbcas-system shop");
    }

    #[test]
    fn a_long_name_of_a_node_is_still_a_label() {
        assert_eq!(node_label("node-1"), "node-1");
        let (one, other) = (node_label(&"x".repeat(70)), node_label(&"x".repeat(71)));
        assert_eq!((one.len(), other.len()), (63, 63));
        assert_ne!(one, other);
    }
}
