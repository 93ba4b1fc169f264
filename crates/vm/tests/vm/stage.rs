//! A host of its own for each test: folders, control groups, and what guests say.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::broadcast;
use tokio::time;
use walras_cgroup::{CgroupPath, Created, Layout};
use walras_core::units::{Bytes, Millicores, Resources};
use walras_vm::{
    Accel, CpuRange, Life, Machine, MachineSpec, MemoryRange, MigrationPhase, Qemu, QemuOptions,
    Secrets, Seed,
};

/// Nothing takes as long, even on a machine with other things to do.
const LONG: Duration = Duration::from_secs(120);

/// A host.
pub(crate) struct Stage {
    state: tempfile::TempDir,
    run: tempfile::TempDir,
    layout: Layout,
    group: CgroupPath,
}

/// What a guest last said of itself.
pub(crate) struct Guest {
    pub(crate) count: u64,
    pub(crate) cpus: String,
    pub(crate) memory_kib: u64,
}

impl Stage {
    pub(crate) fn new(name: &str) -> Self {
        let folder = |base: &str| {
            let prefix = format!("wvm-{name}-");
            tempfile::Builder::new().prefix(&prefix).tempdir_in(base).unwrap()
        };
        let group = format!("walras-vm-{}-{name}", std::process::id());
        Self {
            state: folder("/tmp"),
            run: folder("/dev/shm"),
            layout: Layout::of_this_machine().unwrap(),
            group: CgroupPath::new(group.as_bytes()).unwrap(),
        }
    }

    /// All machines of this host, as a daemon that has just been started sees them.
    pub(crate) fn qemu(&self) -> Arc<Qemu> {
        let (state, run) = (self.state.path().to_owned(), self.run.path().to_owned());
        let mut options = QemuOptions::new(state, run);
        options.group = Some((self.layout.clone(), self.group.clone()));
        // A guest on a busy machine takes what it takes.
        options.change_within = LONG;
        Arc::new(Qemu::new(options).unwrap())
    }

    /// A machine that boots into the guest of the tests.
    pub(crate) fn spec(&self, name: &str, user_data: &str) -> MachineSpec {
        let cpus = CpuRange { start: Millicores::new(1000), max: 2 };
        let memory = MemoryRange { min: mib(256), start: mib(256), max: mib(512) };
        let mut spec = MachineSpec::new(name, cpus, memory);
        let guest = guest_folder();
        spec.accel = Accel::Tcg;
        spec.boot.kernel = Some(guest.join("vmlinuz"));
        spec.boot.initrd = Some(guest.join("machine.cpio"));
        spec.boot.append = "console=ttyS0 quiet panic=-1 no_timer_check".to_owned();
        spec.seed = Some(Seed { user_data: user_data.to_owned(), ..Seed::default() });
        spec
    }

