//! Containers that the host runs are sized by its market, and Docker's own record of their limit is
//! kept in step.

use std::fs;
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::host::{Host, until};
use crate::tests::{SERVE, inspect};

/// The quota of a container's group, in microseconds, in either version of control groups.
fn quota(id: &str) -> Option<i64> {
    let paths = [
        format!("/sys/fs/cgroup/cpu/docker/{id}/cpu.cfs_quota_us"),
        format!("/sys/fs/cgroup/cpu,cpuacct/docker/{id}/cpu.cfs_quota_us"),
        format!("/sys/fs/cgroup/docker/{id}/cpu.max"),
        format!("/sys/fs/cgroup/system.slice/docker-{id}.scope/cpu.max"),
    ];
    let text = paths.iter().find_map(|path| fs::read_to_string(path).ok())?;
    let first = text.split_whitespace().next()?;
    Some(if first == "max" { -1 } else { first.parse().unwrap() })
}

fn recorded(engine: &Engine, id: &str) -> i64 {
    inspect(engine, id)["HostConfig"]["CpuQuota"].as_i64().unwrap()
}

#[test]
fn dockers_record_follows_the_market_and_goes_with_the_host() {
    let engine = Engine::start();
    let mut host = Host::start_with(&engine, &engine.adoption(), &["--act", "--profile", "tight"]);
    let document = format!(
        "id: web\nrevision_id: \"1\"\nspec:\n  container:\n    image: walras-test:1\n    \
         command: [/bin/sh, -c, \"{SERVE}\"]\n    \
         resources: {{cpu_min_milli: 100, cpu_max_milli: 1500}}\n"
    );
    host.apply(&document, &["--wait"]);
    let id = inspect(&engine, "web")["Id"].as_str().unwrap().to_owned();
    let limited = Instant::now() + Duration::from_secs(60);
    while quota(&id).is_none_or(|quota| quota <= 0) {
        assert!(Instant::now() < limited, "{:?}\n{}\n{}", quota(&id), host.state(), host.log());
        host.lives_for(Duration::from_millis(50));
    }
    // It stands still: Docker's record is what is in force.
    until("it is on record", || {
        let there = recorded(&engine, "web");
        there > 0 && quota(&id) == Some(there)
    });
    assert!(host.owners_changes().is_empty(), "{:?}", host.owners_changes());
    // With the host goes its limit, in force and on record.
    host.stop();
    assert_eq!((quota(&id), recorded(&engine, "web")), (Some(-1), -1));
}
