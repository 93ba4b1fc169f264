//! The configuration files of a testbed's components, as text.
//!
//! Computed from the testbed's state and from where the programs are; `testbed` writes them. Most
//! are JSON, which every reader of YAML understands. What the machine may lack is not asked for:
//! swap, a second cgroup layout, the right to lower a score for the out-of-memory killer.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::assets::{Program, Programs};
use crate::image::Image;
use crate::node::Real;
use crate::plan;
use crate::state::State;

/// The label that says what a node is: `real` or `kwok`.
pub const NODE_LABEL: &str = "walras.dev/testbed-node";

/// Every configuration file, with its path and its text.
pub(crate) fn files(state: &State, programs: &Programs) -> Result<Vec<(PathBuf, String)>> {
    let mut files = vec![
        ("config/audit.json", pretty(&audit())),
        ("config/authorization.json", pretty(&authorization())),
        ("config/scheduler.json", pretty(&scheduler(state))),
        (
            "config/controller-manager.kubeconfig",
            kubeconfig(state, Way::Direct, "controller-manager"),
        ),
        ("config/scheduler.kubeconfig", kubeconfig(state, Way::Direct, "scheduler")),
        ("config/admin.kubeconfig", kubeconfig(state, Way::Direct, "admin")),
        ("kubeconfig", kubeconfig(state, Way::Clients, "admin")),
    ];
    if state.spec.real_node {
        files.extend([("config/hosts", hosts(state)), ("config/resolv.conf", String::new())]);
    }
    if state.spec.kwok_nodes > 0 {
        files.extend([
            ("config/kwok.yaml", include_str!("../kwok.yaml").to_owned()),
            ("config/kwok.kubeconfig", kubeconfig(state, Way::Direct, "admin")),
        ]);
    }
    let mut files: Vec<(PathBuf, String)> =
        files.into_iter().map(|(name, text)| (state.dir.join(name), text)).collect();
    for node in state.real_nodes() {
        let dir = node.dir(state);
        let of_node = [
            ("config/containerd.toml", containerd(state, node, programs)?),
            ("config/cni/10-testbed.conflist", pretty(&network(state, node))),
            ("config/kubelet.json", pretty(&kubelet(state, node))),
            ("config/kubelet.kubeconfig", kubeconfig(state, Way::Node, node.certificates().0)),
        ];
        files.extend(of_node.map(|(name, text)| (dir.join(name), text)));
        files.extend(plan::shields(&dir));
    }
    Ok(files)
}

/// The nodes that exist in the API alone, as one list for `kubectl create`.
pub(crate) fn kwok_nodes(state: &State) -> String {
    let node = |number: u32| {
        let name = format!("kwok-{number}");
        let room = json!({ "cpu": "8", "memory": "32Gi", "pods": "110" });
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "annotations": { "kwok.x-k8s.io/node": "fake" },
                "labels": {
                    NODE_LABEL: "kwok",
                    "kubernetes.io/hostname": name,
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64",
                },
            },
            "status": {
                "capacity": room,
                "allocatable": room,
                "addresses": [{ "type": "Hostname", "address": name }],
                "nodeInfo": {
                    "architecture": "amd64", "operatingSystem": "linux", "osImage": "kwok",
                    "kubeletVersion": "kwok", "kubeProxyVersion": "", "kernelVersion": "kwok",
                    "containerRuntimeVersion": "kwok://1", "bootID": "", "machineID": "",
                    "systemUUID": "",
                },
            },
        })
    };
    let items: Vec<Value> = (1..=state.spec.kwok_nodes).map(node).collect();
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

/// Which way a client takes to the API server.
#[derive(Clone, Copy)]
enum Way {
    Direct,
    Clients,
    Node,
}

fn kubeconfig(state: &State, way: Way, user: &str) -> String {
    let port = match way {
        Way::Direct => state.ports.api,
        Way::Clients => state.ports.api_for_clients,
        Way::Node => state.ports.api_for_node,
    };
    let file = |name: &str| state.dir.join("certs").join(name).display().to_string();
    let name = format!("testbed-{}", state.name);
    pretty(&json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": name, "cluster": {
            "server": format!("https://{}:{port}", state.address()),
            "certificate-authority": file("ca.crt"),
        } }],
        "users": [{ "name": user, "user": {
            "client-certificate": file(&format!("{user}.crt")),
            "client-key": file(&format!("{user}.key")),
        } }],
        "contexts": [{ "name": name, "context": { "cluster": name, "user": user } }],
        "current-context": name,
    }))
}

/// Every request is logged with who, what and the result; changes also with what was sent.
fn audit() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            { "level": "Metadata", "resources": [{ "group": "", "resources": ["secrets"] }] },
            { "level": "Request", "verbs": ["create", "update", "patch", "delete"] },
            { "level": "Metadata" },
        ],
    })
}

