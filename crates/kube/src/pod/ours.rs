//! What only the controller may say of a pod, and whether it was the controller who said it.
//!
//! A tenant writes annotations as it likes. An admission policy keeps these to the controller;
//! where that is not installed, or was not yet, the API server's own record of who wrote which
//! field tells them apart. Nothing is believed that another client wrote.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Pod;
use crate::names;

/// The annotations that only the controller writes.
const OURS: [&str; 2] = [names::ORIGINAL_RESOURCES, names::AUTOSCALER];

/// Whether the controller wrote this annotation, as far as the API server knows.
pub(crate) fn is_controllers(meta: &ObjectMeta, annotation: &str) -> bool {
    let field = format!("f:{annotation}");
    let entries = meta.managed_fields.iter().flatten();
    entries
        .filter(|entry| entry.manager.as_deref() == Some(names::CONTROLLER_MANAGER))
        .filter_map(|entry| entry.fields_v1.as_ref())
        .any(|fields| !fields.0["f:metadata"]["f:annotations"][&field].is_null())
}

/// Takes away from a pod what others said in the controller's name.
pub(crate) fn disown(pod: &mut Pod) {
    for name in OURS {
        let believed = is_controllers(&pod.metadata, name);
        if let Some(annotations) = pod.metadata.annotations.as_mut().filter(|_| !believed) {
            annotations.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A pod with one of the annotations, and who is said to have written it.
    fn check(name: &str, written: &Value) -> bool {
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": { "annotations": { name: "{}", "team": "shop" }, "managedFields": written },
        }))
        .unwrap();
        disown(&mut pod);
        assert_eq!(pod.annotation("team"), Some("shop"), "the rest is the tenant's own");
        pod.annotation(name).is_some()
    }

    fn by(manager: &str, name: &str) -> Value {
        let annotations = json!({ format!("f:{name}"): {} });
        let fields = json!({ "f:metadata": { "f:annotations": annotations } });
        json!({ "manager": manager, "operation": "Update", "fieldsV1": fields })
    }

    #[test]
    fn what_others_wrote_in_our_name_is_not_there() {
        for name in OURS {
            assert!(!check(name, &json!([])), "its writer is not known");
            assert!(!check(name, &json!([by("kubectl", name)])));
            assert!(!check(name, &json!([by("walras-controller", "team")])));
            assert!(check(name, &json!([by("walras-controller", name)])));
            // A client that applies it again as it is shares it.
            assert!(check(name, &json!([by("helm", name), by("walras-controller", name)])));
        }
    }
}
