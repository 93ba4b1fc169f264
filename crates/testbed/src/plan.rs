//! Which processes a testbed has, and the command line of each, as plain data.
//!
//! Looks only at the testbed's state and at where the programs are, and starts nothing: `testbed`
//! carries it out, and a test can read it. Every component is stock, and everything that listens
//! does so on the testbed's own loopback address.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rustix::process::Pid;

use crate::assets::{Program, Programs};
use crate::node::Real;
use crate::state::State;

/// Where the processes of a node see folders of their own instead of the machine's: containerd, the
/// kubelet and network plugins have paths below them that no option changes.
pub(crate) const HIDDEN: [&str; 3] = ["/run", "/var/lib", "/var/log"];

/// Kernel settings that a kubelet or a network plugin changes. Inside of a testbed they are plain
/// files, so that the machine's are left alone; and the value that the plain file begins with.
const SHIELDED: [(&str, &str); 7] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
    ("net/ipv4/ip_forward", "1"),
];

/// A process of a testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Ends the testbed when its time has come, and stands between clients and the API server.
    Keeper,
    /// Holds the folders that only the testbed sees.
    Anchor,
    /// The store of the API server.
    Etcd,
    /// The API server.
    ApiServer,
    /// The controllers of Kubernetes.
    ControllerManager,
    /// The scheduler of Kubernetes.
    Scheduler,
    /// The container runtime.
    Containerd,
    /// The agent of the real node.
    Kubelet,
    /// Holds the folders that only the second real node sees.
    SecondAnchor,
    /// The container runtime of the second real node.
    SecondContainerd,
    /// The agent of the second real node.
    SecondKubelet,
    /// What plays the nodes that exist in the API alone.
    Kwok,
}

/// How to start a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) part: Part,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) search_path: String,
    /// The process whose view of the file system it shares.
    pub(crate) inside: Option<Pid>,
}

/// Which parts `state` has, in the order in which they are started.
#[must_use]
pub fn parts(state: &State) -> Vec<Part> {
    let mut parts = vec![Part::Keeper];
    let nodes = state.real_nodes();
    parts.extend(nodes.iter().map(|node| node.anchor()));
    parts.extend([Part::Etcd, Part::ApiServer, Part::ControllerManager, Part::Scheduler]);
    parts.extend(nodes.iter().flat_map(|node| [node.containerd(), node.kubelet()]));
    if state.spec.kwok_nodes > 0 {
        parts.push(Part::Kwok);
    }
    parts
}

/// How to start a part that is a program of Kubernetes or works for one.
pub(crate) fn launch(
    part: Part,
    state: &State,
    programs: &Programs,
    anchor: Option<Pid>,
) -> Result<Launch> {
    let (program, args) = match part {
        Part::Keeper | Part::Anchor | Part::SecondAnchor => {
            anyhow::bail!("{} is not started by plan", part.name())
        }
        Part::Etcd => (Program::Etcd, etcd(state)),
        Part::ApiServer => (Program::ApiServer, api_server(state)),
        Part::ControllerManager => (Program::ControllerManager, controller_manager(state)),
        Part::Scheduler => (Program::Scheduler, scheduler(state)),
        Part::Containerd => (Program::Containerd, containerd(state, Real::First)),
        Part::SecondContainerd => (Program::Containerd, containerd(state, Real::Second)),
        Part::Kubelet => (Program::Kubelet, kubelet(state, Real::First)),
        Part::SecondKubelet => (Program::Kubelet, kubelet(state, Real::Second)),
        Part::Kwok => (Program::Kwok, kwok(state)),
    };
    let program = programs.place(program)?.to_path_buf();
    // containerd looks for its shim, and the shim for runc, on the search path.
    let folder = program.parent().map(|folder| format!("{}:", folder.display()));
    let search_path = format!("{}{SYSTEM_PATH}", folder.unwrap_or_default());
    Ok(Launch { part, program, args, search_path, inside: anchor })
}

