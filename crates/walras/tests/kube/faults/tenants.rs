//! Tenants who mean harm, for as long as the faults last: they claim, they wish, they hold
//! connections, they use up their quota, they change and delete what is ours.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use walras_core::rng::Rng;
use walras_testbed::wait_for;

use crate::installed::{Installed, PATIENCE, Place, SYSTEM};

/// Their namespace, with a quota that allows no raise at all.
pub(super) const NAMESPACE: &str = "tenants";
/// More connections than a program takes from one address.
const HELD: usize = 100;

/// Tenants at work.
pub(super) struct Tenants {
    greedy: Place,
    bound: Place,
    held: Vec<TcpStream>,
}

impl Tenants {
    /// Two pods: one that claims and wishes for everything, one under a quota that is used up.
    pub(super) fn move_in(installed: &Installed) -> Self {
        let kubectl = installed.testbed.kubectl().unwrap();
        installed.namespace(NAMESPACE);
        let mut greedy = installed.pod(NAMESPACE, "greedy", "10m", "100m");
        greedy["metadata"]["annotations"] = json!({
            "mbcas.io/min-cpu": "16",
            "mbcas.io/priority-multiplier": "10",
            "walras.dev/max-cpu": "300m",
        });
        kubectl.apply(&greedy).unwrap();
        let greedy = installed.place(NAMESPACE, "greedy");
        let bound = installed.run(NAMESPACE, "bound", "50m", "100m");
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": { "name": "tight", "namespace": NAMESPACE },
            "spec": { "hard": { "limits.cpu": "200m", "requests.cpu": "60m" } },
        });
        kubectl.apply(&quota).unwrap();
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

    /// Nothing of what they did restarted them, or gave them more than is allowed: the one what it
    /// said itself, the other what its quota leaves.
    pub(super) fn check(&self, installed: &Installed) {
        for (pod, most) in [(&self.greedy, 300), (&self.bound, 100)] {
            assert_eq!(installed.restarts(pod).unwrap(), 0, "{} was restarted", pod.name);
            for event in installed.resizes().unwrap() {
                let object = &event["objectRef"];
                if object["namespace"] == NAMESPACE && object["name"] == pod.name.as_str() {
                    let limit = limit_in(&event);
                    assert!(limit <= most, "{} was given {limit}m", pod.name);
                }
            }
        }
        let config = installed.object("configmap", SYSTEM, "mbcas-agent-config").unwrap();
        assert!(config["data"]["mode"].is_string(), "the settings are as they were");
    }
}

/// Says that a pod came with a million cores.
fn claim(installed: &Installed) -> anyhow::Result<String> {
    let claim = r#"walras.dev/original-resources={"app":{"cpuRequestMilli":1000000000}}"#;
    let args = ["annotate", "pod", "greedy", "-n", NAMESPACE, "--overwrite", claim];
    installed.testbed.kubectl()?.run(&args)
}

/// The limit that a resize asked for, in thousandths.
fn limit_in(event: &Value) -> u64 {
    let resources = &event["requestObject"]["spec"]["containers"][0]["resources"];
    let text = resources["limits"]["cpu"].as_str().unwrap_or_default();
    walras_kube::pod::millicores(text).unwrap().get()
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
