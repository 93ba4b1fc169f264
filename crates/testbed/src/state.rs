//! What is known of one testbed, as saved in its folder, and the testbeds that there are.
//!
//! Written by whoever starts a testbed and read by everybody else. A testbed is a folder with a
//! `state.json`; its number is its alone among all on the machine, and its address, its pods'
//! addresses, its cgroup and its bridge come from the number, so that testbeds do not meet.
//! Whoever uses a testbed holds its lease, a lock that the kernel releases however its holder ends.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::node::{self, Real};
use crate::settings::Settings;

/// The version of `state.json`. A testbed with another one is only ever cleaned up.
const VERSION: u32 = 1;
/// Numbers of testbeds; the last two hundred and fifty are enough for everybody.
const NUMBERS: std::ops::RangeInclusive<u8> = 1..=250;
/// The longest name, which becomes part of paths of sockets, and these are short.
const LONGEST_NAME: usize = 30;
/// The most nodes that a testbed may have.
pub const MOST_NODES: u32 = 20_000;

/// What a testbed consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Whether there is a node with a real kubelet, containerd and runc.
    pub real_node: bool,
    /// Whether there is a second one, each on half of the CPUs. Not said by older versions.
    #[serde(default)]
    pub second_real_node: bool,
    /// How many nodes exist in the API alone.
    pub kwok_nodes: u32,
}

/// When a testbed ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    /// When somebody says so.
    UntilDown,
    /// When the process that started it ends.
    WithOwner,
    /// A while after the last process that used it has ended.
    WithLastUser,
}

/// How far a testbed is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Being started.
    Starting,
    /// In use.
    Up,
}

/// The ports, all on the testbed's own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ports {
    /// etcd, for the API server.
    pub etcd: u16,
    /// etcd, for its peers, of which it has none.
    pub etcd_peer: u16,
    /// The API server itself.
    pub api: u16,
    /// The way to the API server for clients, whose traffic can be disturbed.
    pub api_for_clients: u16,
    /// The way to the API server for the kubelet, whose traffic can be disturbed.
    pub api_for_node: u16,
    /// The kubelet.
    pub kubelet: u16,
    /// Whether the kubelet is alive.
    pub kubelet_health: u16,
}

/// One testbed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    version: u32,
    /// Its name, which is also that of its folder.
    pub name: String,
    /// Its number, which no other testbed on the machine has.
    pub number: u8,
    /// What it consists of.
    pub spec: Spec,
    /// Its ports.
    pub ports: Ports,
    /// When it ends.
    pub life: Life,
    /// How far it is.
    pub phase: Phase,
    /// Its folder.
    pub dir: PathBuf,
    /// The CPUs of the machine. Not said by older versions.
    #[serde(default)]
    pub cpus: Vec<u32>,
}

/// Creates the folder of a new testbed, with a number and ports of its own.
///
/// # Errors
///
/// If the name cannot be one or is taken, or if the folder cannot be used.
pub(crate) fn create(
    settings: &Settings,
    name: &str,
    spec: Spec,
    life: Life,
) -> Result<(State, File)> {
    check_name(name)?;
    ensure!(
        spec.kwok_nodes <= MOST_NODES,
        "{} nodes are too many; {MOST_NODES} are the most",
        spec.kwok_nodes
    );
    let base = settings.testbeds();
    if spec.real_node {
        check_place(&base, spec.second_real_node)?;
    }
    fs::create_dir_all(&base).with_context(|| format!("cannot create {}", base.display()))?;
    let _lock = lock(&base)?;
    let dir = base.join(name);
    ensure!(!dir.exists(), "there is a testbed named {name} already");
    let others = list(settings)?;
    let taken: BTreeSet<u8> =
        others.iter().filter_map(|(_, other)| Some(other.as_ref()?.number)).collect();
    let number = NUMBERS.into_iter().find(|number| !taken.contains(number));
    let number = number.context("there are too many testbeds; end some of them")?;
    let ports = Ports::free(address(number))?;
    let phase = Phase::Starting;
    let name = name.to_owned();
    let cpus = node::online()?;
    node::check(spec, &cpus)?;
    let state = State { version: VERSION, name, number, spec, ports, life, phase, dir, cpus };
    fs::create_dir(&state.dir)?;
    let lease = File::create(state.dir.join("lease"))?;
    lease.lock_shared()?;
    state.save()?;
    Ok((state, lease))
}

/// The testbed in `dir` and a hold on it, if it is up and not about to end.
pub(crate) fn join(dir: &Path) -> Result<Option<(State, File)>> {
    let _lock = lock(dir.parent().context("a testbed's folder is in another")?)?;
    let Ok(state) = State::load(dir) else { return Ok(None) };
    let lease = File::open(dir.join("lease"))?;
    lease.lock_shared()?;
    Ok((state.phase == Phase::Up).then_some((state, lease)))
}

