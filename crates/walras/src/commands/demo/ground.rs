//! The cgroups of a demonstration: one with a telling name, and in it one for each workload.
//!
//! The name has the process that made it and when that started, so that the next demonstration
//! knows what a killed one left behind, and that two at once never meet. Everything goes with its
//! value: first the processes, then their groups, then the one around them.

use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use walras_cgroup::{
    CgroupError, CgroupPath, Created, Group, Inside, Layout, LayoutError, Original, Originals,
    Target, remove_orphans,
};
use walras_core::parse::CpuWeight;
use walras_core::profile::Profile;
use walras_core::smooth::weight::{KernelWeight, kernel_weight};
use walras_core::units::Millicores;
use walras_node::drive::cpus_online;
use walras_sim::scenario::{PodSpec, Scenario};

use super::load::Answers;

/// What the groups of all demonstrations are called, before the process and its start.
const PREFIX: &str = "walras-demo-";
/// Fifty times what others have, so that what else goes on does not spoil the comparison.
const WEIGHT: u32 = 5000;
/// The group of this process, which measures and runs the market.
const CONTROL: &str = "control";
/// The processes of a killed demonstration are gone by then.
const PATIENCE: Duration = Duration::from_secs(3);
/// However little CPU a process has, it ends within this time.
const ENDING: Duration = Duration::from_secs(10);
/// How often it is looked at meanwhile.
const BETWEEN: Duration = Duration::from_millis(10);

/// Why there is no demonstration on this machine.
#[derive(Debug, thiserror::Error)]
pub(super) enum GroundError {
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error("this process cannot be told from others: {0}")]
    Nameless(String),
}

/// Where everything happens.
#[derive(Debug)]
pub(super) struct Ground {
    layout: Layout,
    /// This process is beside the workloads, so that it gets its turn whatever they do and
    /// whatever else the machine has to do. Goes first, then its group, then the one around it.
    _inside: Inside,
    _control: Created,
    top: Created,
}

/// The workloads of one phase.
#[derive(Debug)]
pub(super) struct Players {
    pub(super) all: Vec<Player>,
}

/// One workload: a process in its group.
#[derive(Debug)]
pub(super) struct Player {
    pub(super) name: String,
    child: Child,
    pub(super) group: Group,
    /// Goes last, when it is empty.
    created: Created,
}

/// Our own groups have nothing that anybody would want back.
struct NotKept;

// === impl Ground ===

impl Ground {
    /// Removes what killed demonstrations left behind, and makes the group of this one. Whether
    /// limits can be set is tried, too.
    pub(super) fn prepare() -> Result<Self, GroundError> {
        let layout = Layout::of_this_machine()?;
        remove_what_was_left(&layout)?;
        let pid = std::process::id();
        let start = started(pid).ok_or_else(|| GroundError::Nameless(format!("process {pid}")))?;
        let top = Created::create(&layout, &path(&CgroupPath::ROOT, &name(pid, start)))?;
        set(
            &top,
            &Target {
                limit: None,
                weight: CpuWeight::new(WEIGHT).map(KernelWeight::from),
                burst: None,
            },
        )?;
        let control = Created::create(&layout, &path(top.path(), CONTROL))?;
        let most = CpuWeight::new(10_000).map(KernelWeight::from);
        // Whether limits can be set is tried here, with one that never holds anybody back.
        let all = Some(cpus_online());
        set(&control, &Target { limit: all, weight: most, burst: None })?;
        let inside = control.enter()?;
        Ok(Self { layout, _inside: inside, _control: control, top })
    }

    pub(super) const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The path of a workload's group, as patterns of paths have it.
    pub(super) fn pattern(&self, pod: &str) -> String {
        path(self.top.path(), pod).to_string().trim_start_matches('/').to_owned()
    }

    /// Starts every workload of the scenario under its static limit. None works yet.
    pub(super) fn start(&self, scenario: &Scenario) -> Result<Players, String> {
        let capacity = scenario.node.capacity.get().to_string();
        let seconds = scenario.duration_s.to_string();
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut all = Vec::new();
        for pod in &scenario.pods {
            let created = self.make(&pod.name).map_err(|error| error.to_string())?;
            let most = pod.limit.unwrap_or(scenario.node.capacity);
            let group = limit(&created, most, Some(pod)).map_err(|error| error.to_string())?;
            let child = Command::new(&program)
                .args(["demo-load", &pod.name, "--capacity-milli", &capacity])
                .args(["--seconds", &seconds])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|error| format!("{} cannot be started: {error}", program.display()))?;
            let id = child.id();
            let player = Player { name: pod.name.clone(), child, group, created };
            player.created.put(id).map_err(|error| error.to_string())?;
            all.push(player);
        }
        Ok(Players { all })
    }

    fn make(&self, name: &str) -> Result<Created, CgroupError> {
        Created::create(&self.layout, &path(self.top.path(), name))
    }
}

