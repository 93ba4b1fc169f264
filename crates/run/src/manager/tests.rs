//! Managers against a scripted runtime: what is asked of it, and what is there in the end.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use walras_core::run::{
    Actual, Desired, FaultKind, Refusal, Resources, Restart, Spec, Verdict, Work, WorkloadId,
};
use walras_core::units::Bytes;

use super::testing::{Working, id, spec, until};
use super::*;
use crate::runtime::scripted::Scripted;
use crate::store::{Loaded, MemoryStore, RedbStore};

/// A store that several managers use one after the other, and that can be full.
#[derive(Clone, Default)]
struct Disk {
    store: Arc<MemoryStore>,
    full: Arc<AtomicBool>,
}

impl Disk {
    fn room(&self) -> Result<(), StoreError> {
        if self.full.load(Ordering::SeqCst) {
            let (file, what) = (PathBuf::from("disk"), "no space left".to_owned());
            return Err(StoreError::Failed { file, what });
        }
        Ok(())
    }
}

impl Store for Disk {
    fn load(&self) -> Result<Loaded, StoreError> {
        self.store.load()
    }
    fn save(&self, id: &WorkloadId, record: &str) -> Result<(), StoreError> {
        self.room()?;
        self.store.save(id, record)
    }
    fn erase(&self, id: &WorkloadId) -> Result<(), StoreError> {
        self.room()?;
        self.store.erase(id)
    }
    fn save_drained(&self, drained: bool) -> Result<(), StoreError> {
        self.room()?;
        self.store.save_drained(drained)
    }
}

struct Ground {
    disk: Disk,
    runtime: Arc<Scripted>,
    working: Working,
}

impl Ground {
    fn new() -> Self {
        let (disk, runtime) = (Disk::default(), Arc::new(Scripted::new()));
        let working = Working::start(Box::new(disk.clone()), &runtime);
        Self { disk, runtime, working }
    }

    async fn restart(self) -> Self {
        let Self { disk, runtime, working } = self;
        working.kill().await;
        let working = Working::start(Box::new(disk.clone()), &runtime);
        Self { disk, runtime, working }
    }

    fn apply(&self, name: &str, spec: Spec) -> Result<Applied, Denied> {
        self.apply_with(name, spec, Desired::Running, BTreeMap::new())
    }

    fn apply_with(
        &self,
        name: &str,
        spec: Spec,
        desired: Desired,
        secrets: BTreeMap<String, String>,
    ) -> Result<Applied, Denied> {
        self.working.manager.apply(&id(name), spec, desired, secrets, false, "test")
    }

    fn actual(&self, name: &str) -> Option<Actual> {
        let all = self.working.manager.list();
        all.into_iter()
            .find(|(found, _)| found.as_str() == name)
            .map(|(_, told)| told.status.actual)
    }

    async fn becomes(&self, name: &str, actual: Actual) {
        until(actual.name(), || self.actual(name) == Some(actual)).await;
    }
}

