//! The programs that a testbed is made of: where each is, and how to get those that are not there.
//!
//! A folder that the user names goes first and has to hold everything; then come the three programs
//! that other projects' test tools share; the rest is built or fetched into the cache, once, with
//! the version in its path. Called before anything is started.

mod debian;
mod golang;
mod pins;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use self::pins::Module;
pub use self::pins::{Pins, read as pins};
use crate::progress::say;
use crate::settings::{self, Settings};

/// A program that a testbed starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// The store of the API server.
    Etcd,
    /// The API server.
    ApiServer,
    /// The controllers of Kubernetes.
    ControllerManager,
    /// The scheduler of Kubernetes.
    Scheduler,
    /// The command line of Kubernetes.
    Kubectl,
    /// The agent of a real node.
    Kubelet,
    /// The container runtime.
    Containerd,
    /// What containerd starts for each pod.
    Shim,
    /// The command line of containerd.
    Ctr,
    /// What the shim starts containers with.
    Runc,
    /// Connects pods to each other.
    CniBridge,
    /// Gives pods their addresses.
    CniHostLocal,
    /// Gives pods their loopback interface.
    CniLoopback,
    /// Nodes that exist in the API alone.
    Kwok,
    /// What renders the chart. No testbed needs it: [`prepare`] builds it for whoever names it.
    Helm,
    /// What collects metrics. No testbed needs it either: [`prepare`] fetches it.
    Prometheus,
}

/// Where the programs are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Programs {
    places: BTreeMap<Program, PathBuf>,
}

/// Which programs a testbed needs.
#[must_use]
pub fn needed(real_node: bool, kwok: bool) -> Vec<Program> {
    let all = Program::ALL.iter().copied();
    let wanted = all.filter(|program| match program.role() {
        Role::ControlPlane => true,
        Role::Node => real_node,
        Role::ManyNodes => kwok,
        Role::Tests => false,
    });
    wanted.collect()
}

/// Finds every program of `needed`, and builds or fetches those that are not there yet.
///
/// # Errors
///
/// In one sentence for each program that is missing and cannot be had, with what to do about it.
pub fn prepare(needed: &[Program], settings: &Settings) -> Result<Programs> {
    if let Some(folder) = &settings.assets {
        return ready(needed, folder);
    }
    let pins = pins()?;
    let cache = settings.programs();
    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let lock = File::create(cache.join("lock"))?;
    if lock.try_lock().is_err() {
        say("waiting for another process that prepares programs");
        lock.lock()?;
    }
    let mut places = BTreeMap::new();
    for program in needed {
        let place = match shared(*program, settings, &pins)? {
            Some(place) => place,
            None => own(*program, &pins, &cache)?,
        };
        places.insert(*program, place);
    }
    Ok(Programs { places })
}

/// All programs from one folder, which has to hold them.
fn ready(needed: &[Program], folder: &Path) -> Result<Programs> {
    let places = needed.iter().map(|program| (*program, folder.join(program.name())));
    let places: BTreeMap<_, _> = places.collect();
    let missing: Vec<_> = places
        .iter()
        .filter(|(_, place)| !settings::is_program(place))
        .map(|(program, _)| program.name())
        .collect();
    if !missing.is_empty() {
        let folder = folder.display();
        bail!(
            "WALRAS_KUBE_ASSETS names {folder}, which lacks {}; put them there, or unset the \
             variable to have everything built",
            missing.join(", ")
        );
    }
    Ok(Programs { places })
}

/// The program in the folder that test tools of other projects use, if it is one of theirs.
fn shared(program: Program, settings: &Settings, pins: &Pins) -> Result<Option<PathBuf>> {
    let theirs = matches!(program, Program::Etcd | Program::ApiServer | Program::Kubectl);
    let Some(folder) = settings.kubebuilder.as_ref().filter(|_| theirs) else { return Ok(None) };
    let place = folder.join(program.name());
    if !settings::is_program(&place) {
        return Ok(None);
    }
    if program == Program::ApiServer {
        let output = Command::new(&place).arg("--version").output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let module = pins.module.iter().find(|module| module.name == "kubernetes");
        let wanted = module.map(|module| module.version.as_str()).unwrap_or_default();
        check_minor(text.trim(), wanted).with_context(|| {
            let place = place.display();
            format!("KUBEBUILDER_ASSETS has {place}; unset it to have the right one built")
        })?;
    }
    Ok(Some(place))
}

/// A kubelet must not be newer than its API server, so the two come from one minor version.
fn check_minor(said: &str, wanted: &str) -> Result<()> {
    let minor = |text: &str| {
        let version = text.rsplit(' ').next()?.strip_prefix('v')?;
        let mut parts = version.split('.');
        Some((parts.next()?.to_owned(), parts.next()?.to_owned()))
    };
    if minor(said).is_none() || minor(said) != minor(wanted) {
        bail!("the API server is {said}, and one of the same minor version as {wanted} is needed");
    }
    Ok(())
}

