//! Where each test works: a control group of its own, gone after the test, and processes in it that
//! burn CPU when they are told to.
//!
//! The processes are the test's own executable. Each is held to one CPU and stops itself before it
//! burns, so that both sides of a comparison begin at the same point.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_setaffinity};
use walras_cgroup::{CgroupPath, Created, Layout, remove_left_behind};

/// Nothing that a test waits for takes this long, however busy the machine is.
const DEADLINE: Duration = Duration::from_secs(60);
const PREFIX: &[u8] = b"walras-telemetry-test-";
/// The environment variable that makes a process burn.
const BURN: &str = "WALRAS_TELEMETRY_TEST_BURN";
/// The test that does it.
const BURNER: &str = "tests::the_burning_process_burns";

/// A control group for one test.
#[derive(Debug)]
pub(crate) struct Ground {
    group: Created,
}

/// A process that burns CPU while it is let, until this value goes.
#[derive(Debug)]
pub(crate) struct Burner {
    child: Child,
}

/// What the kernel counted for one task: how long it ran and waited, and how often it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchedStat {
    pub(crate) ran_ns: u64,
    pub(crate) waited_ns: u64,
    pub(crate) runs: u64,
}

/// Waits until `found` finds something.
pub(crate) fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "{what} did not come about");
        std::thread::yield_now();
    }
}

/// Burns if this process was started to: on one CPU, and from when it is continued.
pub(crate) fn burn_if_told() {
    if environment(BURN).is_some() {
        let ourselves = rustix::process::getpid();
        let parent = rustix::process::getppid();
        kill_process(ourselves, Signal::STOP).expect("a process may stop itself");
        // Who started it may be killed and then cannot end it.
        while rustix::process::getppid() == parent {
            (0..100_000).for_each(|_| std::hint::spin_loop());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the user's word, and the burner's instructions")]
fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

// === impl Ground ===

impl Ground {
    /// A ground for one test; nothing if the user wants to do without.
    pub(crate) fn prepared() -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        if environment("WALRAS_WITHOUT_CGROUPS").is_some_and(|value| value == "1") {
            println!("NOT RUN: WALRAS_WITHOUT_CGROUPS IS SET");
            return None;
        }
        let layout = Layout::of_this_machine().expect("the cpu controller is mounted");
        remove_left_behind(&layout, &CgroupPath::ROOT, PREFIX).expect("root may look");
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}{}-{number}", String::from_utf8_lossy(PREFIX), std::process::id());
        let path = CgroupPath::ROOT.join(name.as_bytes()).expect("a name");
        let group = Created::create(&layout, &path).expect("root may make groups");
        Some(Self { group })
    }

    /// The number that the kernel knows the group by.
    pub(crate) fn number(&self) -> u64 {
        self.group.open().expect("it was made").identity().inode
    }

    /// Processes in the group that are stopped.
    pub(crate) fn burners(&self, count: usize) -> Vec<Burner> {
        let burners: Vec<Burner> = (0..count).map(|_| Burner::start()).collect();
        for burner in &burners {
            wait_for("a stop", || burner.is_stopped().then_some(()));
            self.group.put(burner.child.id()).expect("root may move processes");
        }
        burners
    }
}

// === impl Burner ===

impl Burner {
    fn start() -> Self {
        let executable = std::env::current_exe().expect("a test has an executable");
        let start = || {
            let mut first = CpuSet::new();
            first.set(0);
            sched_setaffinity(None, &first).expect("every machine has a first CPU");
            Command::new(executable)
                .args([BURNER, "--exact", "--nocapture", "--test-threads=1"])
                .env(BURN, "1")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .expect("a test can start itself")
        };
        // A process has all of its life the CPUs of the thread that started it.
        let child = std::thread::scope(|scope| scope.spawn(start).join().expect("it starts"));
        Self { child }
    }

    /// Lets it burn.
    pub(crate) fn go(&self) {
        self.send(Signal::CONT);
    }

    /// Stops it, and returns when it has stopped.
    pub(crate) fn stop(&self) {
        self.send(Signal::STOP);
        wait_for("a stop", || self.is_stopped().then_some(()));
    }

    /// What the kernel says about all of its threads.
    pub(crate) fn sched_stat(&self) -> SchedStat {
        let tasks = format!("/proc/{}/task", self.child.id());
        let mut sum = SchedStat::default();
        for task in std::fs::read_dir(tasks).expect("it lives").flatten() {
            let text = std::fs::read_to_string(task.path().join("schedstat")).expect("it lives");
            let mut words = text.split_whitespace().map(|word| word.parse::<u64>().expect("it"));
            let mut next = || words.next().expect("three numbers");
            sum.ran_ns += next();
            sum.waited_ns += next();
            sum.runs += next();
        }
        sum
    }

    fn send(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process number");
        kill_process(Pid::from_raw(pid).expect("not zero"), signal).expect("it is ours");
    }

    /// Whether all of its threads are stopped and have left their CPU.
    fn is_stopped(&self) -> bool {
        let tasks = format!("/proc/{}/task", self.child.id());
        let mut found = 0;
        for task in std::fs::read_dir(tasks).expect("it lives").flatten() {
            if !is_stopped(&task.path()) {
                return false;
            }
            found += 1;
        }
        found > 0
    }
}

/// A task that is about to stop is told as stopped while it still runs. What it is doing in the
/// kernel is told only when it has left its CPU.
fn is_stopped(task: &Path) -> bool {
    let read = |name: &str| std::fs::read_to_string(task.join(name)).unwrap_or_default();
    // The state follows the name, which is in brackets.
    let stopped = read("stat").rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'));
    let doing = read("syscall");
    stopped && !doing.is_empty() && !doing.starts_with("running")
}

impl Drop for Burner {
    fn drop(&mut self) {
        // It may be stopped, and is ended nevertheless.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