/// How to start what holds the folders that only the processes of `node` see.
pub(crate) fn anchor(state: &State, node: Real) -> Launch {
    let (dir, own) = (state.dir.display(), node.dir(state));
    let mut script = vec!["set -e".to_owned(), "mount --make-rshared /".to_owned()];
    script.extend(HIDDEN.map(|folder| format!("mount -t tmpfs -o mode=755 testbed {folder}")));
    script.push("mkdir -p /run/lock /run/netns /var/lib/kubelet /var/log/containers".to_owned());
    script.push(format!("mount --bind '{dir}/config/hosts' /etc/hosts"));
    for (name, _) in SHIELDED {
        let plain = shielded(&own, name);
        let path = format!("/proc/sys/{name}");
        // Not every kernel has every setting.
        script.push(format!("test ! -e {path} || mount --bind '{}' {path}", plain.display()));
    }
    script.push(format!("touch '{}'", anchored(state, node).display()));
    script.push("exec sleep infinity".to_owned());
    let args = ["--mount", "--propagation", "slave", "--", "sh", "-c"];
    let mut args: Vec<String> = args.map(str::to_owned).to_vec();
    args.push(script.join("\n"));
    Launch {
        part: node.anchor(),
        program: "unshare".into(),
        args,
        search_path: SYSTEM_PATH.to_owned(),
        inside: None,
    }
}

/// The file that is there once the folders of `node` are.
pub(crate) fn anchored(state: &State, node: Real) -> PathBuf {
    node.dir(state).join("anchored")
}

/// The plain files in a node's folder that stand for kernel settings, and what is in them at first.
pub(crate) fn shields(dir: &Path) -> Vec<(PathBuf, String)> {
    SHIELDED.iter().map(|(name, value)| (shielded(dir, name), format!("{value}\n"))).collect()
}

/// Where the machine has its own programs.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

fn shielded(dir: &Path, name: &str) -> PathBuf {
    dir.join("config/sys").join(name.replace('/', "."))
}

