//! The story: loads change and parties are killed for a while, then nothing fails any more.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::machine::{FileMachine, UNIT_MILLI, units};
use crate::party::{CAPACITY, KEY, NAMES};

/// How long parties are killed.
const WILD: Duration = Duration::from_secs(20);
/// How long it may take until everybody has what it should.
const CALM: Duration = Duration::from_secs(150);

struct Town {
    folder: tempfile::TempDir,
    ports: Vec<u16>,
    parties: Vec<(Vec<String>, Child)>,
    loads: [u64; 3],
    dice: u64,
}

pub(crate) fn run() -> ExitCode {
    let since = SystemTime::UNIX_EPOCH.elapsed().expect("a clock");
    let seed = u64::try_from(since.as_nanos() % 1_000_000_007).expect("it fits") | 1;
    say(&format!("killed: seed {seed}"));
    let mut town = Town::new(seed);
    let wild = Instant::now() + WILD;
    let mut kills = 0;
    while Instant::now() < wild {
        town.change_a_load();
        town.pass(Duration::from_millis(400));
        town.kill_one();
        kills += 1;
        town.pass(Duration::from_millis(400));
    }
    town.loads = [5, 2, 3];
    let goals = town.loads;
    let calm = Instant::now() + CALM;
    while town.sizes() != goals {
        let has = town.sizes();
        assert!(Instant::now() < calm, "seed {seed}: machines have {has:?} units, not {goals:?}");
        town.pass(Duration::from_millis(200));
    }
    let (changes, most) = town.check_log(seed);
    say(&format!(
        "killed: {kills} kills, {changes} changes, at most {most} of {} millicores; then {goals:?} \
         units as it should be: ok",
        CAPACITY * UNIT_MILLI
    ));
    ExitCode::SUCCESS
}

#[expect(clippy::print_stdout, reason = "a test without a harness says what it did")]
fn say(words: &str) {
    println!("{words}");
}

impl Town {
    fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("key"), KEY).expect("a key");
        // All are held until all are known, so that no two are the same.
        let held: Vec<TcpListener> =
            (0..7).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
        let ports = held.iter().map(|it| it.local_addr().expect("an address").port()).collect();
        drop(held);
        let mut town = Self { folder, ports, parties: Vec::new(), loads: [1; 3], dice: seed };
        for name in NAMES {
            town.machine(name).create(1);
        }
        town.write_guests();
        town.start_all();
        town
    }

    fn machine(&self, name: &str) -> FileMachine {
        FileMachine::new(self.folder.path(), name)
    }

    fn start_all(&mut self) {
        let folder = self.folder.path().display().to_string();
        let port = |place: usize| self.ports[place].to_string();
        let mut all = vec![vec!["scheduler".to_owned(), folder.clone(), port(0)]];
        for (place, name) in NAMES.into_iter().enumerate() {
            let (informant, metrics) = (port(1 + 2 * place), port(2 + 2 * place));
            let (name, folder) = (name.to_owned(), folder.clone());
            let to = [informant.clone(), metrics.clone()];
            let mut words = vec!["informant".to_owned(), folder.clone(), name.clone()];
            words.extend(to.clone());
            all.push(words);
            let mut words = vec!["agent".to_owned(), folder, name, port(0)];
            words.extend(to);
            all.push(words);
        }
        self.parties = all.into_iter().map(|words| (words.clone(), start(&words))).collect();
    }

    /// Lets time pass, in which guests' kernels tell of their loads and memory.
    fn pass(&self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.write_guests();
            thread::park_timeout(Duration::from_millis(50));
        }
    }

    fn write_guests(&self) {
        for (place, name) in NAMES.into_iter().enumerate() {
            let root = self.folder.path().join(name);
            // A load of 0.9 is right for one CPU, which is four units.
            let load = self.loads[place] * 225;
            let load = format!("{}.{:03}", load / 1000, load % 1000);
            write(&root.join("proc/loadavg"), &format!("{load} {load} {load} 1/80 4711\n"));
            write(&root.join("proc/stat"), "cpu  1 2 3 400 50 6 7 8 0 0\n");
            write(&root.join("sys/devices/system/cpu/online"), "0-7\n");
            let total = (self.machine(name).seen().using.memory.get() >> 10) - 65_536;
            let available = total - 204_800;
            let text =
                format!("MemTotal: {total} kB\nMemFree: 1 kB\nMemAvailable: {available} kB\n");
            write(&root.join("proc/meminfo"), &text);
        }
    }

    fn change_a_load(&mut self) {
        let (place, load) = (self.below(3), self.below(6) + 1);
        self.loads[place] = u64::try_from(load).expect("small");
    }

    fn kill_one(&mut self) {
        let place = self.below(self.parties.len());
        let (words, child) = &mut self.parties[place];
        child.kill().expect("it can be killed");
        child.wait().expect("it ended");
        *child = start(words);
    }

    fn below(&mut self, most: usize) -> usize {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        usize::try_from(self.dice % u64::try_from(most).expect("small")).expect("small")
    }

    /// What machines have, in units; zero where it is no whole number of them.
    fn sizes(&self) -> [u64; 3] {
        NAMES.map(|name| {
            let using = self.machine(name).seen().using;
            let count = using.cpu.get() / UNIT_MILLI;
            if using == units(count) { count } else { 0 }
        })
    }

    /// Every change in its order: never is more in use than there is. Says how many there were, and
    /// the most CPU at any time.
    fn check_log(&self, seed: u64) -> (usize, u64) {
        let log = fs::read_to_string(self.folder.path().join("log")).expect("a log");
        let mut has: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
        let mut most = 0;
        for (line, text) in log.lines().enumerate() {
            let words: Vec<&str> = text.split(' ').collect();
            let number = |place: usize| words[place].parse::<u64>().expect("a number");
            has.insert(words[0], [number(1), number(2)]);
            let cpu: u64 = has.values().map(|[cpu, _]| cpu).sum();
            let memory: u64 = has.values().map(|[_, memory]| memory).sum();
            let fits = cpu <= CAPACITY * UNIT_MILLI && memory <= CAPACITY << 30;
            assert!(fits, "seed {seed}, change {line}: {has:?} is more than there is");
            most = most.max(cpu);
        }
        (log.lines().count(), most)
    }
}

impl Drop for Town {
    fn drop(&mut self) {
        for (_, child) in &mut self.parties {
            // Each is ours, and may have ended already.
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn start(words: &[String]) -> Child {
    let program = env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.arg("party").args(words).stdin(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("it starts")
}

/// In the place of what was there at once, so that nobody reads half of it.
fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).expect("it is written");
    fs::rename(&fresh, path).expect("it is renamed");
}