/// Every testbed's folder, with what is known of it, if that can be read.
///
/// # Errors
///
/// If the folder of testbeds cannot be read.
pub(crate) fn list(settings: &Settings) -> Result<Vec<(PathBuf, Option<State>)>> {
    let base = settings.testbeds();
    if !base.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(&base).with_context(|| format!("cannot read {}", base.display()))?;
    let mut dirs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    dirs.retain(|dir| dir.is_dir());
    dirs.sort();
    Ok(dirs.into_iter().map(|dir| (dir.clone(), State::load(&dir).ok())).collect())
}

/// Waits for its turn to create or to end a testbed.
pub(crate) fn lock(base: &Path) -> Result<File> {
    let lock = File::create(base.join("lock"))?;
    lock.lock()?;
    Ok(lock)
}

pub(crate) fn check_name(name: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let good = !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(plain);
    ensure!(
        good && !name.starts_with('-'),
        "`{name}` cannot be the name of a testbed: use up to {LONGEST_NAME} small letters, digits \
         and hyphens"
    );
    Ok(())
}

/// The node sees empty folders in some places, and the testbed must not be in one of them.
fn check_place(base: &Path, second: bool) -> Result<()> {
    for hidden in crate::plan::HIDDEN {
        if base.starts_with(hidden) {
            let base = base.display();
            bail!("{base} is below {hidden}, which a node hides; set WALRAS_CACHE to elsewhere");
        }
    }
    let node =
        base.join("x".repeat(LONGEST_NAME)).join(if second { Real::Second.name() } else { "" });
    let socket = node.join("containerd/containerd.sock.ttrpc");
    let length = socket.as_os_str().len();
    ensure!(
        length < 108,
        "{} is too long a path for sockets; set WALRAS_CACHE to a shorter one",
        base.display()
    );
    Ok(())
}

/// A loopback address of the testbed's own.
fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 90, number, 1)
}

// === impl Ports ===

impl Ports {
    /// Ports that nobody listens on now. The address is ours alone, so nobody else takes them.
    fn free(address: Ipv4Addr) -> Result<Self> {
        let listeners: Vec<TcpListener> = (0..7)
            .map(|_| TcpListener::bind((address, 0)))
            .collect::<Result<_, _>>()
            .with_context(|| format!("cannot listen on {address}"))?;
        let mut ports = Vec::new();
        for listener in &listeners {
            ports.push(listener.local_addr()?.port());
        }
        let [etcd, etcd_peer, api, api_for_clients, api_for_node, kubelet, kubelet_health] =
            ports.as_slice().try_into().context("seven ports were asked for")?;
        Ok(Self { etcd, etcd_peer, api, api_for_clients, api_for_node, kubelet, kubelet_health })
    }
}

// === impl Spec ===

impl Spec {
    /// `nodes` nodes, the first of them real unless there is only a control plane.
    #[must_use]
    pub fn new(nodes: u32, control_plane_only: bool) -> Self {
        Self::with_real_nodes(u32::from(!control_plane_only), nodes)
    }

    /// `nodes` nodes, so many of them real; two at most.
    #[must_use]
    pub fn with_real_nodes(real: u32, nodes: u32) -> Self {
        let real = real.min(node::MOST_REAL_NODES);
        Self {
            real_node: real > 0,
            second_real_node: real > 1,
            kwok_nodes: nodes.saturating_sub(real),
        }
    }

    /// How many are real.
    #[must_use]
    pub fn real_nodes(&self) -> u32 {
        u32::from(self.real_node) + u32::from(self.second_real_node)
    }

    /// In words.
    #[must_use]
    pub fn words(&self) -> String {
        let nodes = if self.kwok_nodes == 1 { "node" } else { "nodes" };
        let real = match self.real_nodes() {
            0 => "a control plane".to_owned(),
            1 => "1 real node".to_owned(),
            real => format!("{real} real nodes"),
        };
        match (self.real_node, self.kwok_nodes) {
            (true, 0) => real,
            (false, 0) => format!("{real} only"),
            (true | false, kwok) => format!("{real} and {kwok} KWOK {nodes}"),
        }
    }
}

// === impl State ===

impl State {
    /// Reads what is known of the testbed in `dir`.
    ///
    /// # Errors
    ///
    /// If there is none, or if it was written by another version.
    pub fn load(dir: &Path) -> Result<Self> {
        let path = dir.join("state.json");
        let text = fs::read_to_string(&path)
            .with_context(|| format!("there is no testbed in {}", dir.display()))?;
        let state: Self =
            serde_json::from_str(&text).with_context(|| format!("{} is broken", path.display()))?;
        ensure!(state.version == VERSION, "{} is of another version", path.display());
        Ok(state)
    }

    /// Writes it down, all at once.
    pub(crate) fn save(&self) -> Result<()> {
        let unfinished = self.dir.join("state.json.unfinished");
        fs::write(&unfinished, serde_json::to_string_pretty(self)?)?;
        fs::rename(unfinished, self.dir.join("state.json"))?;
        Ok(())
    }