#[tokio::test]
async fn a_thousand_applies_are_one_create() {
    let ground = Ground::new();
    assert_eq!(ground.apply("web", spec("1")).unwrap().verdict, None);
    for _ in 0..1000 {
        let again = ground.apply("web", spec("1")).unwrap();
        assert_eq!(again.verdict, Some(Verdict::Same));
        tokio::task::yield_now().await;
    }
    ground.becomes("web", Actual::Running).await;
    assert_eq!(ground.runtime.count("create web"), 1);
    assert_eq!(ground.runtime.count("start web"), 1);
    assert!(ground.runtime.runs(&id("web"), "1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_race_on_one_workload_end_with_one_of_the_last_revision() {
    let ground = Arc::new(Ground::new());
    let mut clients = Vec::new();
    for client in 0..4 {
        let ground = Arc::clone(&ground);
        clients.push(tokio::spawn(async move {
            for round in 0..25 {
                ground.apply("web", spec(&format!("{client}-{round}"))).unwrap();
                tokio::task::yield_now().await;
            }
        }));
    }
    for client in clients {
        client.await.unwrap();
    }
    ground.apply("web", spec("last")).unwrap();
    until("the last one", || ground.runtime.runs(&id("web"), "last")).await;
    ground.becomes("web", Actual::Running).await;
}

#[tokio::test]
async fn a_restart_touches_nothing_that_runs() {
    let mut ground = Ground::new();
    for name in ["a", "b", "c"] {
        ground.apply(name, spec("1")).unwrap();
        ground.becomes(name, Actual::Running).await;
    }
    let before: Vec<_> = ["a", "b", "c"].map(|name| ground.runtime.there(&id(name))).to_vec();
    for _ in 0..3 {
        ground = ground.restart().await;
        for name in ["a", "b", "c"] {
            ground.becomes(name, Actual::Running).await;
        }
    }
    let after: Vec<_> = ["a", "b", "c"].map(|name| ground.runtime.there(&id(name))).to_vec();
    assert_eq!(after, before);
}

#[tokio::test]
async fn a_silent_runtime_makes_workloads_unknown_and_they_are_repaired_when_it_is_back() {
    let mut ground = Ground::new();
    for name in ["a", "b"] {
        ground.apply(name, spec("1")).unwrap();
        ground.becomes(name, Actual::Running).await;
    }
    ground.runtime.silence(true);
    for name in ["a", "b"] {
        ground.becomes(name, Actual::Unknown).await;
    }
    // Asked for while it is silent, and over a restart of ours.
    ground.apply("c", spec("1")).unwrap();
    ground = ground.restart().await;
    ground.becomes("a", Actual::Unknown).await;
    ground.runtime.vanish(&id("b"));
    ground.runtime.silence(false);
    for name in ["a", "b", "c"] {
        ground.becomes(name, Actual::Running).await;
    }
    assert_eq!(ground.runtime.count("create a"), 1, "it was there all the time");
    assert_eq!(ground.runtime.count("create b"), 2, "it was gone");
    assert_eq!(ground.runtime.count("stop a") + ground.runtime.count("remove a"), 0);
}

#[tokio::test]
async fn what_ends_is_started_again_by_its_event_and_a_job_is_not() {
    let ground = Ground::new();
    ground.apply("web", spec("1")).unwrap();
    let mut job = spec("1");
    let Work::Container(container) = &mut job.work else { panic!("it is a container") };
    container.restart = Restart::No;
    ground.apply("job", job).unwrap();
    for name in ["web", "job"] {
        ground.becomes(name, Actual::Running).await;
        ground.runtime.end(&id(name), 0);
    }
    ground.becomes("job", Actual::Stopped).await;
    until("a second start", || ground.runtime.count("start web") == 2).await;
    assert_eq!(ground.runtime.count("start job"), 1);
}

#[tokio::test]
async fn faults_are_tried_again_or_kept_and_told_as_actions() {
    let ground = Ground::new();
    ground.runtime.fail_next(FaultKind::ImageNotFound);
    ground.apply("web", spec("1")).unwrap();
    ground.becomes("web", Actual::Failed).await;
    let failed = Filter { state: Some("failed".to_owned()), ..Filter::default() };
    let actions = ground.working.manager.actions(&failed);
    assert_eq!(actions.len(), 1);
    assert_eq!((actions[0].kind, &*actions[0].reason), ("prepare", "it was applied"));
    assert_eq!(ground.apply("web", spec("1")).unwrap().verdict, Some(Verdict::Again));
    ground.becomes("web", Actual::Running).await;
    ground.runtime.fail_next(FaultKind::Runtime);
    ground.apply("web", spec("2")).unwrap();
    until("a retry", || {
        let status = ground.working.manager.list().remove(0).1;
        status.status.attempts == 1 && status.status.retry_at.is_some()
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_saved_is_not_done() {
    let ground = Ground::new();
    ground.apply("old", spec("1")).unwrap();
    ground.becomes("old", Actual::Running).await;
    ground.disk.full.store(true, Ordering::SeqCst);
    assert!(matches!(ground.apply("web", spec("1")), Err(Denied::NotSaved(_))));
    assert!(matches!(ground.apply("old", spec("2")), Err(Denied::NotSaved(_))));
    assert!(ground.working.manager.delete(&id("old"), "test").is_err());
    assert!(ground.working.manager.drain(true, "test").is_err());
    ground.working.manager.reconcile().await;
    assert_eq!(ground.actual("web"), None);
    assert!(ground.runtime.runs(&id("old"), "1"));
    assert!(!ground.runtime.calls().iter().any(|call| call.contains("web")));
    ground.disk.full.store(false, Ordering::SeqCst);
    ground.apply("web", spec("1")).unwrap();
    ground.becomes("web", Actual::Running).await;
}

#[tokio::test]
async fn secrets_reach_the_workload_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = Arc::new(Scripted::new());
    let open = || Box::new(RedbStore::open(dir.path()).unwrap());
    let working = Working::start(open(), &runtime);
    let secret = "correct horse battery staple";
    let secrets = || BTreeMap::from([("TOKEN".to_owned(), secret.to_owned())]);
    let with = || Spec { secrets: vec!["TOKEN".to_owned()], ..spec("1") };
    let web = id("web");
    let apply = |manager: &Manager| {
        manager.apply(&web, with(), Desired::Running, secrets(), false, "test").unwrap()
    };
    let status = |manager: &Manager| manager.list().remove(0).1;
    apply(&working.manager);
    until("it runs", || runtime.runs(&web, "1")).await;
    assert_eq!(runtime.secrets_of(&web), secrets());
    working.kill().await;
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "the secret is on the disk");
    }
    // What runs goes on without them; what has to be made anew waits, and says so.
    let working = Working::start(open(), &runtime);
    until("it is seen", || status(&working.manager).status.actual == Actual::Running).await;
    runtime.vanish(&web);
    working.manager.reconcile().await;
    until("it waits", || status(&working.manager).status.message.contains("waits for its secrets"))
        .await;
    assert_eq!(apply(&working.manager).verdict, Some(Verdict::Same));
    until("it runs", || runtime.runs(&web, "1")).await;
    working.kill().await;
}

#[tokio::test]
async fn what_is_deleted_is_removed_and_forgotten() {
    let ground = Ground::new();
    ground.apply("web", spec("1")).unwrap();
    ground.becomes("web", Actual::Running).await;
    ground.working.manager.delete(&id("web"), "test").unwrap();
    assert!(matches!(ground.apply("web", spec("2")), Err(Denied::Deleting(_))));
    until("it is gone", || ground.actual("web").is_none()).await;
    assert!(ground.runtime.there(&id("web")).is_empty());
    assert!(ground.disk.load().unwrap().workloads.is_empty());
    let missing = ground.working.manager.delete(&id("web"), "test").unwrap_err();
    assert_eq!(missing.to_string(), "web: there is no such workload");
    ground.apply("web", spec("2")).unwrap();
    ground.becomes("web", Actual::Running).await;
}

#[tokio::test]
async fn a_drained_host_stops_everything_takes_nothing_and_goes_on_afterwards() {
    let mut ground = Ground::new();
    ground.apply("web", spec("1")).unwrap();
    ground.becomes("web", Actual::Running).await;
    ground.working.manager.drain(true, "test").unwrap();
    ground.becomes("web", Actual::Stopped).await;
    let refused = ground.apply("new", spec("1")).unwrap_err();
    assert!(matches!(refused, Denied::NoRoom(Refusal::Drained)));
    ground = ground.restart().await;
    assert!(ground.working.manager.is_drained());
    ground.becomes("web", Actual::Stopped).await;
    ground.working.manager.drain(false, "test").unwrap();
    ground.becomes("web", Actual::Running).await;
}

#[tokio::test]
async fn what_does_not_fit_is_refused_and_a_dry_run_changes_nothing() {
    let ground = Ground::new();
    let sized = |revision: &str, mib: u64| {
        let mut spec = spec(revision);
        let Work::Container(container) = &mut spec.work else { panic!("it is a container") };
        container.resources =
            Resources { memory: Some(Bytes::new(mib << 20)), ..container.resources };
        spec
    };
    ground.apply("a", sized("1", 600)).unwrap();
    let refused = ground.apply("b", sized("1", 600)).unwrap_err();
    assert!(matches!(refused, Denied::NoRoom(Refusal::Memory { .. })), "{refused}");
    assert_eq!(ground.actual("b"), None);
    ground.apply("a", sized("2", 1000)).unwrap();
    let manager = &ground.working.manager;
    let none = BTreeMap::new();
    let dry = manager.apply(&id("c"), spec("1"), Desired::Running, none.clone(), true, "test");
    assert_eq!(dry.unwrap().verdict, None);
    assert_eq!(ground.actual("c"), None);
    let dry = manager.apply(&id("a"), spec("3"), Desired::Running, none, true, "test");
    assert_eq!(dry.unwrap().verdict, Some(Verdict::Replace));
    until("revision 2", || ground.runtime.runs(&id("a"), "2")).await;
}

#[tokio::test]
async fn a_status_asks_the_runtime_and_notices_what_changed() {
    let ground = Ground::new();
    ground.apply("web", spec("1")).unwrap();
    ground.becomes("web", Actual::Running).await;
    ground.runtime.vanish(&id("web"));
    let status = ground.working.manager.status(&id("web")).await.unwrap().status;
    assert_eq!(status.actual, Actual::Pending, "{status:?}");
    until("it is made again", || ground.runtime.runs(&id("web"), "1")).await;
    ground.runtime.silence(true);
    let status = ground.working.manager.status(&id("web")).await.unwrap().status;
    assert_eq!(status.actual, Actual::Unknown);
    assert!(ground.working.manager.status(&id("none")).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clients_that_race_leave_one_of_what_was_asked_for_last() {
    let ground = Ground::new();
    let manager = &ground.working.manager;
    let clients = ["left", "right"].map(|name| {
        let manager = Arc::clone(manager);
        tokio::spawn(async move {
            for number in 0..100 {
                let spec = spec(&format!("{name} {number}"));
                let none = BTreeMap::new();
                manager.apply(&id("web"), spec, Desired::Running, none, false, name).unwrap();
                tokio::task::yield_now().await;
            }
        })
    });
    for client in clients {
        client.await.unwrap();
    }
    let filter = Filter { kind: Some("apply_workload".to_owned()), ..Filter::default() };
    let last = manager.actions(&filter).pop().unwrap();
    let name = last.reason.strip_prefix("by ").unwrap().to_owned();
    let revision = format!("{name} 99");
    until("the last one runs", || ground.runtime.runs(&id("web"), &revision)).await;
    ground.becomes("web", Actual::Running).await;
    assert_eq!(ground.runtime.there(&id("web")).len(), 1);
}

#[tokio::test]
async fn a_workload_stays_of_its_kind_and_a_project_belongs_to_one() {
    let ground = Ground::new();
    let project = |name: &str| Spec {
        work: Work::Compose(walras_core::run::Compose::new(
            name.to_owned(),
            serde_json::json!({"services": {"a": {"image": "x"}}}),
            BTreeMap::new(),
        )),
        ..spec("1")
    };
    ground.apply("web", spec("0")).unwrap();
    let refused = ground.apply("web", project("web")).unwrap_err().to_string();
    assert_eq!(refused, "type: web is container; delete it first to make it compose");
    ground.apply("shop", project("shop")).unwrap();
    let refused = ground.apply("other", project("shop")).unwrap_err().to_string();
    assert_eq!(refused, "project_name: `shop` belongs to the workload shop");
}

#[tokio::test]
async fn lines_and_commands_go_through_the_runtime() {
    let ground = Ground::new();
    ground.apply("web", spec("1")).unwrap();
    ground.becomes("web", Actual::Running).await;
    let manager = &ground.working.manager;
    let mut lines = manager.logs(&id("web"), None, 7, false).unwrap();
    assert_eq!(lines.recv().await.unwrap().unwrap(), b"web wrote 7 lines\n");
    assert!(lines.recv().await.is_none());
    assert!(manager.logs(&id("none"), None, 7, false).is_err());
    let command = vec!["true".to_owned()];
    let mut pieces = manager.exec(&id("web"), None, command, None, "alice").unwrap();
    let refused = pieces.recv().await.unwrap().unwrap_err();
    assert_eq!(refused.words, "the runtime scripted cannot run commands in a workload");
    let filter = Filter { kind: Some("exec".to_owned()), ..Filter::default() };
    until("the action ended", || manager.actions(&filter)[0].state.name() == "failed").await;
}

#[test]
fn fault_points_are_named_by_time_and_operation() {
    let after = "after:start".parse::<FaultPoint>().unwrap();
    assert_eq!((after.op, after.after), (Op::Start, true));
    for bad in ["start", "during:start", "before:", "after:look"] {
        assert!(bad.parse::<FaultPoint>().is_err(), "{bad}");
    }
}
