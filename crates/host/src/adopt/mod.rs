//! Which cgroups are workloads, and on which terms.
//!
//! A path, what the workload says about itself, and what the configuration says, to an
//! [`Adoption`]: [`recognise`] and [`judge`] are pure. The configuration goes before labels and
//! unit properties, and those before the defaults. What a container says is asked of its engine. A
//! workload takes all that is below it along: there is no other workload in it. The machine itself
//! (its init, its service manager, this daemon) is never adopted unless told so.

mod engine;
mod glob;
mod marks;
mod read;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use walras_core::claim::Nature;
use walras_core::units::{Millicores, Weight};

use walras_node::board::WorkloadKind;

pub use self::engine::{Engines, Told};
pub use self::glob::Glob;
pub use self::marks::Marks;
pub use self::read::read_marks;

/// The longest uid, in bytes: what a recording accepts as a name.
const UID_MAX: usize = 512;
/// The longest name that is shown, in characters.
const NAME_MAX: usize = 120;
/// Units without which there is no machine, or nothing left to size it; also all of systemd's own.
const MACHINE: [&str; 42] = [
    // What everything else talks to, and who lets people in.
    "init.scope",
    "dbus.service",
    "dbus-broker.service",
    "polkit.service",
    "ssh.service",
    "sshd.service",
    "auditd.service",
    "chrony.service",
    "chronyd.service",
    "ntpd.service",
    // Who runs workloads of their own.
    "walras-host.service",
    "docker.service",
    "containerd.service",
    "crio.service",
    "cri-o.service",
    "podman.service",
    "kubelet.service",
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
    "k0scontroller.service",
    "k0sworker.service",
    "libvirtd.service",
    "virtqemud.service",
    "lxc.service",
    "lxd.service",
    // Its disks.
    "iscsid.service",
    "open-iscsi.service",
    "multipathd.service",
    "lvm2-monitor.service",
    "mdmonitor.service",
    "zfs-zed.service",
    "rpcbind.service",
    "nfs-server.service",
    "udisks2.service",
    // Its network.
    "NetworkManager.service",
    "networking.service",
    "wpa_supplicant.service",
    "firewalld.service",
    "nftables.service",
    "openvswitch-switch.service",
];

/// Which cgroups are workloads.
#[derive(Clone, Debug, PartialEq)]
pub struct AdoptRules {
    /// Those that Walras made.
    pub walras: Reach,
    /// Docker's containers.
    pub docker: Reach,
    /// Podman's containers.
    pub podman: Reach,
    /// The services and scopes of systemd.
    pub systemd: Reach,
    /// Any other, by its path.
    pub paths: Vec<Glob>,
    /// Where Docker is asked about its containers.
    pub docker_socket: PathBuf,
    /// Where Docker keeps its containers; where its own configuration says, if nothing is said.
    pub docker_root: Option<PathBuf>,
    /// Where Podman is asked about its containers.
    pub podman_socket: PathBuf,
    /// Where Podman keeps its containers; at the usual place, if nothing is said.
    pub podman_root: Option<PathBuf>,
    /// What a workload has a right to that says nothing.
    pub min: Option<Millicores>,
    /// The most it is granted; the whole machine where nothing is said.
    pub max: Option<Millicores>,
    /// What its claim counts for.
    pub weight: Weight,
    /// What is said about single workloads. The first that says something counts.
    pub rules: Vec<Rule>,
}

/// Which workloads of a kind are adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All that do not say otherwise.
    All,
    /// Those that ask for it.
    Marked,
    /// None.
    None,
}

/// What the configuration says about workloads whose name or path fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Which workloads.
    pub matches: Glob,
    /// Whether they are sized.
    pub managed: Option<bool>,
    /// The least they are granted.
    pub min: Option<Millicores>,
    /// The most they are granted.
    pub max: Option<Millicores>,
    /// What their claims count for.
    pub weight: Option<Weight>,
    /// Their latency target.
    pub target_latency_ms: Option<f64>,
    /// What kind of work they do.
    pub nature: Option<Nature>,
}

/// Where a workload comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// Walras made it.
    Walras,
    /// A container of Docker.
    Docker,
    /// A container of Podman.
    Podman,
    /// A service or scope of systemd.
    Systemd,
    /// The configuration names its path.
    Path,
}

/// A cgroup that may be a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Where it comes from.
    pub source: Source,
    /// What it is called there: a container's id, a unit's name, the last part of a path.
    pub id: String,
    /// Its path below the root of its hierarchy, without a slash at the start, fit to be printed.
    pub path: String,
}

/// What is to become of a cgroup.
#[derive(Clone, Debug, PartialEq)]
pub enum Judged {
    /// It is a workload.
    Adopt(Box<Adoption>),
    /// It is none, but there may be some below it.
    LookBelow,
    /// It is none, and neither is anything below it.
    Leave,
    /// It may have asked to be left alone, and so it is, until that is known. Why it is not, in a
    /// sentence.
    Unknown(String),
}

