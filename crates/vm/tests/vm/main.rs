//! Real virtual machines: one story from the first start to the last end, and what must not happen
//! on the way.
//!
//! The guest is Debian's kernel with a shell, without hardware support, and says on its console
//! what it has and sees. The tier `vm` of `cargo xtask test` prepares it and names its folder in
//! `WALRAS_GUEST`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails, also in what it calls")]

mod stage;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stage::{Stage, mib, size};
use walras_vm::{
    Destination, Handover, Life, Machine as _, MigrationPhase, MigrationTerms, Qemu, QemuMachine,
    RunState, Secrets, VmError,
};

/// What the guest is handed.
const SECRET: &str = "a key that rests nowhere";
const USER_DATA: &str = "#cloud-config\nruncmd: [ \"true\" ]\n";
/// A guest that is to switch itself off does so within seconds.
const GRACE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_grows_shrinks_moves_and_ends() {
    let began = Instant::now();
    let (here, there) = (Stage::new("here"), Stage::new("there"));
    let qemu = here.qemu();
    starts(&here, &qemu).await;
    stage::told("booted", began);
    let guest_memory = here.guest_memory("db").await;
    grows(&here, &qemu, guest_memory).await;
    stage::told("grown", began);
    let qemu = is_found_again(&here, qemu).await;
    stage::told("found again by another daemon", began);
    let other = there.qemu();
    is_not_moved(&here, &qemu, &other).await;
    stage::told("not moved", began);
    let downtime = moves(&here, &qemu, &there, &other).await;
    stage::told(&format!("moved, and stood still for {downtime:?} ms"), began);
    shrinks(&there, &other, guest_memory).await;
    stage::told("shrunk", began);
    ends(&there, &other).await;
    stage::told("ended", began);
    dies_and_starts(&other).await;
    stage::told("killed, started and removed", began);
}

/// It starts, and its guest finds what it was handed.
async fn starts(here: &Stage, qemu: &Arc<Qemu>) {
    let spec = here.spec("db", USER_DATA);
    qemu.define(spec.clone(), [("revision".to_owned(), "7".to_owned())].into()).await.unwrap();
    assert_eq!(qemu.look("db").await.unwrap().unwrap().life, Life::Defined);
    let again = qemu.define(spec, Default::default()).await.unwrap_err().to_string();
    assert!(again.contains("db: cannot define it"), "{again}");
    let machine = qemu.start("db", &stage::secrets(SECRET)).await.unwrap();
    here.says("db", &format!("guest> secret key {}", stage::sum(SECRET))).await;
    here.says("db", &format!("guest> seed {} instance-id: db", stage::sum(USER_DATA))).await;
    here.counts("db", 2).await;
    here.has_nowhere(SECRET);
    let seen = machine.observe().await.unwrap();
    assert_eq!((seen.state, seen.cpus, seen.quota), (RunState::Running, 1, None));
    assert_eq!((seen.memory, seen.memory_wanted), (mib(256), mib(256)));
    assert!(here.is_in_its_group("db", machine.pid()));
}

/// It grows, and the guest says so itself.
async fn grows(here: &Stage, qemu: &Arc<Qemu>, guest_memory: u64) {
    let machine = qemu.machine("db").await.unwrap();
    let seen = machine.observe().await.unwrap();
    let grown = machine.resize(size(2000, 384), seen.version).await.unwrap();
    assert_eq!((grown.cpus, grown.memory), (2, mib(384)));
    assert!(grown.version > seen.version);
    let has_more = |guest: &stage::Guest| guest.memory_kib > guest_memory + 100_000;
    here.guest_has("db", |guest| guest.cpus == "0-1" && has_more(guest)).await;
    // Who did not look since is told so, and nothing is changed.
    let stale = machine.resize(size(1000, 256), seen.version).await;
    assert!(matches!(stale, Err(VmError::Stale { .. })), "{stale:?}");
    let never = machine.resize(size(3000, 384), grown.version).await.unwrap_err().to_string();
    assert!(never.contains("it can have 10m to 2 CPUs"), "{never}");
    assert_eq!(machine.observe().await.unwrap(), grown);
    // A fraction of a CPU is a limit of its process.
    let part = machine.resize(size(1500, 384), grown.version).await.unwrap();
    assert_eq!((part.using(), part.cpus), (size(1500, 384), 2));
}

/// A daemon that starts anew finds it as it is.
async fn is_found_again(here: &Stage, qemu: Arc<Qemu>) -> Arc<Qemu> {
    let start = stage::start_of(&qemu.look("db").await.unwrap().unwrap().life);
    let before = qemu.machine("db").await.unwrap().observe().await.unwrap();
    drop(qemu);
    let qemu = here.qemu();
    let look = qemu.look("db").await.unwrap().unwrap();
    assert_eq!((stage::start_of(&look.life), look.tags["revision"].as_str()), (start, "7"));
    assert_eq!(qemu.machine("db").await.unwrap().observe().await.unwrap(), before);
    qemu
}

