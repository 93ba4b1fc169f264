//! What holds on a real Docker however often something is asked for, whoever dies, and whoever is
//! not there: repeated and racing clients, kills at random, nobody who asks, and a disk that is
//! full.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use walras_core::rng::Rng;
use walras_rpc::Target;
use walras_rpc::agent::workload_spec::Spec;
use walras_rpc::agent::{ApplyWorkloadRequest, ContainerSpec, DesiredState, WorkloadSpec};

use crate::engine::Engine;
use crate::host::{Host, until};
use crate::python::{Certs, Client, stubs};
use crate::tests::{SECRET, SERVE, inspect, workload};

/// So often the daemon is killed, where nobody says how often.
const KILLS: u64 = 100;
/// So long nobody asks anything, where nobody says how long.
const ALONE_S: u64 = 12;

#[test]
fn a_client_made_of_our_protocol_repeats_and_races() {
    let engine = Engine::start();
    let certs = Certs::new(&["alice"]);
    let tls = certs.of("localhost").display().to_string();
    let host = Host::start(&engine, &["--run-listen", "127.0.0.1:0", "--run-tls", &tls]);
    let python = Client {
        stubs: stubs("agent.proto"),
        certificates: certs.of("alice"),
        address: format!("localhost:{}", host.api_port()),
    };
    // One create, however often the same is asked for.
    let told = python.asks("repeat", 1000);
    assert_eq!((&told["applied"], &told["skipped"]), (&1.into(), &999.into()), "{told}");
    host.becomes("same", "RUNNING");
    assert_eq!(created(&host, "same"), 1);
    // Two that want different things: one of the last wishes is what is there, and once.
    let told = python.asks("race", 40);
    assert_eq!(told["refused"], Value::Array(Vec::new()), "{told}");
    host.becomes("torn", "RUNNING");
    let status: Value = serde_json::from_str(&host.walras(&["status", "torn", "--json"])).unwrap();
    let revision = &status["revision_id"];
    assert!(told["last"].as_array().unwrap().contains(revision), "{status}");
    until("the last one is there", || {
        inspect(&engine, "torn")["Config"]["Labels"]["persys.revision_id"] == *revision
    });
    assert_eq!(engine.containers().lines().count(), 2);
}

/// How often a workload was created, as far as the host remembers.
fn created(host: &Host, id: &str) -> usize {
    let told: Value = serde_json::from_str(&host.walras(&["actions", id, "--json"])).unwrap();
    let actions = told.as_array().unwrap().iter();
    actions.filter(|action| action["action_type"] == "create").count()
}

#[test]
fn many_kills_at_random_under_load_lose_nothing() {
    let kills = said("WALRAS_KILLS").unwrap_or(KILLS);
    let seed = said("WALRAS_SEED").unwrap_or_else(any_seed);
    println!("{kills} kills; the same again: WALRAS_KILLS={kills} WALRAS_SEED={seed}");
    let mut rng = Rng::from_seed(seed);
    let engine = Engine::start();
    let mut host = Host::start(&engine, &[]);
    let began = Instant::now();
    let load = ["aa", "bb", "cc"].map(|id| (id, Load::start(&host.socket(), id)));
    for _ in 0..kills {
        host.lives_for(Duration::from_millis(rng.below(250)));
        host.kill();
        host.start_again(&engine, &[]);
    }
    let took = began.elapsed();
    let done = load.map(|(id, load)| (id, load.stop()));
    for (id, Done { answered, asked }) in done {
        // What was answered was saved; what was only asked for may have been.
        let told: Value = serde_json::from_str(&host.walras(&["status", id, "--json"])).unwrap();
        let found: u64 = told["revision_id"].as_str().unwrap().parse().unwrap();
        assert!((answered..=asked).contains(&found), "{id}: {found} of {answered} to {asked}");
        let last = (asked + 1).to_string();
        let more = format!("  secrets: {{TOKEN: {SECRET}}}\n");
        host.apply(&workload(id, &last, &more), &["--wait"]);
        let labels = &inspect(&engine, id)["Config"]["Labels"];
        assert_eq!(labels["persys.revision_id"], *last);
        println!(
            "{id}: {asked} revisions were asked for, {answered} is the last that was answered"
        );
    }
    println!("{kills} kills took {:.1} s", took.as_secs_f64());
    assert_eq!(engine.containers().lines().count(), 3);
    host.stop();
    host.greps_nothing(SECRET);
}

/// Somebody who asks for one revision after another of a workload, whoever answers.
struct Load {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Done>,
}

/// The last revision that was asked for, and the last that was answered.
struct Done {
    asked: u64,
    answered: u64,
}

impl Load {
    fn start(socket: &Path, id: &'static str) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (target, end) = (Target::Unix { path: socket.to_owned() }, Arc::clone(&ends));
        let asking = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let thread = thread::spawn(move || asking.block_on(goes_on(&target, id, &end)));
        Self { ends, thread }
    }

