//! Where each test works: a control group of its own, gone with everything in it after the test,
//! also after a failed one; and a process that burns CPU in a group.
//!
//! Names contain the process and a counter, so tests side by side do not meet. The burning process
//! is the test's own executable, so that it is never missing, also where there is no other program.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Signal, set_parent_process_death_signal};
use walras_cgroup::{CgroupPath, Created, Layout, Original, Originals, remove_left_behind};

/// Nothing that a test waits for takes this long, however busy the machine is.
const DEADLINE: Duration = Duration::from_secs(60);
/// What the groups of these tests are called.
const PREFIX: &[u8] = b"walras-cgroup-test-";
/// The environment variable that makes a process burn.
const BURN: &str = "WALRAS_CGROUP_TEST_BURN";
/// The test that does it.
const BURNER: &str = "tests::the_burning_process_burns";

/// A control group for one test, and groups made in it.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) layout: Layout,
    top: CgroupPath,
    /// From the outermost to the innermost.
    made: Vec<Created>,
}

/// A process that burns CPU until this value goes.
#[derive(Debug)]
pub(crate) struct Burner {
    child: Child,
}

/// Keeps originals in memory, or refuses to.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    pub(crate) kept: Vec<Original>,
    pub(crate) full: bool,
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

/// Burns if this process was started to.
pub(crate) fn burn_if_told() {
    if environment(BURN).is_some() {
        set_parent_process_death_signal(Some(Signal::KILL)).expect("any process may ask for that");
        loop {
            std::hint::spin_loop();
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
            // Past the harness, which hides what passing tests print.
            let words =
                "NOT RUN: A TEST ON REAL CONTROL GROUPS, BECAUSE WALRAS_WITHOUT_CGROUPS=1\n";
            std::io::stderr().write_all(words.as_bytes()).unwrap();
            return None;
        }
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let mut name = PREFIX.to_vec();
        name.extend(format!("{}-{number}", std::process::id()).bytes());
        let ground =
            Layout::of_this_machine().map_err(|error| error.to_string()).and_then(|layout| {
                remove_left_behind(&layout, &CgroupPath::ROOT, PREFIX)
                    .map_err(|e| e.to_string())?;
                let top = CgroupPath::ROOT.join(&name).unwrap();
                let made = Created::create(&layout, &top).map_err(|error| error.to_string())?;
                Ok(Self { layout, top, made: vec![made] })
            });
        Some(ground.unwrap_or_else(|why| {
            panic!(
                "this test needs root and a writable cpu controller of control groups ({why}); \
                 WALRAS_WITHOUT_CGROUPS=1 leaves it out"
            )
        }))
    }

    /// The test's own group.
    pub(crate) fn top(&self) -> &CgroupPath {
        &self.top
    }

    /// The path of a group in it.
    pub(crate) fn path(&self, below: &[u8]) -> CgroupPath {
        below
            .split(|&byte| byte == b'/')
            .fold(self.top.clone(), |path, name| path.join(name).unwrap())
    }

    /// Makes a group in it.
    pub(crate) fn make(&mut self, below: &[u8]) -> CgroupPath {
        let path = self.path(below);
        self.made.push(Created::create(&self.layout, &path).unwrap());
        path
    }

    /// Removes a group that was made before.
    pub(crate) fn unmake(&mut self, path: &CgroupPath) {
        let place = self.made.iter().position(|made| made.path() == path).unwrap();
        self.made.remove(place).remove().unwrap();
    }

    /// The last group that was made.
    pub(crate) fn last(&self) -> &Created {
        self.made.last().unwrap()
    }

    /// What a file of a group says, read without the crate under test.
    pub(crate) fn text(&self, path: &CgroupPath, file: &str) -> String {
        let file = path.under(self.layout.cpu_root()).join(file);
        let text = std::fs::read_to_string(&file);
        text.unwrap_or_else(|error| panic!("{}: {error}", file.display())).trim().to_owned()
    }

    /// Writes to a file of a group, without the crate under test.
    pub(crate) fn write(&self, path: &CgroupPath, file: &str, text: &str) -> std::io::Result<()> {
        std::fs::write(path.under(self.layout.cpu_root()).join(file), text)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        while self.made.pop().is_some() {}
    }
}

// === impl Burner ===

impl Burner {
    /// Burns in the last group that was made.
    pub(crate) fn start(group: &Created) -> Self {
        let executable = std::env::current_exe().expect("the kernel knows this executable");
        let child = Command::new(executable)
            .args(["--exact", BURNER, "--test-threads=1"])
            .env(BURN, "1")
            .stdout(Stdio::null())
            .spawn()
            .expect("this executable can be run again");
        let burner = Self { child };
        group.put(burner.child.id()).unwrap();
        burner
    }
}

impl Drop for Burner {
    fn drop(&mut self) {
        // It may have ended already; in any case it is waited for.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

// === impl Shelf ===

impl Originals for Shelf {
    fn keep(
        &mut self,
        original: &Original,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        if self.full {
            return Err("the shelf is full".into());
        }
        self.kept.push(original.clone());
        Ok(())
    }
}
