//! Containers that the host runs are sized by its market, and Docker's own record of their limit is
//! kept in step, without ever taking back what the market gave.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::engine::Engine;
use crate::host::{Host, until};
use crate::tests::inspect;

/// Uses what CPU it gets while there is a file, and nothing otherwise.
const WORK: &str = "while true; do if test -e /work; then i=0; while test $i -lt 20000; do \
                    i=$((i+1)); done; else sleep 0.2; fi; done";

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
fn dockers_record_follows_the_market_and_never_takes_back_what_it_gave() {
    let engine = Engine::start();
    let mut host = Host::start_with(&engine, &engine.adoption(), &["--act"]);
    let document = format!(
        "id: web\nrevision_id: \"1\"\nspec:\n  container:\n    image: walras-test:1\n    \
         command: [/bin/sh, -c, \"{WORK}\"]\n    \
         resources: {{cpu_min_milli: 100, cpu_max_milli: 1500}}\n"
    );
    host.apply(&document, &["--wait"]);
    let id = inspect(&engine, "web")["Id"].as_str().unwrap().to_owned();
    until("the market limits it", || quota(&id).is_some_and(|quota| quota > 0));
    // It stands still: Docker's record is what is in force.
    until("it is on record", || {
        let there = recorded(&engine, "web");
        there > 0 && quota(&id) == Some(there)
    });
    assert!(host.owners_changes().is_empty(), "{:?}", host.owners_changes());
    // It needs more, and gets it; whatever Docker is told meanwhile, it is not taken back.
    engine.docker(&["exec", "web", "touch", "/work"]);
    let low = recorded(&engine, "web");
    until("the market raises it", || quota(&id).is_some_and(|it| it > low || it == -1));
    let ends = Instant::now() + Duration::from_secs(45);
    let (mut drops, mut caught_up) = (0, false);
    while Instant::now() < ends && !caught_up {
        // Down to what is on record, while it works: that is what the record's update would do.
        let (there, in_force) = (recorded(&engine, "web"), quota(&id).unwrap());
        drops += u32::from(in_force == low);
        caught_up = there != low && there == in_force;
        host.lives_for(Duration::from_millis(20));
    }
    assert_eq!(drops, 0, "it was given back what it had before");
    assert!(
        caught_up,
        "the record is {} and {:?} is in force",
        recorded(&engine, "web"),
        quota(&id)
    );
    assert!(host.owners_changes().is_empty(), "{:?}", host.owners_changes());
    // Started again by Docker, with what is on record: the market does not take that for its right.
    engine.docker(&["restart", "--time", "1", "web"]);
    host.becomes("web", "RUNNING");
    until("it is sized again", || {
        let state: Value = serde_json::from_str(&host.state()).unwrap();
        let all = state["pods"].as_array().unwrap();
        let one = all.iter().find(|one| one["name"] == "web");
        one.is_some_and(|one| one["original_limit_milli"].is_null())
    });
    // With the host goes its limit, in force and on record.
    host.stop();
    assert_eq!((quota(&id), recorded(&engine, "web")), (Some(-1), -1));
}