    pub(crate) fn console(&self, name: &str) -> String {
        let text = fs::read(self.state.path().join(name).join("console.log")).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Waits until the guest says something.
    pub(crate) async fn says(&self, name: &str, words: &str) {
        self.until(name, words, |console| console.contains(words).then_some(())).await;
    }

    /// Waits until the guest has counted so far.
    pub(crate) async fn counts(&self, name: &str, count: u64) {
        self.guest_has(name, |guest| guest.count >= count).await;
    }

    pub(crate) fn last_count(&self, name: &str) -> u64 {
        last(&self.console(name)).unwrap().count
    }

    pub(crate) async fn guest_memory(&self, name: &str) -> u64 {
        self.guest_has(name, |_| true).await.memory_kib
    }

    /// Waits until the guest says that it is so.
    pub(crate) async fn guest_has(&self, name: &str, is_so: impl Fn(&Guest) -> bool) -> Guest {
        self.until(name, "the guest has it", |console| last(console).filter(&is_so)).await
    }

    async fn until<T>(&self, name: &str, what: &str, look: impl Fn(&str) -> Option<T>) -> T {
        let deadline = Instant::now() + LONG;
        loop {
            let console = self.console(name);
            if let Some(found) = look(&console) {
                return found;
            }
            let log = fs::read_to_string(self.state.path().join(name).join("qemu.log"));
            assert!(
                Instant::now() < deadline,
                "{what} did not come; the console says\n{console}\nand QEMU\n{log:?}"
            );
            time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Whether a process is where the market finds it.
    pub(crate) fn is_in_its_group(&self, name: &str, pid: u32) -> bool {
        let inner = [format!("vm-{name}"), "qemu".to_owned()];
        let path =
            inner.iter().fold(self.group.clone(), |path, name| path.join(name.as_bytes()).unwrap());
        let text = fs::read_to_string(path.under(self.layout.cpu_root()).join("cgroup.procs"));
        text.unwrap().lines().any(|line| line == pid.to_string())
    }

    /// Demands that no file of this host has these words in it.
    pub(crate) fn has_nowhere(&self, words: &str) {
        let found = [self.state.path(), self.run.path()].map(|folder| files_with(folder, words));
        assert_eq!(found.concat(), Vec::<PathBuf>::new());
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A test that failed may have left machines behind.
        let folders = fs::read_dir(self.state.path()).into_iter().flatten().flatten();
        for folder in folders {
            let pid = fs::read_to_string(folder.path().join("pid")).unwrap_or_default();
            if let Ok(pid) = pid.trim().parse() {
                kill(pid);
            }
        }
        let remove = |path: &CgroupPath| {
            if path.under(self.layout.cpu_root()).exists() {
                drop(Created::taken_over(&self.layout, path));
            }
        };
        // Every machine here is called `db`.
        let outer = self.group.join(b"vm-db").unwrap();
        remove(&outer.join(b"qemu").unwrap());
        remove(&outer);
        remove(&self.group);
    }
}

#[expect(clippy::disallowed_methods, reason = "the tier says where the guest is")]
fn guest_folder() -> PathBuf {
    let folder =
        std::env::var_os("WALRAS_GUEST").expect("run this with `cargo xtask test --tier vm`");
    PathBuf::from(folder)
}

/// The last whole line in which a guest says what it has.
fn last(console: &str) -> Option<Guest> {
    let lines = console.lines().rev();
    lines.filter(|line| line.ends_with(" end")).find_map(|line| {
        let words: Vec<&str> = line.strip_prefix("guest> count ")?.split(' ').collect();
        let [count, "cpus", cpus, "memory", memory, "end"] = *words else { return None };
        let (count, memory_kib) = (count.parse().ok()?, memory.parse().ok()?);
        Some(Guest { count, cpus: cpus.to_owned(), memory_kib })
    })
}

/// Demands that the counts on both consoles are one row without a gap.
pub(crate) fn no_count_is_lost(first: &str, second: &str) {
    // A line may have begun on one host and ended on the other.
    let all = format!("{first}{second}");
    let counts: Vec<u64> = all
        .split("guest> count ")
        .skip(1)
        .filter_map(|rest| rest.split(' ').next()?.parse().ok())
        .collect();
    assert!(counts.len() > 5 && counts[0] == 1, "{all}");
    assert!(counts.windows(2).all(|two| two[1] == two[0] + 1), "{counts:?}");
}

/// Waits until a move is over.
pub(crate) async fn moved(machine: &dyn Machine) -> MigrationPhase {
    let deadline = Instant::now() + LONG;
    loop {
        let progress = machine.migration().await.unwrap();
        if !progress.phase.is_under_way() {
            return progress.phase;
        }
        assert!(Instant::now() < deadline, "{progress:?}");
        time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until somebody tells of `name` and it is so.
pub(crate) async fn heard(
    changes: &mut broadcast::Receiver<String>,
    name: &str,
    is_so: impl Fn() -> bool,
) {
    let heard = async {
        loop {
            let told = changes.recv().await.unwrap();
            if told == name && is_so() {
                return;
            }
        }
    };
    time::timeout(LONG, heard).await.unwrap();
}

/// What tells one start from another.
pub(crate) fn start_of(life: &Life) -> String {
    match life {
        Life::Live { start, .. } => start.clone(),
        Life::Defined | Life::Ended(_) => panic!("it does not run: {life:?}"),
    }
}

pub(crate) fn secrets(key: &str) -> Secrets {
    Secrets(BTreeMap::from([("key".to_owned(), key.as_bytes().to_vec())]))
}

/// The sum that a guest makes of a text, by the same program.
pub(crate) fn sum(text: &str) -> String {
    let mut child =
        Command::new("md5sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap().stdout;
    String::from_utf8_lossy(&output).split(' ').next().unwrap().to_owned()
}

/// A port at which nobody listens.
pub(crate) fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub(crate) fn kill(pid: u32) {
    Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
}

pub(crate) fn mib(mib: u64) -> Bytes {
    Bytes::new(mib << 20)
}

pub(crate) fn size(milli: u64, memory_mib: u64) -> Resources {
    Resources::new(Millicores::new(milli), mib(memory_mib))
}

#[expect(clippy::print_stdout, reason = "how long it took is the point")]
pub(crate) fn told(what: &str, began: Instant) {
    println!("{:6.1} s  {what}", began.elapsed().as_secs_f64());
}

fn files_with(folder: &Path, words: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, words));
        } else if path.is_file() {
            let text = fs::read(&path).unwrap();
            if text.windows(words.len()).any(|part| part == words.as_bytes()) {
                found.push(path);
            }
        }
    }
    found
}