/// A workload, and the terms it is sized on.
#[derive(Clone, Debug, PartialEq)]
pub struct Adoption {
    /// Its identity: its path.
    pub uid: String,
    /// What a person calls it.
    pub name: String,
    /// Where it comes from.
    pub source: Source,
    /// What it has in common with those before and after it.
    pub family: String,
    /// What it has a right to, where somebody said so.
    pub min: Option<Millicores>,
    /// The most it is granted; the whole machine where nothing is said.
    pub max: Option<Millicores>,
    /// What its claim counts for.
    pub weight: Weight,
    /// Its latency target.
    pub target_latency_ms: Option<f64>,
    /// What kind of work it does, as far as somebody said so.
    pub nature: Nature,
    /// What was written about it and could not be understood, in sentences.
    pub complaints: Vec<String>,
}

/// Whether a path looks like one of a workload. `path` has no slash at its start.
///
/// A name counts only where the managers that root runs make such groups: below a user's service
/// manager, or in a container, anybody calls a group anything.
#[must_use]
pub fn recognise(rules: &AdoptRules, path: &str) -> Option<Seen> {
    let (parent, last) = path.rsplit_once('/').unwrap_or(("", path));
    let seen = |source, id: &str| Some(Seen { source, id: id.to_owned(), path: path.to_owned() });
    if parent.split('/').any(is_user_manager) {
        return None;
    }
    if rules.paths.iter().any(|glob| glob.matches(path)) {
        return seen(Source::Path, last);
    }
    if parent == "walras" && !last.is_empty() {
        return seen(Source::Walras, last);
    }
    if let Some((source, id)) = container(parent, last) {
        return seen(source, id);
    }
    let is_unit = last.ends_with(".service") || last.ends_with(".scope");
    if is_unit && is_slices(parent) { seen(Source::Systemd, last) } else { None }
}

/// Whose workload a group is that `uid` owns. What root made for a user, such as a session, is that
/// user's.
#[must_use]
pub fn user_of(path: &str, uid: u32) -> u32 {
    let of_slice = || {
        let slice = path.split('/').find_map(|name| name.strip_prefix("user-"));
        slice.and_then(|rest| rest.strip_suffix(".slice")?.parse().ok())
    };
    if uid == 0 { of_slice().unwrap_or(0) } else { uid }
}

/// The engine and the id of the container that is called `last` in `parent`.
fn container<'a>(parent: &str, last: &'a str) -> Option<(Source, &'a str)> {
    let id_after =
        |text: &'a str, prefix| text.strip_prefix(prefix).filter(|id: &&str| is_container_id(id));
    // Without systemd, engines make groups in one of their own.
    match parent.split_once('/').unwrap_or((parent, "")) {
        ("docker", "") if is_container_id(last) => return Some((Source::Docker, last)),
        ("libpod_parent", pod) if !pod.contains('/') => {
            return id_after(last, "libpod-").map(|id| (Source::Podman, id));
        }
        _ => {}
    }
    // With it, they ask for scopes in a slice.
    let is_of_a_user = parent.split('/').next() == Some("user.slice");
    let stem = last.strip_suffix(".scope").filter(|_| is_slices(parent) && !is_of_a_user)?;
    let docker = id_after(stem, "docker-").map(|id| (Source::Docker, id));
    docker.or_else(|| id_after(stem, "libpod-").map(|id| (Source::Podman, id)))
}

/// Whether a path is made of slices only, which is where systemd has its services and scopes. There
/// are none in the root, which is a slice itself.
fn is_slices(path: &str) -> bool {
    path.is_empty() || path.split('/').all(|name| name.ends_with(".slice"))
}

