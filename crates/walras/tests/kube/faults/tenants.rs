//! Tenants who mean harm, for as long as the faults last: they claim, they wish, they hold
//! connections, they use up their quota, they change and delete what is ours.
//!
//! What they are held to is what the administrator says: a quota of the namespace, which the API
//! server counts, and the rights beyond requests that the Namespace allows. How they divide that
//! among their own pods, and whether one of them is sized at all, is their affair.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use walras_core::rng::Rng;
use walras_testbed::wait_for;

use crate::installed::{Installed, PATIENCE, Place, SYSTEM};

/// Their namespace, with a quota that is used up from the beginning.
const NAMESPACE: &str = "tenants";
/// Their pods: name, request and limit in thousandths of a core.
const PODS: [(&str, u64, u64); 2] = [("greedy", 10, 100), ("bound", 50, 100)];
/// What their pods may have a right to beyond what they request, in thousandths of a core.
const RIGHTS: u64 = 50;
/// More connections than a program takes from one address.
const HELD: usize = 100;

/// Tenants at work.
pub(super) struct Tenants {
    greedy: Place,
    bound: Place,
    held: Vec<TcpStream>,
}

impl Tenants {
    /// Two pods: one that claims and wishes for everything, one beside it under the same quota.
    pub(super) fn move_in(installed: &Installed) -> Self {
        let kubectl = installed.testbed.kubectl().unwrap();
        installed.namespace(NAMESPACE);
        let rights = format!("walras.dev/max-rights={RIGHTS}m");
        kubectl.run(&["annotate", "namespace", NAMESPACE, &rights]).unwrap();
        let (requests, limits) = quota();
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": { "name": "tight", "namespace": NAMESPACE },
            "spec": { "hard": { "requests.cpu": format!("{requests}m"),
                "limits.cpu": format!("{limits}m") } },
        });
        // Before the pods: it counts what comes, and looks for what was there every few minutes.
        kubectl.apply(&quota).unwrap();
        wait_for("the quota to count", PATIENCE, || {
            let quota = installed.object("resourcequota", NAMESPACE, "tight")?;
            Ok(quota["status"]["used"]["limits.cpu"].is_string().then_some(()))
        })
        .unwrap();
        let [greedy, bound] = PODS.map(|(name, request, limit)| {
            let (request, limit) = (format!("{request}m"), format!("{limit}m"));
            let mut pod = installed.pod(NAMESPACE, name, &request, &limit);
            if name == "greedy" {
                pod["metadata"]["annotations"] = json!({
                    "mbcas.io/min-cpu": "16",
                    "mbcas.io/priority-multiplier": "10",
                });
            }
            kubectl.apply(&pod).unwrap();
            installed.place(NAMESPACE, name)
        });
        wait_for("claims to be refused", PATIENCE, || {
            // A policy holds a moment after it was written.
            let refused = claim(installed).is_err();
            if !refused {
                let none = ["annotate", "pod", "greedy", "walras.dev/original-resources-"];
                kubectl.run(&[&none[..], &["-n", NAMESPACE]].concat())?;
            }
            Ok(refused.then_some(()))
        })
        .unwrap();
        Self { greedy, bound, held: Vec::new() }
    }

    /// One round of what they do.
    pub(super) fn harm(&mut self, installed: &Installed, rng: &mut Rng) {
        for pod in [&self.greedy, &self.bound] {
            pod.burst(20_000, 2);
        }
        self.held = installed.addresses().into_iter().flat_map(half_requests).collect();
        let kubectl = installed.testbed.kubectl().unwrap();
        // The API server may be away, but it never agrees.
        assert!(claim(installed).is_err(), "a tenant said what its pod came with");
        // These may fail for the same reason, and need not work.
        let name = format!("{NAMESPACE}-greedy");
        let about = ["podallocation", &name, "-n", NAMESPACE];
        match rng.below(4) {
            0 => drop(kubectl.run(&[&["delete"][..], &about, &["--wait=false"]].concat())),
            1 => {
                let nonsense = r#"{"spec":{"desiredCPULimit":"64","desiredCPURequest":"64"}}"#;
                let patch = ["--type=merge", "-p", nonsense];
                drop(kubectl.run(&[&["patch"][..], &about, &patch].concat()));
            }
            2 => {
                let modes = ["off", "restore", "everything", ""];
                let mode = modes[usize::try_from(rng.below(4)).unwrap_or(0)];
                let mode = format!("walras.dev/mode={mode}");
                let args = ["annotate", "pod", "greedy", "-n", NAMESPACE, "--overwrite", &mode];
                drop(kubectl.run(&args));
            }
            _ => {
                let label = ["label", "pod", "bound", "-n", NAMESPACE, "--overwrite"];
                let value = if rng.below(2) == 0 { "false" } else { "true" };
                let value = format!("mbcas.io/managed={value}");
                drop(kubectl.run(&[&label[..], &[&value]].concat()));
            }
        }
    }

    /// Whatever they wrote, nobody has another right than the administrator allows. An agent that
    /// was just started may not know anybody yet.
    pub(super) fn check_rights(&self, installed: &Installed) {
        // It may just be away.
        let Ok(state) = installed.agent_state() else { return };
        for pod in state["pods"].as_array().into_iter().flatten() {
            let name = pod["name"].as_str().unwrap_or_default();
            let right = pod["min_milli"].as_u64().unwrap_or(u64::MAX);
            let requested = PODS.iter().find(|(of, ..)| name == format!("{NAMESPACE}/{of}"));
            let most = requested.map_or(super::CAME_WITH.0, |(_, request, _)| request + RIGHTS);
            assert!(right <= most, "{name} has a right to {right}m: {pod:#}");
            if name.starts_with("default/") {
                assert_eq!(right, super::CAME_WITH.0, "{name}: {pod:#}");
            }
        }
    }

    /// Nothing of what they did restarted them, or gave them more than their quota together. What
    /// they were refused was refused to them.
    pub(super) fn check(&mut self, installed: &Installed) {
        self.held.clear();
        for pod in [&self.greedy, &self.bound] {
            assert_eq!(installed.restarts(pod).unwrap(), 0, "{} was restarted", pod.name);
        }
        let mut has: BTreeMap<&str, (u64, u64)> =
            PODS.into_iter().map(|(name, request, limit)| (name, (request, limit))).collect();
        for event in installed.resizes().unwrap() {
            let object = &event["objectRef"];
            let Some(pod) = has.get_mut(object["name"].as_str().unwrap_or_default()) else {
                continue;
            };
            *pod = asked_in(&event);
            let sum = |of: fn(&(u64, u64)) -> u64| has.values().map(of).sum::<u64>();
            let (requests, limits) = quota();
            assert!(sum(|it| it.0) <= requests, "{has:?} are requests beyond {requests}m");
            assert!(sum(|it| it.1) <= limits, "{has:?} are limits beyond {limits}m");
        }
        eprintln!("tenants end with {has:?}, of {:?}", quota());
        wait_for("an agent that knows everybody", PATIENCE, || {
            let state = installed.agent_state()?;
            Ok((state["pods"].as_array().is_some_and(|pods| pods.len() > 4)).then_some(()))
        })
        .unwrap();
        self.check_rights(installed);
        let config = installed.object("configmap", SYSTEM, "mbcas-agent-config").unwrap();
        assert!(config["data"]["mode"].is_string(), "the settings are as they were");
    }
}