    fn stop(self) -> Done {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

async fn goes_on(target: &Target, id: &str, ends: &AtomicBool) -> Done {
    let mut done = Done { asked: 0, answered: 0 };
    let mut client = None;
    while !ends.load(Ordering::Relaxed) || done.answered == 0 {
        if client.is_none() {
            client = walras_rpc::Client::connect(target).await.ok();
        }
        if let Some(asked) = &mut client {
            done.asked += 1;
            match asked.apply(revision(id, done.asked)).await {
                Ok(_) => done.answered = done.asked,
                Err(_) => client = None,
            }
        }
        // Often enough that something is always under way, and not so often that nothing ends.
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    done
}

fn revision(id: &str, number: u64) -> ApplyWorkloadRequest {
    let container = ContainerSpec {
        image: "walras-test:1".to_owned(),
        command: ["/bin/sh", "-c", SERVE].map(str::to_owned).to_vec(),
        ..Default::default()
    };
    ApplyWorkloadRequest {
        id: id.to_owned(),
        revision_id: number.to_string(),
        desired_state: DesiredState::Running.into(),
        spec: Some(WorkloadSpec {
            spec: Some(Spec::Container(container)),
            secrets: [("TOKEN".to_owned(), SECRET.to_owned())].into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[test]
fn what_is_killed_while_nobody_asks_is_repaired() {
    let alone = Duration::from_secs(said("WALRAS_ALONE_S").unwrap_or(ALONE_S));
    let seed = said("WALRAS_SEED").unwrap_or_else(any_seed);
    println!("the same again: WALRAS_ALONE_S={} WALRAS_SEED={seed}", alone.as_secs());
    let mut rng = Rng::from_seed(seed);
    let engine = Engine::start();
    let host = Host::start(&engine, &[]);
    let ids = ["aa", "bb", "cc", "dd", "ee", "ff"];
    let all: Vec<String> = ids.iter().map(|id| workload(id, "1", "")).collect();
    host.apply(&all.join("---\n"), &["--wait"]);
    // From here on nobody speaks to the host; only Docker is asked.
    let runs = |id: &str| {
        let told =
            engine.docker(&["ps", "--format", "{{.Names}}", "--filter", &format!("name={id}")]);
        told.trim() == id
    };
    let ends = Instant::now() + alone;
    let mut kills = 0;
    while Instant::now() < ends {
        let id = ids[usize::try_from(rng.below(6)).unwrap()];
        if runs(id) {
            let how = if rng.below(2) == 0 { &["kill", id][..] } else { &["rm", "--force", id] };
            engine.docker(how);
            kills += 1;
        }
        host.lives_for(Duration::from_millis(200 + rng.below(alone.as_secs() * 40)));
    }
    println!("{kills} kills");
    assert!(kills > 5, "hardly anybody was killed");
    // The one that was killed most often waits longest: two minutes and a quarter of that.
    let deadline = Instant::now() + Duration::from_secs(200);
    while !ids.iter().all(|id| runs(id)) {
        assert!(Instant::now() < deadline, "not repaired: {}{}", engine.containers(), host.log());
        host.lives_for(Duration::from_millis(100));
    }
    host.apply(&workload("aa", "2", ""), &["--wait"]);
    assert_eq!(inspect(&engine, "aa")["Config"]["Labels"]["persys.revision_id"], "2");
    assert_eq!(engine.containers().lines().count(), 6);
}

#[test]
fn a_full_disk_refuses_what_is_new_and_keeps_what_runs() {
    let engine = Engine::start();
    let disk = SmallDisk::new();
    let host = Host::start_on(&engine, disk.path(), &[]);
    host.apply(&workload("web", "1", ""), &["--wait"]);
    let first = inspect(&engine, "web")["Id"].clone();
    // Large records, so that the disk is full soon. They are not to run.
    let large = |number: u32| {
        let more = format!("    env: {{A: \"{}\"}}\n", "x".repeat(30_000));
        let id = format!("large{number}");
        workload(&id, "1", &more).replace("spec:", "desired_state: stopped\nspec:")
    };
    let refused = (0..400).find_map(|number| host.not_applied(&large(number)));
    let (words, code) = refused.expect("four megabytes hold no 400 records of 30,000 bytes");
    assert_eq!(code, Some(2), "{words}");
    assert!(words.contains("nothing was changed"), "{words}");
    // What runs goes on, is told of, and is repaired.
    assert!(host.status("web").starts_with("web: RUNNING"), "{}", host.status("web"));
    assert_eq!(inspect(&engine, "web")["Id"], first);
    assert!(host.not_applied(&workload("new", "1", "")).is_some());
    assert_eq!(engine.containers(), "web\n");
    // With room again, nobody has to start anything anew.
    disk.grows();
    host.apply(&workload("new", "1", ""), &["--wait"]);
    host.apply(&workload("web", "2", ""), &["--wait"]);
    assert_ne!(inspect(&engine, "web")["Id"], first);
}

/// A file system of a few megabytes, in memory.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Self {
        let disk = Self(tempfile::Builder::new().prefix("walras-disk-").tempdir().unwrap());
        disk.mount(&["-t", "tmpfs", "-o", "size=4m,mode=700", "walras"]);
        disk
    }

    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    fn grows(&self) {
        self.mount(&["-o", "remount,size=64m"]);
    }

    fn mount(&self, args: &[&str]) {
        let mounted = Command::new("mount").args(args).arg(self.0.path()).status().unwrap();
        assert!(mounted.success(), "mount {args:?}");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg("--lazy").arg(self.0.path()).status().unwrap();
    }
}

/// A number that whoever runs the test says.
#[expect(clippy::disallowed_methods, reason = "a test is told so by who repeats it")]
fn said(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}: `{text}` is no number")))
}

fn any_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_secs() % 1_000_000
}
