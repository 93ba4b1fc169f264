//! What owners of namespaces may get by annotations, and what it is worth after that.
//!
//! Administrators say it: for everybody by the agent's settings, for a namespace by annotations of
//! the Namespace, which owners of what is in it may not write. What a pod asks for beyond that is
//! told, and counts only as far as it goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use kube::core::PartialObjectMeta;
use walras_core::claim::{Ground, claim};
use walras_core::tenant::{Leave, Wished, claims};
use walras_core::units::{Millicores, WorkloadUid};
use walras_wire::settings::{cpu_from, weight_from};

use super::params::Params;
use crate::names;
use crate::pod::Pod;

/// What a namespace says that matters to agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceSays {
    /// Its mode.
    pub mode: Option<String>,
    max_rights: Option<String>,
    max_cpu: Option<String>,
    max_priority: Option<String>,
}

/// What all namespaces say, by their names.
pub type Namespaces = BTreeMap<String, NamespaceSays>;

/// Sized pods by uid, each with what the market is told of it.
pub type SizedPods = BTreeMap<WorkloadUid, (Arc<Pod>, Params)>;

impl NamespaceSays {
    /// What `meta` says, if that is anything.
    pub fn read(meta: &PartialObjectMeta<Namespace>) -> Option<(String, Self)> {
        let said = |name: &str| meta.annotations().get(name).cloned();
        let says = Self {
            mode: said(names::MODE),
            max_rights: said(names::MAX_RIGHTS),
            max_cpu: said(names::MAX_CPU),
            max_priority: said(names::MAX_PRIORITY),
        };
        (says != Self::default()).then(|| (meta.name_any(), says))
    }

    /// What its owners may get where others may get `usual`, and what of it cannot be understood.
    fn leave(&self, usual: Leave) -> (Leave, Vec<String>) {
        let mut complaints = Vec::new();
        let mut complain = |name: &str, text: &str, what: &str| {
            let shown: String = text.chars().take(60).collect();
            complaints.push(format!(
                "the annotation {name} of its namespace is {shown:?}, which is not {what}"
            ));
        };
        let mut leave = usual;
        let amounts = [
            (names::MAX_RIGHTS, &self.max_rights, &mut leave.rights),
            (names::MAX_CPU, &self.max_cpu, &mut leave.max),
        ];
        for (name, text, amount) in amounts {
            let Some(text) = text else { continue };
            match cpu_from(text.trim()) {
                Some(cpu) => *amount = cpu,
                None if text.trim() == "0" => *amount = Millicores::ZERO,
                None => complain(name, text, "an amount of CPU such as 250m or 2"),
            }
        }
        if let Some(text) = &self.max_priority {
            match text.trim().parse().ok().and_then(weight_from) {
                Some(weight) => leave.priority = weight,
                None => complain(names::MAX_PRIORITY, text, "a number above 0"),
            }
        }
        (leave, complaints)
    }
}

/// Makes the claims of all pods from what their owners wish for and are allowed, where others may
/// get `usual`.
pub fn bound(
    sized: &mut SizedPods,
    namespaces: &Namespaces,
    usual: Leave,
    ground: &Ground,
    capacity: Millicores,
) {
    let nothing = NamespaceSays::default();
    let mut owners: BTreeMap<&str, usize> = BTreeMap::new();
    let mut leaves: Vec<(Leave, Vec<String>)> = Vec::new();
    let mut wished = Vec::with_capacity(sized.len());
    for (pod, params) in sized.values() {
        let name = pod.namespace();
        let owner = *owners.entry(name).or_insert_with(|| {
            leaves.push(namespaces.get(name).unwrap_or(&nothing).leave(usual));
            leaves.len() - 1
        });
        let (known, usual_priority) = (params.known, params.usual_priority);
        wished.push(Wished { owner, known, usual_priority });
    }
    let allowed: Vec<Leave> = leaves.iter().map(|(leave, _)| *leave).collect();
    let claims = claims(&wished, &allowed, ground, capacity);
    for (((_, params), wished), got) in sized.values_mut().zip(&wished).zip(claims) {
        let asked = claim(&params.known, ground);
        let (_, complaints) = &leaves[wished.owner];
        params.complaints.extend(complaints.iter().cloned());
        if got.bounds.min() < asked.bounds.min() {
            params.complaints.push(format!(
                "the annotation {} asks for {}, and {} is what it requested and what its namespace \
                 may have beyond that of this node",
                names::MIN_CPU,
                asked.bounds.min(),
                got.bounds.min()
            ));
        }
        (params.bounds, params.weight) = (got.bounds, got.weight);
    }
}

#[cfg(test)]
mod tests {
    use walras_core::profile::CapRule;
    use walras_core::units::Weight;