// === impl Players ===

impl Players {
    /// Lets all of them work.
    pub(super) fn go(&mut self) -> Result<(), String> {
        self.all.iter_mut().try_for_each(|player| player.tell("go"))
    }

    /// Ends all of them, and returns what became of the requests to the one called `name`.
    pub(super) fn stop(mut self, name: &str) -> Result<Answers, String> {
        for player in &mut self.all {
            player.tell("stop")?;
        }
        let mut answers = None;
        for player in &mut self.all {
            let told = player.end()?;
            if player.name == name {
                answers = serde_json::from_str(&told).ok();
            }
        }
        answers.ok_or_else(|| format!("{name} has not told what became of its requests"))
    }
}

// === impl Player ===

impl Player {
    fn tell(&mut self, line: &str) -> Result<(), String> {
        let told = self.child.stdin.as_mut().map(|pipe| writeln!(pipe, "{line}"));
        match told {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => Err(format!("the workload {} has ended early", self.name)),
        }
    }

    /// Waits until it has ended by itself, and returns what it printed.
    fn end(&mut self) -> Result<String, String> {
        let mut told = String::new();
        if let Some(mut pipe) = self.child.stdout.take() {
            pipe.read_to_string(&mut told).map_err(|error| format!("{}: {error}", self.name))?;
        }
        let deadline = Instant::now() + ENDING;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(told),
                Ok(Some(status)) => return Err(format!("the workload {}: {status}", self.name)),
                Ok(None) if Instant::now() < deadline => thread::park_timeout(BETWEEN),
                Ok(None) => return Err(format!("the workload {} does not end", self.name)),
                Err(error) => return Err(format!("{}: {error}", self.name)),
            }
        }
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Originals for NotKept {
    fn keep(&mut self, _: &Original) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}

/// Sets a limit, and the weight of a pod, on a group of ours.
fn limit(
    created: &Created,
    limit: Millicores,
    pod: Option<&PodSpec>,
) -> Result<Group, CgroupError> {
    let weight = pod.map(|pod| kernel_weight(&Profile::DIRECT, pod.request, pod.weight));
    set(created, &Target { limit: Some(limit), weight, burst: None })
}

fn set(created: &Created, target: &Target) -> Result<Group, CgroupError> {
    created.open()?.adopt(&mut NotKept)?.apply(target)?;
    created.open()
}

fn remove_what_was_left(layout: &Layout) -> Result<(), CgroupError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        remove_orphans(layout, &CgroupPath::ROOT, is_orphan)?;
        let left = fs::read_dir(layout.cpu_root()).is_ok_and(|entries| {
            let mut names = entries.flatten().map(|entry| entry.file_name());
            names.any(|name| is_orphan(name.as_encoded_bytes()))
        });
        // Whatever is left after that does no harm, and the next one tries again.
        if !left || Instant::now() >= deadline {
            return Ok(());
        }
        thread::park_timeout(BETWEEN);
    }
}

fn name(pid: u32, start: u64) -> String {
    format!("{PREFIX}{pid}-{start}")
}

/// Whether a group belongs to a demonstration whose process is gone.
fn is_orphan(name: &[u8]) -> bool {
    owner(name).is_some_and(|(pid, start)| started(pid) != Some(start))
}

/// The process in a name, and when it started.
fn owner(name: &[u8]) -> Option<(u32, u64)> {
    let rest = std::str::from_utf8(name).ok()?.strip_prefix(PREFIX)?;
    let (pid, start) = rest.split_once('-')?;
    Some((pid.parse().ok()?, start.parse().ok()?))
}

/// When a process started, in ticks since the boot; nothing if there is none.
fn started(pid: u32) -> Option<u64> {
    start_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The 22nd field. The second is a name in parentheses and may hold anything.
fn start_in(stat: &str) -> Option<u64> {
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(19)?.parse().ok()
}

fn path(parent: &CgroupPath, name: &str) -> CgroupPath {
    parent.join(name.as_bytes()).expect("our names have no slash in them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_left_behind_when_its_process_is_gone_or_another_one() {
        let pid = std::process::id();
        let start = started(pid).expect("this process runs");
        assert!(!is_orphan(name(pid, start).as_bytes()));
        assert!(is_orphan(name(pid, start + 1).as_bytes()));
        assert!(is_orphan(b"walras-demo-4294967295-1"));
        for other in ["walras-demo-", "walras-demo-1", "walras-demo-x-1", "walras-host-1-1"] {
            assert!(!is_orphan(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn the_name_of_a_process_may_hold_anything() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1";
        assert_eq!(start_in(stat), Some(4711));
        assert_eq!(start_in(""), None);
    }
}