/// What all their pods together may request and be limited to: what they come with.
fn quota() -> (u64, u64) {
    PODS.iter().fold((0, 0), |(requests, limits), (_, request, limit)| {
        (requests + request, limits + limit)
    })
}

/// Says that a pod came with a million cores.
fn claim(installed: &Installed) -> anyhow::Result<String> {
    let claim = r#"walras.dev/original-resources={"app":{"cpuRequestMilli":1000000000}}"#;
    let args = ["annotate", "pod", "greedy", "-n", NAMESPACE, "--overwrite", claim];
    installed.testbed.kubectl()?.run(&args)
}

/// The request and the limit that a resize asked for, in thousandths of a core.
fn asked_in(event: &Value) -> (u64, u64) {
    let resources = &event["requestObject"]["spec"]["containers"][0]["resources"];
    let cpu = |which: &str| {
        let text = resources[which]["cpu"].as_str().unwrap_or_default();
        walras_kube::pod::millicores(text).unwrap().get()
    };
    (cpu("requests"), cpu("limits"))
}

/// Connections that begin to ask and do not go on.
fn half_requests(address: SocketAddr) -> Vec<TcpStream> {
    let half = || {
        let mut stream = TcpStream::connect(address).ok()?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: ").ok()?;
        Some(stream)
    };
    (0..HELD).filter_map(|_| half()).collect()
}
