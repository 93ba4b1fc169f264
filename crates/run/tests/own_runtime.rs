//! A runtime of one's own, as docs/runtimes.md shows it: what is between the marks is in both.

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use walras_core::run::{Actual, Capacity, WorkloadId};
    use walras_core::units::{Bytes, Millicores};
    use walras_rpc::agent::workload_spec::Spec as AnySpec;
    use walras_rpc::agent::{ApplyWorkloadRequest, CustomSpec, WorkloadSpec};
    use walras_run::{Manager, ManagerOptions, MemoryStore, Runtimes};

    // begin
    use std::fs;
    use std::path::PathBuf;

    use futures_util::future::BoxFuture;
    use futures_util::{StreamExt as _, stream};
    use walras_core::run::{Fault, FaultKind, FieldFault, Instance, InstanceState, Op, Work};
    use walras_run::{Job, Runtime, RuntimeEvents};

    /// A workload is a file: made as NAME.made, and called NAME.runs while it runs.
    struct Notes(PathBuf);

    impl Notes {
        fn path(&self, id: &WorkloadId, running: bool) -> PathBuf {
            self.0.join(format!("{id}.{}", if running { "runs" } else { "made" }))
        }

        fn carry_out(&self, job: Job<'_>) -> std::io::Result<()> {
            let (made, runs) = (self.path(job.id, false), self.path(job.id, true));
            match job.op {
                Op::Prepare => Ok(()),
                Op::Create => fs::write(made, job.spec.revision.as_str()),
                Op::Start => fs::rename(made, runs),
                Op::Stop => fs::rename(runs, made),
                Op::Remove => fs::remove_file(made),
            }
        }

        fn found(&self, id: &WorkloadId) -> Vec<Instance> {
            let states =
                [(false, InstanceState::Exited { code: 143 }), (true, InstanceState::Running)];
            let there = states.into_iter().filter_map(|(running, state)| {
                let revision = fs::read_to_string(self.path(id, running)).ok()?;
                let handle = id.to_string();
                Some(Instance { handle, revision, started: String::new(), state, health: None })
            });
            there.collect()
        }
    }

    impl Runtime for Notes {
        fn name(&self) -> &'static str {
            "notes"
        }

        fn takes(&self, work: &Work) -> bool {
            matches!(work, Work::Custom(custom) if custom.runtime == self.name())
        }

        fn check(&self, work: &Work, _: &BTreeMap<String, String>) -> Vec<FieldFault> {
            let Work::Custom(custom) = work else { return Vec::new() };
            let known = custom.settings.as_object().is_none_or(serde_json::Map::is_empty);
            let what = "there are no settings of notes".to_owned();
            let fault = FieldFault { field: "custom.settings".to_owned(), what };
            if known { Vec::new() } else { vec![fault] }
        }

        fn ping(&self) -> BoxFuture<'_, Result<(), Fault>> {
            // A runtime that cannot be reached is silent: nothing is gone because of it.
            let there = self.0.is_dir();
            let fault = Fault::new(FaultKind::Silent, "the folder is not there");
            Box::pin(async move { if there { Ok(()) } else { Err(fault) } })
        }

        fn act<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Result<(), Fault>> {
            let done = self.carry_out(job);
            let fault = |error: std::io::Error| Fault::new(FaultKind::Storage, error.to_string());
            Box::pin(async move { done.map_err(fault) })
        }

        fn look<'a>(&'a self, id: &'a WorkloadId) -> BoxFuture<'a, Result<Vec<Instance>, Fault>> {
            Box::pin(async move {
                self.ping().await?;
                Ok(self.found(id))
            })
        }

        fn list(&self) -> BoxFuture<'_, Result<BTreeMap<WorkloadId, Vec<Instance>>, Fault>> {
            Box::pin(async move {
                self.ping().await?;
                let files = fs::read_dir(&self.0).into_iter().flatten().flatten();
                let ids = files.filter_map(|file| {
                    let name = file.file_name().into_string().ok()?;
                    WorkloadId::new(name.rsplit_once('.')?.0).ok()
                });
                Ok(ids.map(|id| (id.clone(), self.found(&id))).collect())
            })
        }

        fn events(&self) -> RuntimeEvents<'_> {
            // Files tell nothing: everything is looked at every 30 s.
            stream::pending().boxed()
        }
    }
    // end

    fn request(id: &str, revision: &str, settings: serde_json::Value) -> ApplyWorkloadRequest {
        let serde_json::Value::Object(settings) = settings else { panic!("it is an object") };
        let custom = CustomSpec {
            runtime: "notes".to_owned(),
            settings: Some(walras_rpc::from_json(settings)),
        };
        ApplyWorkloadRequest {
            id: id.to_owned(),
            revision_id: revision.to_owned(),
            spec: Some(WorkloadSpec { spec: Some(AnySpec::Custom(custom)), ..Default::default() }),
            ..Default::default()
        }
    }

    #[tokio::test]
    async fn a_runtime_of_ones_own_is_one_file_and_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let runtimes = Runtimes::new(vec![Arc::new(Notes(dir.path().to_owned()))]);
        let options = ManagerOptions {
            capacity: Capacity { cpu: Millicores::new(1000), memory: Bytes::new(1 << 30) },
            fault: None,
        };
        let manager = Manager::new(Box::new(MemoryStore::default()), runtimes, options).unwrap();
        let work = tokio::spawn(Arc::clone(&manager).serve());
        let apply = |message| {
            let walras_run::Request { id, spec, desired, secrets } =
                walras_run::request(message).unwrap();
            manager.apply(&id, spec, desired, secrets, false, "test")
        };
        let none = serde_json::json!({});
        apply(request("note", "1", none.clone())).unwrap();
        let refused = apply(request("other", "1", serde_json::json!({"a": 1}))).unwrap_err();
        assert_eq!(refused.to_string(), "custom.settings: there are no settings of notes");
        // What is planned is refused by its name, and so is what nobody knows.
        for (name, words) in [
            ("containerd", "no runtime `containerd`; it is on the roadmap; it has notes"),
            ("firecracker", "no runtime `firecracker`; it is on the roadmap; it has notes"),
            ("other", "no runtime `other`; it has notes"),
        ] {
            let mut message = request("planned", "1", none.clone());
            if let Some(AnySpec::Custom(custom)) = message.spec.as_mut().unwrap().spec.as_mut() {
                custom.runtime = name.to_owned();
            }
            let refused = apply(message).unwrap_err().to_string();
            assert_eq!(refused, format!("custom.runtime: this host has {words}"));
        }
        let runs = dir.path().join("note.runs");
        let becomes = |revision: &'static str| {
            let runs = runs.clone();
            async move {
                let deadline = Instant::now() + Duration::from_secs(60);
                while fs::read_to_string(&runs).unwrap_or_default() != revision {
                    assert!(Instant::now() < deadline, "{revision} does not run");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        };
        becomes("1").await;
        apply(request("note", "2", none)).unwrap();
        becomes("2").await;
        let id = WorkloadId::new("note").unwrap();
        assert_eq!(manager.status(&id).await.unwrap().status.actual, Actual::Running);
        manager.delete(&id, "test").unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !manager.list().is_empty() {
            assert!(Instant::now() < deadline, "it is still there");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        work.abort();
    }

    #[test]
    fn the_documentation_shows_this_runtime() {
        let own = include_str!("own_runtime.rs");
        let (_, rest) = own.split_once("    // begin\n").unwrap();
        let (code, _) = rest.split_once("    // end\n").unwrap();
        let code: String = code
            .lines()
            .map(|line| line.strip_prefix("    ").unwrap_or(line))
            .flat_map(|line| [line, "\n"])
            .collect();
        let shown = include_str!("../../../docs/runtimes.md");
        assert!(shown.contains(&code), "docs/runtimes.md has other code than this test:\n{code}");
    }
}