/// A move to nobody, and one with another key, fail; it runs on here.
async fn is_not_moved(here: &Stage, qemu: &Arc<Qemu>, other: &Arc<Qemu>) {
    let machine = qemu.machine("db").await.unwrap();
    let nobody =
        Destination { host: "127.0.0.1".to_owned(), port: stage::closed_port(), key: None };
    machine.migrate(&nobody, MigrationTerms::default()).await.unwrap();
    assert_eq!(stage::moved(&*machine).await, MigrationPhase::Failed);
    let handover = machine.handover().await.unwrap();
    assert_eq!(handover.cpus, [1]);
    let (_, to) = receive(other, &handover).await;
    let wrong = Destination { key: Some("00".repeat(32)), ..to };
    machine.migrate(&wrong, MigrationTerms::default()).await.unwrap();
    assert_eq!(stage::moved(&*machine).await, MigrationPhase::Failed);
    assert_eq!(machine.observe().await.unwrap().state, RunState::Running);
    let counted = here.last_count("db");
    here.counts("db", counted + 2).await;
    other.give_up_receiving("db").await.unwrap();
    assert_eq!(other.names().unwrap(), Vec::<String>::new());
    // One that is cancelled stays here as well.
    let (_, to) = receive(other, &handover).await;
    let slowly = MigrationTerms { bandwidth: Some(1 << 20), ..MigrationTerms::default() };
    machine.migrate(&to, slowly).await.unwrap();
    machine.cancel_migration().await.unwrap();
    assert_eq!(stage::moved(&*machine).await, MigrationPhase::Cancelled);
    assert_eq!(machine.observe().await.unwrap().state, RunState::Running);
    other.give_up_receiving("db").await.unwrap();
}

/// It moves while it counts, and no count is lost.
async fn moves(here: &Stage, qemu: &Arc<Qemu>, there: &Stage, other: &Arc<Qemu>) -> Option<u64> {
    let machine = qemu.machine("db").await.unwrap();
    let before = machine.observe().await.unwrap();
    let (received, to) = receive(other, &machine.handover().await.unwrap()).await;
    machine.migrate(&to, MigrationTerms::default()).await.unwrap();
    let refused = machine.resize(size(1000, 256), before.version).await;
    assert!(matches!(refused, Err(VmError::Moving { .. })), "{refused:?}");
    assert_eq!(stage::moved(&*machine).await, MigrationPhase::Completed);
    assert_eq!(machine.observe().await.unwrap().state, RunState::Sent);
    let downtime = machine.migration().await.unwrap().downtime_ms;
    let counted = here.last_count("db");
    there.counts("db", counted + 3).await;
    stage::no_count_is_lost(&here.console("db"), &there.console("db"));
    let seen = received.observe().await.unwrap();
    assert_eq!((seen.state, seen.cpus, seen.memory), (RunState::Running, 2, mib(384)));
    assert!(seen.version > before.version);
    qemu.stop("db", Duration::ZERO).await.unwrap();
    qemu.remove("db").unwrap();
    assert!(qemu.look("db").await.unwrap().is_none());
    downtime
}

/// It shrinks on the other host.
async fn shrinks(there: &Stage, other: &Arc<Qemu>, guest_memory: u64) {
    let machine = other.machine("db").await.unwrap();
    let seen = machine.observe().await.unwrap();
    let small = machine.resize(size(1000, 256), seen.version).await.unwrap();
    assert_eq!((small.cpus, small.memory, small.quota), (1, mib(256), None));
    let has_less = |guest: &stage::Guest| guest.memory_kib < guest_memory + 20_000;
    there.guest_has("db", |guest| guest.cpus == "0" && has_less(guest)).await;
}

/// Its guest switches itself off when asked.
async fn ends(there: &Stage, other: &Arc<Qemu>) {
    let pid = other.pid("db").unwrap();
    other.stop("db", GRACE).await.unwrap();
    let Life::Ended(ending) = other.look("db").await.unwrap().unwrap().life else { panic!() };
    assert_eq!((ending.code, ending.words.as_str()), (0, "its guest switched it off"));
    assert!(there.console("db").contains("guest> switching off"));
    assert_ne!(other.pid("db"), Some(pid));
}

/// A QEMU that is killed is noticed, and the machine can be started again.
async fn dies_and_starts(other: &Arc<Qemu>) {
    let mut changes = other.changes();
    other.start("db", &Default::default()).await.unwrap();
    let first = other.pid("db").unwrap();
    stage::kill(first);
    stage::heard(&mut changes, "db", || other.pid("db").is_none()).await;
    let Life::Ended(ending) = other.look("db").await.unwrap().unwrap().life else { panic!() };
    assert_ne!(ending.code, 0, "{}", ending.words);
    other.start("db", &Default::default()).await.unwrap();
    assert_ne!(other.pid("db"), Some(first));
    let runs = other.remove("db").unwrap_err().to_string();
    assert!(runs.contains("it runs"), "{runs}");
    other.stop("db", Duration::ZERO).await.unwrap();
    other.remove("db").unwrap();
}

async fn receive(other: &Arc<Qemu>, handover: &Handover) -> (Arc<QemuMachine>, Destination) {
    let (tags, secrets) = (BTreeMap::new(), Secrets::default());
    other.receive(handover, tags, &secrets, "127.0.0.1").await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_that_cannot_start_says_why_and_leaves_nothing_running() {
    let stage = Stage::new("broken");
    let qemu = stage.qemu();
    let mut spec = stage.spec("db", USER_DATA);
    spec.boot.kernel = Some("/nowhere/kernel".into());
    // Its seed has the secret in it.
    spec.seed = Some(walras_vm::Seed {
        user_data: "key: ${secret:key}\n".to_owned(),
        ..walras_vm::Seed::default()
    });
    qemu.define(spec, Default::default()).await.unwrap();
    let words = qemu.start("db", &stage::secrets(SECRET)).await.unwrap_err().to_string();
    assert!(words.contains("/nowhere/kernel"), "{words}");
    assert_eq!(qemu.pid("db"), None);
    stage.has_nowhere(SECRET);
    let Life::Ended(ending) = qemu.look("db").await.unwrap().unwrap().life else { panic!() };
    assert!(ending.code != 0 && ending.words.contains("/nowhere/kernel"), "{}", ending.words);
    qemu.remove("db").unwrap();
}