/// What is usual: nodes see what is theirs, everybody else what roles say.
fn authorization() -> Value {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthorizationConfiguration",
        "authorizers": [{ "type": "Node", "name": "node" }, { "type": "RBAC", "name": "rbac" }],
    })
}

fn scheduler(state: &State) -> Value {
    let kubeconfig = state.dir.join("config/scheduler.kubeconfig");
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": { "kubeconfig": kubeconfig },
        "leaderElection": { "leaderElect": false },
    })
}

fn hosts(state: &State) -> String {
    let nodes = state.real_nodes().into_iter();
    let nodes: String =
        nodes.map(|node| format!("{} {}\n", node.address(state), node.name())).collect();
    format!("127.0.0.1 localhost\n::1 localhost\n{nodes}")
}

fn network(state: &State, node: Real) -> Value {
    let number = state.number;
    let (first, last) = node.pods(state);
    json!({
        "cniVersion": "0.4.0",
        "name": "testbed",
        "plugins": [{
            "type": "bridge",
            "bridge": state.bridge(),
            "isGateway": true,
            "ipMasq": false,
            "ipam": {
                "type": "host-local",
                "dataDir": node.dir(state).join("cni"),
                "ranges": [[{
                    "subnet": format!("198.18.{number}.0/24"),
                    "rangeStart": format!("198.18.{number}.{first}"),
                    "rangeEnd": format!("198.18.{number}.{last}"),
                }]],
                "routes": [{ "dst": "0.0.0.0/0" }],
            },
        }],
    })
}

fn containerd(state: &State, node: Real, programs: &Programs) -> Result<String> {
    let dir = node.dir(state).join("containerd");
    let dir = dir.display();
    let config = node.dir(state).join("config");
    let config = config.display();
    let address = node.address(state);
    let pause = Image::Pause.reference();
    let runc = programs.place(Program::Runc)?.display();
    let plugins =
        programs.place(Program::CniBridge)?.parent().context("a program is in a folder")?;
    let plugins = plugins.display();
    Ok(format!(
        "version = 3\n\
         root = '{dir}/root'\n\
         state = '{dir}/state'\n\
         temp = '{dir}/temp'\n\
         [grpc]\n\
         address = '{dir}/containerd.sock'\n\
         [ttrpc]\n\
         address = '{dir}/containerd.sock.ttrpc'\n\
         [plugins.'io.containerd.internal.v1.opt']\n\
         path = '{dir}/opt'\n\
         [plugins.'io.containerd.grpc.v1.cri']\n\
         stream_server_address = '{address}'\n\
         [plugins.'io.containerd.cri.v1.images'.pinned_images]\n\
         sandbox = '{pause}'\n\
         [plugins.'io.containerd.cri.v1.runtime']\n\
         restrict_oom_score_adj = true\n\
         netns_mounts_under_state_dir = true\n\
         [plugins.'io.containerd.cri.v1.runtime'.cni]\n\
         bin_dirs = ['{plugins}']\n\
         conf_dir = '{config}/cni'\n\
         [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\n\
         runtime_type = 'io.containerd.runc.v2'\n\
         [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]\n\
         BinaryName = '{runc}'\n\
         SystemdCgroup = false\n"
    ))
}