    use super::*;
    use crate::agent::params::{Rules, judge};
    use crate::pod::Mode;

    const GROUND: Ground = Ground {
        cap_rule: CapRule::Loose,
        baseline: Millicores::new(100),
        node: Millicores::new(4000),
        respect_limits: false,
    };

    fn rules() -> Rules {
        Rules {
            cap_rule: GROUND.cap_rule,
            baseline: GROUND.baseline,
            node: GROUND.node,
            guaranteed: false,
            respect_limits: false,
            excluded: Vec::new(),
            mode: Mode::LimitsOnly,
            target_latency_ms: None,
        }
    }

    fn pod(namespace: &str, uid: &str, request: &str, annotations: &str) -> Pod {
        let text = format!(
            r#"{{ "metadata": {{ "name": "app", "namespace": "{namespace}", "uid": "{uid}",
                "annotations": {annotations} }},
            "spec": {{ "containers": [{{ "name": "app",
                "resources": {{ "requests": {{ "cpu": "{request}" }} }} }}] }},
            "status": {{ "phase": "Running", "qosClass": "Burstable" }} }}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn namespace(annotations: &str) -> NamespaceSays {
        let text =
            format!(r#"{{ "metadata": {{ "name": "shop", "annotations": {annotations} }} }}"#);
        let meta: PartialObjectMeta<Namespace> = serde_json::from_str(&text).unwrap();
        NamespaceSays::read(&meta).map(|(_, says)| says).unwrap_or_default()
    }

    /// The right and the weight of a pod of the namespace `shop` that asks for these, beside one of
    /// another namespace that has requested the rest of the node, and what is complained about.
    fn check(annotations: &str, says: &str, capacity: u64) -> (String, Vec<String>) {
        let mut sized = SizedPods::new();
        for (namespace, uid, request, annotations) in
            [("shop", "a", "100m", annotations), ("bank", "b", "900m", "{}")]
        {
            let pod = pod(namespace, uid, request, annotations);
            let params = judge(&pod, None, &rules()).unwrap();
            sized.insert(WorkloadUid::new(uid), (Arc::new(pod), params));
        }
        let namespaces = Namespaces::from([("shop".to_owned(), namespace(says))]);
        let capacity = Millicores::new(capacity);
        bound(&mut sized, &namespaces, Leave::default(), &GROUND, capacity);
        let (_, bank) = &sized[&WorkloadUid::new("b")];
        assert_eq!(bank.bounds.min(), Millicores::new(900), "others keep what they requested");
        assert_eq!(bank.weight, Weight::from_thousandths(900_000).unwrap());
        let (_, shop) = &sized[&WorkloadUid::new("a")];
        let weight = shop.weight.thousandths() / 1000;
        let shown = format!("{} {} {weight}", shop.bounds.min(), shop.bounds.max());
        (shown, shop.complaints.clone())
    }

    #[test]
    fn a_tenant_gets_no_more_than_what_nobody_requested() {
        let greedy = r#"{ "mbcas.io/min-cpu": "16", "mbcas.io/priority-multiplier": "10" }"#;
        let (got, complaints) = check(greedy, "{}", 1000);
        assert_eq!(got, "100m 4000m 100");
        assert_eq!(
            complaints,
            ["the annotation mbcas.io/min-cpu asks for 4000m, and 100m is what it requested and \
                 what its namespace may have beyond that of this node"]
        );
        assert_eq!(check(greedy, "{}", 1500).0, "600m 4000m 100");
    }

    #[test]
    fn a_namespace_is_allowed_more_or_less_by_whoever_may_write_it() {
        let greedy = r#"{ "mbcas.io/min-cpu": "1", "mbcas.io/priority-multiplier": "10" }"#;
        let says = r#"{ "walras.dev/max-rights": "200m", "walras.dev/max-cpu": "700m",
            "walras.dev/max-priority": "2.5" }"#;
        assert_eq!(check(greedy, says, 4000).0, "300m 700m 250");
        let nothing = r#"{ "walras.dev/max-rights": "0" }"#;
        assert_eq!(check(greedy, nothing, 4000).0, "100m 4000m 100");
    }

    #[test]
    fn a_bound_that_cannot_be_understood_is_told_and_the_usual_one_holds() {
        let says = r#"{ "walras.dev/max-rights": "much", "walras.dev/max-priority": "-1" }"#;
        let (got, complaints) = check("{}", says, 4000);
        assert_eq!(got, "100m 4000m 100");
        assert_eq!(
            complaints,
            [
                "the annotation walras.dev/max-rights of its namespace is \"much\", which is not \
                 an amount of CPU such as 250m or 2",
                "the annotation walras.dev/max-priority of its namespace is \"-1\", which is not \
                 a number above 0",
            ]
        );
    }
}