/// The program in our cache, built or fetched if it is not there.
fn own(program: Program, pins: &Pins, cache: &Path) -> Result<PathBuf> {
    let name = program.name();
    if let Some(module) = pins.module.iter().find(|module| module.has(name)) {
        let folder = cache.join(module.folder());
        if !golang::is_built(module, &folder) {
            golang::build(module, &folder)?;
        }
        return Ok(folder.join("bin").join(name));
    }
    let package = pins.package.iter().find(|package| package.programs.contains_key(name));
    let package = package.with_context(|| format!("assets.toml does not say where {name} is"))?;
    let folder = cache.join("debian");
    let place = match debian::unpacked(package, &folder) {
        Some(place) => place,
        None => debian::unpack(package, &folder)?,
    };
    Ok(place.join(&package.programs[name]))
}

/// What a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    ControlPlane,
    Node,
    ManyNodes,
    Tests,
}

// === impl Program ===

impl Program {
    /// All programs, in the order in which they are prepared: what is built last is needed least.
    const ALL: [Self; 16] = [
        Self::Etcd,
        Self::Runc,
        Self::CniBridge,
        Self::CniHostLocal,
        Self::CniLoopback,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Scheduler,
        Self::Kubectl,
        Self::Kubelet,
        Self::Containerd,
        Self::Shim,
        Self::Ctr,
        Self::Kwok,
        Self::Helm,
        Self::Prometheus,
    ];

    /// The name of its file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Kubectl => "kubectl",
            Self::Kubelet => "kubelet",
            Self::Containerd => "containerd",
            Self::Shim => "containerd-shim-runc-v2",
            Self::Ctr => "ctr",
            Self::Runc => "runc",
            Self::CniBridge => "bridge",
            Self::CniHostLocal => "host-local",
            Self::CniLoopback => "loopback",
            Self::Kwok => "kwok",
            Self::Helm => "helm",
            Self::Prometheus => "prometheus",
        }
    }

    fn role(self) -> Role {
        match self {
            Self::Etcd
            | Self::ApiServer
            | Self::ControllerManager
            | Self::Scheduler
            | Self::Kubectl => Role::ControlPlane,
            Self::Kubelet
            | Self::Containerd
            | Self::Shim
            | Self::Ctr
            | Self::Runc
            | Self::CniBridge
            | Self::CniHostLocal
            | Self::CniLoopback => Role::Node,
            Self::Kwok => Role::ManyNodes,
            Self::Helm | Self::Prometheus => Role::Tests,
        }
    }
}

// === impl Programs ===

impl Programs {
    /// Where `program` is.
    ///
    /// # Errors
    ///
    /// If it was not among those that were prepared.
    pub fn place(&self, program: Program) -> Result<&Path> {
        let place = self.places.get(&program).map(PathBuf::as_path);
        place.with_context(|| format!("{} was not prepared", program.name()))
    }

    /// The programs and their places.
    pub fn iter(&self) -> impl Iterator<Item = (Program, &Path)> {
        self.places.iter().map(|(program, place)| (*program, place.as_path()))
    }

    /// Made-up places, for tests of plans.
    #[cfg(test)]
    pub(crate) fn pretend() -> Self {
        let place = |program: &Program| (*program, Path::new("/bin").join(program.name()));
        Self { places: Program::ALL.iter().map(place).collect() }
    }
}

// === impl Module ===

impl Module {
    fn has(&self, program: &str) -> bool {
        self.programs.contains_key(program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_pinned_once() {
        let pins = pins().unwrap();
        for program in Program::ALL {
            let name = program.name();
            let modules = pins.module.iter().filter(|module| module.has(name)).count();
            let packages = pins.package.iter().filter(|p| p.programs.contains_key(name)).count();
            assert_eq!(modules + packages, 1, "{name}");
        }
    }

    #[test]
    fn a_control_plane_needs_neither_a_kubelet_nor_kwok() {
        let names = |real, kwok| {
            let names: Vec<_> = needed(real, kwok).into_iter().map(Program::name).collect();
            names.join(" ")
        };
        let control = "etcd kube-apiserver kube-controller-manager kube-scheduler kubectl";
        assert_eq!(names(false, false), control);
        assert_eq!(names(false, true), format!("{control} kwok"));
        let beside = [Program::Helm, Program::Prometheus];
        let all = Program::ALL.into_iter().filter(|program| !beside.contains(program));
        assert_eq!(needed(true, true), all.collect::<Vec<_>>());
    }

    #[test]
    fn a_folder_of_ready_programs_has_to_hold_them_all() {
        let folder = tempfile::tempdir().unwrap();
        let error = ready(&[Program::Etcd, Program::Kubectl], folder.path()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("which lacks etcd, kubectl;"), "{text}");
        fs::write(folder.path().join("etcd"), "").unwrap();
        let text = ready(&[Program::Etcd], folder.path()).unwrap_err().to_string();
        assert!(text.contains("which lacks etcd;"), "a file that cannot be executed: {text}");
        assert_eq!(ready(&[], folder.path()).unwrap(), Programs::default());
    }

    #[test]
    fn an_api_server_of_another_minor_version_is_refused() {
        check_minor("Kubernetes v1.36.1", "v1.36.4").unwrap();
        for other in ["Kubernetes v1.35.4", "Kubernetes v2.36.4", "", "nonsense"] {
            let error = check_minor(other, "v1.36.4").unwrap_err().to_string();
            assert!(error.contains("same minor version as v1.36.4"), "{error}");
        }
    }
}