fn kubelet(state: &State, node: Real) -> Value {
    let file = |name: &str| node.dir(state).join(name).display().to_string();
    let shared = |name: &str| state.dir.join(name).display().to_string();
    let (_, served) = node.certificates();
    let address = node.address(state).to_string();
    let mut config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": address,
        "port": state.ports.kubelet,
        "healthzBindAddress": address,
        "healthzPort": state.ports.kubelet_health,
        "containerRuntimeEndpoint": format!("unix://{}", file("containerd/containerd.sock")),
        "cgroupRoot": format!("/{}", node.cgroup(state)),
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": false,
        "failSwapOn": false,
        "enforceNodeAllocatable": ["pods"],
        "evictionHard": {
            "memory.available": "50Mi", "nodefs.available": "1%",
            "nodefs.inodesFree": "1%", "imagefs.available": "1%",
        },
        // Images cannot be fetched again, so none is ever thrown away.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "makeIPTablesUtilChains": false,
        "podLogsDir": file("pod-logs"),
        "volumePluginDir": file("kubelet/volume-plugins"),
        "resolvConf": shared("config/resolv.conf"),
        "tlsCertFile": shared(&format!("certs/{served}.crt")),
        "tlsPrivateKeyFile": shared(&format!("certs/{served}.key")),
        "authentication": { "x509": { "clientCAFile": shared("certs/ca.crt") } },
    });
    // What is reserved is not offered to pods, and with this option no container runs there.
    if let Some(reserved) = node.reserved(state) {
        config["reservedSystemCPUs"] = json!(reserved);
        config["cpuManagerPolicy"] = json!("static");
        config["cpuManagerPolicyOptions"] = json!({ "strict-cpu-reservation": "true" });
    }
    config
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Life, Spec};

    fn state(nodes: u32, control_plane_only: bool) -> State {
        State::pretend(7, Spec::new(nodes, control_plane_only), Life::UntilDown)
    }

    fn check(state: &State, name: &str) -> Option<String> {
        let files = files(state, &Programs::pretend()).unwrap();
        let path = state.dir.join(name);
        files.into_iter().find(|(found, _)| *found == path).map(|(_, text)| text)
    }

    #[test]
    fn clients_and_the_node_take_ways_that_can_be_disturbed() {
        let state = state(1, false);
        let server = |name: &str| {
            let config: Value = serde_json::from_str(&check(&state, name).unwrap()).unwrap();
            config["clusters"][0]["cluster"]["server"].as_str().unwrap().to_owned()
        };
        assert_eq!(server("kubeconfig"), "https://127.90.7.1:4");
        assert_eq!(server("config/kubelet.kubeconfig"), "https://127.90.7.1:5");
        assert_eq!(server("config/admin.kubeconfig"), "https://127.90.7.1:3");
    }

    #[test]
    fn a_control_plane_has_no_files_of_a_node() {
        let plain = state(0, true);
        assert_eq!(check(&plain, "config/kubelet.json"), None);
        assert_eq!(check(&plain, "config/kwok.yaml"), None);
        assert!(check(&state(1, true), "config/kwok.yaml").is_some());
    }

    #[test]
    fn the_node_is_kept_apart_by_its_number() {
        let state = state(1, false);
        let kubelet = check(&state, "config/kubelet.json").unwrap();
        assert!(kubelet.contains("\"cgroupRoot\": \"/walras-testbed-7\""), "{kubelet}");
        let network = check(&state, "config/cni/10-testbed.conflist").unwrap();
        assert!(network.contains("198.18.7.0/24") && network.contains("walras7"), "{network}");
        let hosts = check(&state, "config/hosts").unwrap();
        assert!(hosts.ends_with("\n127.90.7.1 node-1\n"), "{hosts}");
        assert!(!kubelet.contains("reservedSystemCPUs"), "one node has the whole machine");
    }

    #[test]
    fn a_second_node_has_files_addresses_and_cpus_of_its_own() {
        let state = State::pretend(7, Spec::with_real_nodes(2, 2), Life::UntilDown);
        let kubelet = check(&state, "node-2/config/kubelet.json").unwrap();
        for line in [
            "\"cgroupRoot\": \"/walras-testbed-7/node-2\"",
            "\"address\": \"127.90.7.2\"",
            "\"reservedSystemCPUs\": \"0\"",
            "/testbeds/seven/node-2/containerd/containerd.sock",
            "/testbeds/seven/certs/kubelet-2-server.key",
        ] {
            assert!(kubelet.contains(line), "{line}\n{kubelet}");
        }
        let first = check(&state, "config/kubelet.json").unwrap();
        assert!(first.contains("\"reservedSystemCPUs\": \"1\""), "{first}");
        let network = check(&state, "node-2/config/cni/10-testbed.conflist").unwrap();
        assert!(network.contains("\"rangeStart\": \"198.18.7.128\""), "{network}");
        assert!(network.contains("/testbeds/seven/node-2/cni"), "{network}");
        let containerd = check(&state, "node-2/config/containerd.toml").unwrap();
        assert!(containerd.contains("root = '/testbeds/seven/node-2/containerd/root'"));
        let hosts = check(&state, "config/hosts").unwrap();
        assert!(hosts.ends_with("\n127.90.7.1 node-1\n127.90.7.2 node-2\n"), "{hosts}");
    }

    #[test]
    fn the_configuration_of_containerd_is_toml_with_our_runc_and_pause() {
        let text = check(&state(1, false), "config/containerd.toml").unwrap();
        let table: toml::Table = toml::from_str(&text).unwrap();
        let plugins = table["plugins"].as_table().unwrap();
        let images = &plugins["io.containerd.cri.v1.images"];
        assert_eq!(images["pinned_images"]["sandbox"].as_str(), Some(Image::Pause.reference()));
        let runtime = &plugins["io.containerd.cri.v1.runtime"];
        let runc = &runtime["containerd"]["runtimes"]["runc"]["options"]["BinaryName"];
        assert_eq!(runc.as_str(), Some("/bin/runc"));
        assert_eq!(runtime["cni"]["bin_dirs"][0].as_str(), Some("/bin"));
    }

    #[test]
    fn kwok_nodes_are_numbered_from_one_and_say_what_they_are() {
        let list: Value = serde_json::from_str(&kwok_nodes(&state(3, false))).unwrap();
        let items = list["items"].as_array().unwrap();
        let names: Vec<_> = items.iter().map(|node| node["metadata"]["name"].as_str()).collect();
        assert_eq!(names, [Some("kwok-1"), Some("kwok-2")]);
        assert_eq!(items[0]["metadata"]["labels"][NODE_LABEL], "kwok");
    }
}
