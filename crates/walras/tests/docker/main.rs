//! Workloads on a real Docker, run by the real program: applied, replaced, killed at every step,
//! and found again.
//!
//! Each test starts a Docker of its own, with its own data and socket and without a network, and an
//! image made of a static busybox. It needs root and what `cargo xtask docker` unpacks; see
//! docs/testing.md.

#[cfg(test)]
mod control;
#[cfg(test)]
mod engine;
#[cfg(test)]
mod exporter;
#[cfg(test)]
mod hard;
#[cfg(test)]
mod host;
#[cfg(test)]
mod machines;
#[cfg(test)]
mod projects;
#[cfg(test)]
mod python;
#[cfg(test)]
mod sized;

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::Value;

    use crate::engine::Engine;
    use crate::host::{Host, until};

    /// Runs until it is told to stop, and stops at once.
    pub(crate) const SERVE: &str = "trap 'exit 0' TERM; while true; do sleep 1 & wait $!; done";
    pub(crate) const SECRET: &str = "correct horse battery staple";

    pub(crate) fn workload(id: &str, revision: &str, more: &str) -> String {
        format!(
            "id: {id}\nrevision_id: \"{revision}\"\nspec:\n  container:\n    \
             image: walras-test:1\n    command: [/bin/sh, -c]\n    args: [\"{SERVE}\"]\n{more}"
        )
    }

    fn with_secret(id: &str, revision: &str) -> String {
        workload(id, revision, &format!("  secrets: {{TOKEN: {SECRET}}}\n"))
    }

    pub(crate) fn inspect(engine: &Engine, id: &str) -> Value {
        let text = engine.docker(&["inspect", id]);
        serde_json::from_str::<Value>(&text).unwrap()[0].clone()
    }

    #[test]
    fn a_workload_is_applied_replaced_stopped_and_deleted() {
        let engine = Engine::start();
        let host = Host::start(&engine, &[]);
        let more = "    env: {MODE: test}\n    labels: {team: a}\n    \
                    managed_volumes: [{name: data, mount_path: /data}]\n    \
                    volumes: [{host_path: /etc, container_path: /host, read_only: true}]\n    \
                    resources: {cpu_shares: 512, memory_bytes: 33554432, cpu_min_milli: 100}\n";
        host.apply(&workload("web", "1", more), &["--wait"]);
        let first = inspect(&engine, "web");
        assert_eq!(first["State"]["Status"], "running");
        let labels = &first["Config"]["Labels"];
        assert_eq!(labels["persys.managed"], "true");
        assert_eq!((&labels["persys.revision_id"], &labels["team"]), (&"1".into(), &"a".into()));
        assert_eq!(labels["walras.dev/min-cpu"], "100m");
        let settings = &first["HostConfig"];
        assert_eq!(
            (settings["CpuShares"].as_u64(), settings["Memory"].as_u64()),
            (Some(512), Some(32 << 20))
        );
        assert_eq!(settings["RestartPolicy"]["Name"], "unless-stopped");
        let env = first["Config"]["Env"].as_array().unwrap();
        assert!(env.contains(&"MODE=test".into()), "{env:?}");
        engine.docker(&["exec", "web", "/bin/sh", "-c", "echo kept > /data/file; ! touch /host/x"]);
        // Once more: nothing is touched.
        let told = host.apply(&workload("web", "1", more), &["--wait", "--json"]);
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told[0]["skipped"], true);
        assert_eq!(inspect(&engine, "web")["Id"], first["Id"]);
        // A dry run changes nothing either.
        host.apply(&workload("web", "2", more), &["--dry-run"]);
        assert_eq!(inspect(&engine, "web")["Id"], first["Id"]);
        host.apply(&workload("web", "2", more), &["--wait"]);
        let second = inspect(&engine, "web");
        assert_ne!(second["Id"], first["Id"]);
        assert_eq!(second["Config"]["Labels"]["persys.revision_id"], "2");
        assert_eq!(engine.docker(&["exec", "web", "cat", "/data/file"]).trim(), "kept");
        let stopped = workload("web", "2", more).replace("spec:", "desired_state: stopped\nspec:");
        host.apply(&stopped, &["--wait"]);
        assert_eq!(inspect(&engine, "web")["State"]["Status"], "exited");
        host.apply(&workload("web", "2", more), &["--wait"]);
        assert_eq!(inspect(&engine, "web")["Id"], second["Id"], "started, and not made anew");
        host.walras(&["delete", "web", "--wait"]);
        assert_eq!(engine.containers(), "");
        assert_eq!(engine.docker(&["volume", "ls", "-q"]).trim(), "data");
        let told = host.walras(&["actions", "web", "--json"]);
        assert!(told.contains("delete_workload") && told.contains("by socket"), "{told}");
    }

    #[test]
    fn a_job_runs_once_and_a_service_that_is_killed_is_started_again() {
        let engine = Engine::start();
        let mut host = Host::start(&engine, &[]);
        let job = "id: job\nrevision_id: \"1\"\nspec:\n  container:\n    image: walras-test:1\n    \
                   command: [/bin/sh, -c, \"echo ran >> /data/runs\"]\n    \
                   managed_volumes: [{name: runs, mount_path: /data}]\n    \
                   restart_policy: {policy: \"no\"}\n";
        host.apply(job, &["--wait"]);
        host.apply(&workload("web", "1", ""), &["--wait"]);
        host.becomes("job", "STOPPED");
        host.restart(&engine, &[]);
        host.becomes("job", "STOPPED");
        assert!(host.status("job").contains("completed"));
        let runs = ["run", "--rm", "--network", "none", "-v", "runs:/data", "walras-test:1"];
        let runs = [&runs[..], &["cat", "/data/runs"]].concat();
        assert_eq!(engine.docker(&runs).trim(), "ran");
        let before = inspect(&engine, "web")["State"]["StartedAt"].clone();
        engine.docker(&["stop", "--time", "1", "web"]);
        until("a new start", || {
            let state = &inspect(&engine, "web")["State"];
            state["Running"] == true && state["StartedAt"] != before
        });
        host.becomes("web", "RUNNING");
        engine.docker(&["rm", "--force", "web"]);
        until("a new container", || engine.containers().lines().any(|name| name == "web"));
        host.becomes("web", "RUNNING");
    }

    #[test]
    fn a_daemon_that_dies_at_any_step_leads_to_the_same_end() {
        let engine = Engine::start();
        let mut host = Host::start(&engine, &[]);
        host.apply(&with_secret("web", "0"), &["--wait"]);
        let points = ["prepare", "create", "start", "stop", "remove"];
        let points = points.iter().flat_map(|op| [format!("before:{op}"), format!("after:{op}")]);
        for (number, point) in points.enumerate() {
            let revision = (number + 1).to_string();
            host.restart(&engine, &["--run-fault", &point]);
            host.applies_and_dies(&with_secret("web", &revision));
            host.start_again(&engine, &[]);
            // Saved before anything was done, so the next daemon knows what is wanted.
            let status = host.walras(&["status", "web", "--json"]);
            let status: serde_json::Value = serde_json::from_str(&status).unwrap();
            assert_eq!(status["revision_id"], *revision, "{point}: {status}");
            // Secrets are with whoever applies: what has to be made anew asks for them.
            host.apply(&with_secret("web", &revision), &["--wait"]);
            assert_eq!(engine.containers(), "web\n", "{point}");
            let web = inspect(&engine, "web");
            assert_eq!(web["Config"]["Labels"]["persys.revision_id"], *revision, "{point}");
            assert_eq!(web["State"]["Status"], "running", "{point}");
            let env = web["Config"]["Env"].to_string();
            assert!(env.contains(SECRET), "{point}");
        }
        host.stop();
        for file in host.files() {
            let bytes = fs::read(&file).unwrap();
            let found = bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes());
            assert!(!found, "the secret is in {}", file.display());
        }
    }

    #[test]
    fn a_docker_that_dies_makes_workloads_unknown_and_they_are_repaired_afterwards() {
        let mut engine = Engine::start();
        let host = Host::start(&engine, &[]);
        for id in ["aa", "bb"] {
            host.apply(&workload(id, "1", ""), &["--wait"]);
        }
        engine.kill();
        for id in ["aa", "bb"] {
            host.becomes(id, "UNKNOWN");
        }
        let health = host.walras_may_fail(&["health"]);
        assert!(health.contains("not well") && health.contains("docker: "), "{health}");
        // Asked for while nobody answers.
        host.apply(&workload("cc", "1", ""), &[]);
        engine.start_again();
        for id in ["aa", "bb", "cc"] {
            host.becomes(id, "RUNNING");
        }
        let mut names: Vec<String> = engine.containers().lines().map(str::to_owned).collect();
        names.sort();
        assert_eq!(names, ["aa", "bb", "cc"]);
        assert!(host.walras(&["health"]).contains("The host is well"));
    }
}