/// Whether a group is that of a user's own service manager, who decides about all below it.
fn is_user_manager(name: &str) -> bool {
    let uid = name.strip_prefix("user@").and_then(|rest| rest.strip_suffix(".service"));
    uid.is_some_and(|uid| uid.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether it makes a difference what a container says about itself.
#[must_use]
pub fn matters(rules: &AdoptRules, seen: &Seen) -> bool {
    let may_be_named = rules.rules.iter().any(|rule| rule.managed == Some(true));
    rules.reach(seen.source) != Reach::None || may_be_named
}

/// What is to become of a cgroup that may be a workload, of which this is known.
#[must_use]
pub fn judge(rules: &AdoptRules, seen: &Seen, told: &Told) -> Judged {
    let (marks, unknown) = match told {
        Told::Marks(marks) => (marks, None),
        Told::Unknown(because) => (&Marks::default(), Some(because)),
    };
    let name = name_of(seen, marks);
    let fits = |rule: &&Rule| {
        rule.matches.matches(&seen.path)
            || rule.matches.matches(&name)
            || rule.matches.matches(&seen.id)
    };
    let fitting: Vec<&Rule> = rules.rules.iter().filter(fits).collect();
    let said = fitting.iter().find_map(|rule| rule.managed);
    if let (Some(because), None) = (unknown, said)
        && rules.reach(seen.source) != Reach::None
    {
        return Judged::Unknown(format!(
            "{} {name} is left alone, because it is not known whether it asked for that: {because}",
            seen.source.name()
        ));
    }
    let managed = said.or(marks.managed);
    let wanted = match (managed, rules.reach(seen.source)) {
        (Some(managed), _) => managed,
        (None, Reach::All) => !is_machine(seen),
        (None, Reach::Marked | Reach::None) => false,
    };
    let switched_off = rules.reach(seen.source) == Reach::None
        && fitting.iter().all(|rule| rule.managed.is_none());
    if !wanted || switched_off {
        // A unit may hold containers; a no counts for all of it.
        let may_hold_others = seen.source == Source::Systemd && managed.is_none();
        return if may_hold_others { Judged::LookBelow } else { Judged::Leave };
    }
    let mut complaints = marks.complaints.clone();
    if seen.path.len() > UID_MAX {
        return Judged::Leave;
    }
    let min = fitting.iter().find_map(|rule| rule.min).or(marks.min).or(rules.min);
    let max = fitting.iter().find_map(|rule| rule.max).or(marks.max).or(rules.max);
    if let (Some(min), Some(max)) = (min, max)
        && max < min
    {
        complaints.push(format!("its max of {max} is less than its min of {min}, which counts"));
    }
    let weight = fitting.iter().find_map(|rule| rule.weight).or(marks.weight);
    let target = fitting.iter().find_map(|rule| rule.target_latency_ms);
    let nature = fitting.iter().find_map(|rule| rule.nature);
    Judged::Adopt(Box::new(Adoption {
        uid: seen.path.clone(),
        family: family_of(seen, &name),
        name,
        source: seen.source,
        min,
        max: max.map(|max| max.max(min.unwrap_or(Millicores::ZERO))),
        weight: weight.unwrap_or(rules.weight),
        target_latency_ms: target.or(marks.target_latency_ms),
        nature: nature.or(marks.nature).unwrap_or_default(),
        complaints,
    }))
}

fn is_container_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_machine(seen: &Seen) -> bool {
    seen.source == Source::Systemd
        && (MACHINE.contains(&seen.id.as_str()) || seen.id.starts_with("systemd-"))
}

fn name_of(seen: &Seen, marks: &Marks) -> String {
    let short = match seen.source {
        Source::Docker | Source::Podman => seen.id.get(..12).unwrap_or(&seen.id),
        Source::Walras | Source::Systemd | Source::Path => seen.id.as_str(),
    };
    let name = marks.name.as_deref().unwrap_or(short);
    let printable = name.chars().take(NAME_MAX);
    printable.map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A container that is made anew has another id and the same name.
fn family_of(seen: &Seen, name: &str) -> String {
    match seen.source {
        Source::Docker | Source::Podman => format!("{}/{name}", seen.source.name()),
        Source::Walras | Source::Systemd | Source::Path => seen.path.clone(),
    }
}

// === impl AdoptRules, Reach, Source ===

impl Default for AdoptRules {
    fn default() -> Self {
        Self {
            walras: Reach::All,
            docker: Reach::All,
            podman: Reach::All,
            systemd: Reach::Marked,
            paths: Vec::new(),
            docker_socket: PathBuf::from("/run/docker.sock"),
            docker_root: None,
            podman_socket: PathBuf::from("/run/podman/podman.sock"),
            podman_root: None,
            min: None,
            max: None,
            weight: Weight::ONE,
            rules: Vec::new(),
        }
    }
}

impl AdoptRules {
    /// Whether a path of the configuration may be below `path`, which has no slash at its start.
    #[must_use]
    pub fn names_below(&self, path: &str) -> bool {
        self.paths.iter().any(|glob| glob.names_below(path))
    }

    /// Where workloads are looked for, in words.
    #[must_use]
    pub fn places(&self) -> Vec<String> {
        let kinds = [
            (self.walras, "groups in /walras"),
            (self.docker, "containers of Docker"),
            (self.podman, "containers of Podman"),
            (self.systemd, "services of systemd"),
        ];
        let looked_for = kinds.iter().filter_map(|(reach, what)| match reach {
            Reach::All => Some((*what).to_owned()),
            Reach::Marked => Some(format!("{what} that ask for it")),
            Reach::None => None,
        });
        looked_for.chain(self.paths.iter().map(ToString::to_string)).collect()
    }

    const fn reach(&self, source: Source) -> Reach {
        match source {
            Source::Walras => self.walras,
            Source::Docker => self.docker,
            Source::Podman => self.podman,
            Source::Systemd => self.systemd,
            Source::Path => Reach::All,
        }
    }
}

impl Reach {
    /// The words of the configuration.
    pub(crate) const WORDS: [(&'static str, Self); 3] =
        [("all", Self::All), ("marked", Self::Marked), ("none", Self::None)];
}

impl Source {
    /// The name a user reads.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Walras => "walras",
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Systemd => "systemd",
            Self::Path => "path",
        }
    }
}

impl From<Source> for WorkloadKind {
    fn from(source: Source) -> Self {
        match source {
            Source::Walras => Self::Walras,
            Source::Docker => Self::Docker,
            Source::Podman => Self::Podman,
            Source::Systemd => Self::Systemd,
            Source::Path => Self::Path,
        }
    }
}