fn etcd(state: &State) -> Vec<String> {
    let address = state.address();
    let client = format!("http://{address}:{}", state.ports.etcd);
    let peer = format!("http://{address}:{}", state.ports.etcd_peer);
    vec![
        format!("--data-dir={}", state.dir.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // What a killed etcd wrote is still there; only a machine that loses power would lose it,
        // and no testbed outlives its machine.
        "--unsafe-no-fsync".to_owned(),
        // Room for a hundred thousand pods and their history.
        format!("--quota-backend-bytes={}", 8_u64 << 30),
    ]
}

fn api_server(state: &State) -> Vec<String> {
    let address = state.address();
    let mut args = vec![
        format!("--etcd-servers=http://{address}:{}", state.ports.etcd),
        format!("--bind-address={address}"),
        format!("--secure-port={}", state.ports.api),
        format!("--advertise-address={address}"),
        // Nothing routes to services, and a loopback address cannot be an endpoint.
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--service-cluster-ip-range=198.19.{}.0/24", state.number),
        // A file and not a mode, so that a test can try what an administrator would write there.
        format!("--authorization-config={}", file(state, "config/authorization.json")),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        // The name of a node leads to its kubelet; its address is that of the machine.
        "--kubelet-preferred-address-types=Hostname".to_owned(),
        format!("--audit-log-path={}", state.dir.join("audit.log").display()),
        // A test may read the log at any time, so it must not move away.
        "--audit-log-maxsize=0".to_owned(),
        format!("--audit-policy-file={}", file(state, "config/audit.json")),
    ];
    args.extend(
        [
            ("tls-cert-file", "certs/api-server.crt"),
            ("tls-private-key-file", "certs/api-server.key"),
            ("client-ca-file", "certs/ca.crt"),
            ("service-account-key-file", "certs/service-accounts.pub"),
            ("service-account-signing-key-file", "certs/service-accounts.key"),
            ("kubelet-client-certificate", "certs/admin.crt"),
            ("kubelet-client-key", "certs/admin.key"),
            ("kubelet-certificate-authority", "certs/ca.crt"),
        ]
        .map(|(option, name)| format!("--{option}={}", file(state, name))),
    );
    args
}

/// For how long a node that exists in the API alone holds its lease, of which it renews a quarter
/// before: 40 s as kubelets do, or so long that all of them together write 40 times a second.
fn lease_s(state: &State) -> u32 {
    (state.spec.kwok_nodes / 10).max(40)
}

fn controller_manager(state: &State) -> Vec<String> {
    let kubeconfig = file(state, "config/controller-manager.kubeconfig");
    vec![
        // As is usual, or longer where leases are.
        format!("--node-monitor-grace-period={}s", lease_s(state) + 10),
        format!("--kubeconfig={kubeconfig}"),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--use-service-account-credentials=true".to_owned(),
        format!("--root-ca-file={}", file(state, "certs/ca.crt")),
        format!("--service-account-private-key-file={}", file(state, "certs/service-accounts.key")),
        format!("--cluster-signing-cert-file={}", file(state, "certs/ca.crt")),
        format!("--cluster-signing-key-file={}", file(state, "certs/ca.key")),
    ]
}

fn scheduler(state: &State) -> Vec<String> {
    vec![config(state, "scheduler.json"), "--secure-port=0".to_owned()]
}

fn containerd(state: &State, node: Real) -> Vec<String> {
    vec![format!("--config={}", node.dir(state).join("config/containerd.toml").display())]
}

fn kubelet(state: &State, node: Real) -> Vec<String> {
    let file = |name: &str| node.dir(state).join(name).display().to_string();
    vec![
        format!("--config={}", file("config/kubelet.json")),
        format!("--kubeconfig={}", file("config/kubelet.kubeconfig")),
        format!("--hostname-override={}", node.name()),
        format!("--root-dir={}", file("kubelet")),
        format!("--cert-dir={}", file("kubelet/pki")),
        format!("--node-labels={}=real", crate::config::NODE_LABEL),
    ]
}

fn kwok(state: &State) -> Vec<String> {
    vec![
        config(state, "kwok.yaml"),
        format!("--kubeconfig={}", file(state, "config/kwok.kubeconfig")),
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake".to_owned(),
        format!("--node-lease-duration-seconds={}", lease_s(state)),
        "--cidr=10.0.0.1/8".to_owned(),
        "--node-ip=10.255.255.254".to_owned(),
    ]
}

fn config(state: &State, name: &str) -> String {
    format!("--config={}", file(state, &format!("config/{name}")))
}

fn file(state: &State, name: &str) -> String {
    Path::new(&state.dir).join(name).display().to_string()
}

// === impl Part ===

impl Part {
    /// All parts that a testbed can have.
    pub const ALL: [Self; 12] = [
        Self::Keeper,
        Self::Anchor,
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Containerd,
        Self::Kubelet,
        Self::SecondAnchor,
        Self::SecondContainerd,
        Self::SecondKubelet,
        Self::Kwok,
    ];

    /// Its name in messages, in the names of logs, and in its environment.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Keeper => "keeper",
            Self::Anchor => "anchor",
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
            Self::SecondAnchor => "anchor-2",
            Self::SecondContainerd => "containerd-2",
            Self::SecondKubelet => "kubelet-2",
            Self::Kwok => "kwok",
        }
    }

    /// The names of its program. What it starts in turn is not it.
    pub(crate) fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Keeper => &["walras-testbed"],
            Self::Anchor | Self::SecondAnchor => &["sleep"],
            Self::Etcd => &["etcd"],
            Self::ApiServer => &["kube-apiserver"],
            Self::ControllerManager => &["kube-controller-manager"],
            Self::Scheduler => &["kube-scheduler"],
            Self::Containerd | Self::SecondContainerd => &["containerd"],
            Self::Kubelet | Self::SecondKubelet => &["kubelet"],
            Self::Kwok => &["kwok"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Life, Spec, State};

    fn check(part: Part) -> String {
        let state = State::pretend(7, Spec::with_real_nodes(2, 3), Life::UntilDown);
        let launch = launch(part, &state, &Programs::pretend(), None).unwrap();
        format!("{} {}", launch.program.display(), launch.args.join(" "))
    }

    /// The parts that this module says how to start.
    fn planned() -> impl Iterator<Item = Part> {
        let others = [Part::Keeper, Part::Anchor, Part::SecondAnchor];
        Part::ALL.into_iter().filter(move |part| !others.contains(part))
    }

    #[test]
    fn a_testbed_has_only_the_parts_that_it_needs() {
        let names = |nodes, control_plane_only| {
            let spec = Spec::new(nodes, control_plane_only);
            let parts = parts(&State::pretend(7, spec, Life::UntilDown));
            parts.into_iter().map(Part::name).collect::<Vec<_>>().join(" ")
        };
        let control = "etcd kube-apiserver kube-controller-manager kube-scheduler";
        assert_eq!(names(0, true), format!("keeper {control}"));
        assert_eq!(names(2, true), format!("keeper {control} kwok"));
        assert_eq!(names(1, false), format!("keeper anchor {control} containerd kubelet"));
        assert!(names(2, false).ends_with("containerd kubelet kwok"));
        let pair = State::pretend(7, Spec::with_real_nodes(2, 2), Life::UntilDown);
        let pair: Vec<_> = parts(&pair).into_iter().map(Part::name).collect();
        assert_eq!(pair[1..3], ["anchor", "anchor-2"]);
        let last = ["containerd", "kubelet", "containerd-2", "kubelet-2"];
        assert_eq!(pair[pair.len() - 4..], last);
    }

    #[test]
    fn everything_listens_on_the_testbeds_own_address() {
        let etcd = check(Part::Etcd);
        assert!(etcd.contains(" --listen-client-urls=http://127.90.7.1:1 "), "{etcd}");
        assert!(etcd.contains(" --listen-peer-urls=http://127.90.7.1:2 "), "{etcd}");
        let api = check(Part::ApiServer);
        assert!(api.contains(" --bind-address=127.90.7.1 --secure-port=3 "), "{api}");
        assert!(api.contains(" --etcd-servers=http://127.90.7.1:1 "), "{api}");
        for part in planned() {
            let text = check(part);
            assert!(!text.contains("0.0.0.0") && !text.contains("127.0.0.1"), "{text}");
        }
        // These two would listen on every address of the machine.
        for part in [Part::ControllerManager, Part::Scheduler] {
            assert!(check(part).contains(" --secure-port=0"), "{}", part.name());
        }
    }

    #[test]
    fn every_path_is_below_the_testbeds_folder() {
        for part in planned() {
            let text = check(part);
            let paths = text.split(' ').filter_map(|arg| Some(arg.split_once("=/")?.1));
            for path in paths {
                assert!(path.starts_with("testbeds/seven/"), "{}: /{path}", part.name());
            }
        }
    }

    #[test]
    fn the_node_sees_folders_and_kernel_settings_of_its_own() {
        let state = State::pretend(7, Spec::new(1, false), Life::UntilDown);
        let script = anchor(&state, Real::First).args.pop().unwrap();
        for line in [
            "mount -t tmpfs -o mode=755 testbed /var/lib",
            "mount --bind '/testbeds/seven/config/hosts' /etc/hosts",
            "mount --bind '/testbeds/seven/config/sys/vm.overcommit_memory' \
             /proc/sys/vm/overcommit_memory",
        ] {
            assert!(script.contains(line), "{line}\n{script}");
        }
        assert!(script.ends_with("touch '/testbeds/seven/anchored'\nexec sleep infinity"));
        assert_eq!(shields(&state.dir).len(), SHIELDED.len());
    }
}