    /// The loopback address that everything of this testbed listens on.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        address(self.number)
    }

    /// The name of its cgroup, below the root of each hierarchy.
    #[must_use]
    pub fn cgroup(&self) -> String {
        format!("walras-testbed-{}", self.number)
    }

    /// The name of the bridge that its pods are connected to.
    #[must_use]
    pub fn bridge(&self) -> String {
        format!("walras{}", self.number)
    }

    /// Its real nodes.
    #[must_use]
    pub fn real_nodes(&self) -> Vec<Real> {
        let first = self.spec.real_node.then_some(Real::First);
        let second = self.spec.second_real_node.then_some(Real::Second);
        first.into_iter().chain(second).collect()
    }

    /// The kubeconfig for users and tests.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// Made up, for tests of plans.
    #[cfg(test)]
    pub(crate) fn pretend(number: u8, spec: Spec, life: Life) -> Self {
        let ports = Ports {
            etcd: 1,
            etcd_peer: 2,
            api: 3,
            api_for_clients: 4,
            api_for_node: 5,
            kubelet: 6,
            kubelet_health: 7,
        };
        let (name, dir) = ("seven".to_owned(), "/testbeds/seven".into());
        let (phase, cpus) = (Phase::Up, vec![0, 1]);
        Self { version: VERSION, name, number, spec, ports, life, phase, dir, cpus }
    }

    /// Whether somebody holds the lease.
    pub(crate) fn in_use(&self) -> bool {
        let lease = File::open(self.dir.join("lease"));
        lease.is_ok_and(|lease| matches!(lease.try_lock(), Err(TryLockError::WouldBlock)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(folder: &Path) -> Settings {
        Settings {
            cache: folder.into(),
            assets: None,
            kubebuilder: None,
            keeper: None,
            checkout: folder.into(),
        }
    }

    const PLAIN: Spec = Spec { real_node: false, second_real_node: false, kwok_nodes: 0 };

    #[test]
    fn testbeds_have_numbers_and_ports_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(folder.path());
        let (one, _lease) = create(&settings, "one", PLAIN, Life::UntilDown).unwrap();
        let (two, other) = create(&settings, "two", PLAIN, Life::WithOwner).unwrap();
        assert_eq!((one.number, two.number), (1, 2));
        assert_eq!(two.address().to_string(), "127.90.2.1");
        assert_ne!((one.cgroup(), one.bridge()), (two.cgroup(), two.bridge()));
        assert_eq!(State::load(&two.dir).unwrap(), two);
        assert!(two.in_use());
        drop(other);
        assert!(!two.in_use());
        let error = create(&settings, "one", PLAIN, Life::UntilDown).unwrap_err().to_string();
        assert_eq!(error, "there is a testbed named one already");
        fs::remove_dir_all(&one.dir).unwrap();
        let (three, _) = create(&settings, "three", PLAIN, Life::UntilDown).unwrap();
        assert_eq!(three.number, 1, "a number is used again");
        let found: Vec<_> = list(&settings).unwrap().into_iter().map(|(dir, _)| dir).collect();
        assert_eq!(found, [three.dir, two.dir]);
    }

    #[test]
    fn bad_names_and_numbers_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let settings = settings(folder.path());
        let long = "x".repeat(31);
        for name in ["", "A", "a b", "../a", "-a", "a/b", "\u{e4}", long.as_str()] {
            let error = create(&settings, name, PLAIN, Life::UntilDown).unwrap_err().to_string();
            assert!(error.contains("cannot be the name of a testbed"), "{name}: {error}");
        }
        let many = Spec { kwok_nodes: MOST_NODES + 1, ..PLAIN };
        let error = create(&settings, "a", many, Life::UntilDown).unwrap_err().to_string();
        assert!(error.contains("20001 nodes are too many"), "{error}");
        assert!(list(&settings).unwrap().is_empty());
    }

    #[test]
    fn a_place_that_a_node_hides_is_refused() {
        let error = check_place(Path::new("/var/lib/ci/testbeds"), false).unwrap_err().to_string();
        assert!(error.contains("is below /var/lib, which a node hides"), "{error}");
        let long = Path::new("/x").join("y".repeat(80));
        assert!(check_place(&long, false).unwrap_err().to_string().contains("too long a path"));
        check_place(Path::new("/h/.cache/walras/testbeds"), true).unwrap();
    }

    #[test]
    fn broken_or_foreign_states_are_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        assert!(State::load(folder.path()).is_err());
        fs::write(folder.path().join("state.json"), "{").unwrap();
        let error = State::load(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("state.json is broken"), "{error}");
    }

    #[test]
    fn the_first_node_is_real_unless_there_is_only_a_control_plane() {
        assert_eq!(Spec::new(3, false).words(), "1 real node and 2 KWOK nodes");
        assert_eq!(Spec::new(2, false).words(), "1 real node and 1 KWOK node");
        assert_eq!(Spec::new(1, false).words(), "1 real node");
        assert_eq!(Spec::with_real_nodes(2, 2).words(), "2 real nodes");
        assert_eq!(Spec::with_real_nodes(2, 3).words(), "2 real nodes and 1 KWOK node");
        assert_eq!(Spec::new(0, true).words(), "a control plane only");
        assert_eq!(Spec::new(5, true).words(), "a control plane and 5 KWOK nodes");
    }
}
