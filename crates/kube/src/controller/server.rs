//! Asks the API server whether it can resize pods at all, before anything is written to one.
//!
//! Kubernetes has `pods/resize` since 1.33. Asked at the start, and now and then again: a cluster
//! is upgraded while its controllers run, and may be taken back.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::Client;
use tokio::time;

use super::Shared;
use super::act::WITHIN;
use crate::client::words;
use crate::pause::Rests;

/// What a person is told where no pod can be resized.
pub(super) const TOO_OLD: &str =
    "the API server has no pods/resize, which Kubernetes has since 1.33: no pod is changed";
/// How often to ask again where it cannot, and where it can.
const AGAIN: Duration = Duration::from_secs(120);
const RARELY: Duration = Duration::from_secs(3600);

/// Asks, for as long as it is polled.
pub(super) async fn ask(shared: Arc<Shared>, client: Client) {
    let mut rests = Rests::new();
    let mut told = false;
    loop {
        let answer = match time::timeout(WITHIN, client.list_core_api_resources("v1")).await {
            Ok(Ok(all)) => Ok(can_resize(&all)),
            Ok(Err(error)) => Err(words(&error)),
            Err(_) => Err(format!("no answer within {} s", WITHIN.as_secs())),
        };
        match answer {
            Ok(can_resize) => {
                rests.worked();
                told = false;
                if shared.store.server_asked(can_resize) {
                    if !can_resize {
                        tracing::error!("{TOO_OLD}");
                    }
                    shared.synced();
                }
                time::sleep(if can_resize { RARELY } else { AGAIN }).await;
            }
            Err(because) => {
                // Once is enough: the same trouble comes back many times.
                if !told {
                    tracing::warn!("the API server does not say what it can do: {because}");
                }
                told = true;
                rests.rest().await;
            }
        }
    }
}

fn can_resize(all: &APIResourceList) -> bool {
    all.resources.iter().any(|resource| resource.name == "pods/resize")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_can_resize_pods_if_it_says_so() {
        let check = |names: &[&str]| {
            let resource = |name: &&str| {
                let verbs = ["patch"];
                serde_json::json!({ "name": name, "singularName": "", "namespaced": true,
                    "kind": "Pod", "verbs": verbs })
            };
            let all = serde_json::json!({ "kind": "APIResourceList", "groupVersion": "v1",
                "resources": names.iter().map(resource).collect::<Vec<_>>() });
            can_resize(&serde_json::from_value(all).unwrap())
        };
        assert!(check(&["pods", "pods/log", "pods/resize"]));
        assert!(!check(&["pods", "pods/log"]), "as before 1.33");
    }
}
