//! What the agent and the controller cost: CPU, memory and calls of the API server.
//!
//! The agent at a hundred real pods, of which ten burn now and then, once they have settled; the
//! controller at five thousand allocations that need nothing, on nodes that exist in the API alone.
//! There the mode is `off`, since pods that nobody runs have no limits that could be in force.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use walras_testbed::{Spec, wait_for};

use crate::installed::{Installed, Place};

const PODS: usize = 100;
const HOT: usize = 10;
/// New pods are not shrunk for a minute, and then for another.
const SETTLING: Duration = Duration::from_secs(180);
const WATCHED: Duration = Duration::from_secs(120);
const ALLOCATIONS: usize = 5_000;
const KWOK_NODES: u32 = 50;
const PATIENCE: Duration = Duration::from_secs(900);

pub(crate) fn run() {
    println!("| | agent | controller |");
    println!("|---|---|---|");
    on_a_real_node();
    at_many_objects();
}

/// CPU time of a process so far, in milliseconds.
pub(crate) fn cpu_ms(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process is there");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
    // After the name: state is the first, user and system time are the twelfth and thirteenth.
    let ticks = |at: usize| fields[at].parse::<u64>().expect("a number");
    (ticks(12) + ticks(13)) * 10
}

/// A figure of a program; nothing where it does not say it.
pub(crate) fn figure(metrics: &str, name: &str) -> f64 {
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or_default()
}

/// Lets some of the pods burn now and then, for so long.
fn keep_busy(places: &[Place], how_long: Duration) {
    let began = Instant::now();
    while began.elapsed() < how_long {
        for place in places.iter().take(HOT) {
            place.burst(100, 1);
        }
        std::thread::sleep(Duration::from_secs(5));
    }
}

pub(crate) fn memory_mb(pid: u32, field: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process is there");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("its memory");
    let kb: u32 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    f64::from(kb) / 1024.0
}

fn on_a_real_node() {
    let mut installed = Installed::start(&[("baselineCPUPerPod", "10m")]);
    let pods: Vec<Value> =
        (0..PODS).map(|n| installed.pod("default", &format!("web-{n}"), "10m", "50m")).collect();
    let kubectl = installed.testbed.kubectl().expect("kubectl");
    kubectl.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": pods })).expect("pods");
    let places: Vec<Place> =
        (0..PODS).map(|n| installed.place("default", &format!("web-{n}"))).collect();
    installed.check_alive();
    wait_for("every pod to be managed", PATIENCE, || {
        let managed = figure(&installed.agent_metrics()?, "mbcas_managed_pods");
        Ok((managed >= u32::try_from(PODS)?.into()).then_some(()))
    })
    .expect("every pod is managed");
    let (Some(agent), Some(controller)) = installed.pids() else { panic!("both run") };
    keep_busy(&places, SETTLING);
    let before = (cpu_ms(agent), cpu_ms(controller), Calls::so_far(&installed));
    keep_busy(&places, WATCHED);
    let after = (cpu_ms(agent), cpu_ms(controller), Calls::so_far(&installed));
    let share = |ms: u64| {
        let ms = u32::try_from(ms).expect("minutes");
        f64::from(ms) / 10.0 / WATCHED.as_secs_f64()
    };
    println!(
        "| {PODS} real pods, {HOT} hot: % of a core | {:.2} | {:.2} |",
        share(after.0 - before.0),
        share(after.1 - before.1)
    );
    for (what, field) in [("resident, MB", "VmRSS:"), ("of which its own, MB", "RssAnon:")] {
        let (agent, controller) = (memory_mb(agent, field), memory_mb(controller, field));
        println!("| {what} | {agent:.1} | {controller:.1} |");
    }
    let per_hour = |count: usize| {
        let count = u32::try_from(count).expect("a small number");
        f64::from(count) * 3600.0
            / WATCHED.as_secs_f64()
            / f64::from(u32::try_from(PODS).expect("100"))
    };
    for (what, of) in [("writes", Calls::WRITES), ("calls of any kind", Calls::ALL)] {
        let made =
            |account: &str| per_hour(after.2.count(account, of) - before.2.count(account, of));
        println!(
            "| {what} per pod and hour | {:.1} | {:.1} |",
            made("walras-agent"),
            made("walras-controller")
        );
    }
}

/// Who called the API server so far, and how; but for leases, whose pace is fixed.
struct Calls(Vec<(String, String)>);

// === impl Calls ===

impl Calls {
    const WRITES: &'static [&'static str] = &["create", "update", "patch", "delete"];
    const ALL: &'static [&'static str] =
        &["create", "update", "patch", "delete", "get", "list", "watch"];

    fn so_far(installed: &Installed) -> Self {
        let events = installed.testbed.audit().expect("the audit log");
        let ended = events.iter().filter(|event| event["stage"] == "ResponseComplete");
        let others = ended.filter(|event| event["objectRef"]["resource"] != "leases");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self(others.map(|it| (text(&it["user"]["username"]), text(&it["verb"]))).collect())
    }

    fn count(&self, account: &str, verbs: &[&str]) -> usize {
        let made = self.0.iter().filter(|(user, _)| user.ends_with(account));
        made.filter(|(_, verb)| verbs.contains(&verb.as_str())).count()
    }
}

fn at_many_objects() {
    let mut installed = Installed::prepare_on(Spec::new(KWOK_NODES, true), &[("mode", "off")]);
    let kubectl = installed.testbed.kubectl().expect("kubectl");
    let numbers: Vec<usize> = (0..ALLOCATIONS).collect();
    for batch in numbers.chunks(500) {
        let pods: Vec<Value> = batch
            .iter()
            .map(|n| {
                let mut pod = installed.pod("default", &format!("web-{n}"), "50m", "100m");
                let node = n % usize::try_from(KWOK_NODES).expect("50") + 1;
                pod["spec"]["nodeName"] = format!("kwok-{node}").into();
                pod["spec"]["nodeSelector"] = Value::Null;
                pod
            })
            .collect();
        kubectl.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": pods })).expect("pods");
        let allocations: Vec<Value> = batch
            .iter()
            .map(|n| {
                json!({
                    "apiVersion": "allocation.mbcas.io/v1alpha1",
                    "kind": "PodAllocation",
                    "metadata": { "name": format!("default-web-{n}"), "namespace": "default" },
                    "spec": {
                        "namespace": "default", "podName": format!("web-{n}"),
                        "desiredCPURequest": "50m", "desiredCPULimit": "100m",
                    },
                })
            })
            .collect();
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": allocations });
        kubectl.apply(&list).expect("allocations");
        eprintln!("{} of {ALLOCATIONS}", batch.last().expect("not empty") + 1);
    }
    installed.start_controller();
    // The first look writes a status each; the second needs nothing.
    wait_for("every allocation to be looked at", PATIENCE, || {
        let all = kubectl.json(&["get", "podallocations"])?;
        let items = all["items"].as_array().cloned().unwrap_or_default();
        Ok(items.iter().all(|one| one["status"]["reason"] == "RecommendOnly").then_some(()))
    })
    .expect("every allocation is looked at");
    // Another one has nothing to write, and looks at all of them when a setting changes.
    installed.kill_controller();
    installed.start_controller();
    let (_, Some(controller)) = installed.pids() else { panic!("the controller runs") };
    let count = "mbcas_controller_reconcile_duration_seconds_count";
    let everything = f64::from(u32::try_from(ALLOCATIONS).expect("5,000"));
    let look = |least: f64| {
        wait_for("every allocation to be looked at", PATIENCE, || {
            // It may not listen yet.
            let metrics = installed.controller_metrics().unwrap_or_default();
            let idle = figure(&metrics, "walras_controller_queue_depth") <= 0.0;
            let leads = figure(&metrics, "walras_controller_leader") > 0.0;
            Ok((idle && leads && figure(&metrics, count) >= least).then_some(metrics))
        })
        .expect("every allocation is looked at")
    };
    let before = look(everything);
    installed.configure(&[("resizesPerSecond", "11")]).expect("the settings");
    let after = look(figure(&before, count) + everything);
    let looks = figure(&after, count) - figure(&before, count);
    let sum = "mbcas_controller_reconcile_duration_seconds_sum";
    let spent_s = figure(&after, sum) - figure(&before, sum);
    for (what, field) in [("resident, MB", "VmRSS:"), ("of which its own, MB", "RssAnon:")] {
        println!("| {ALLOCATIONS} allocations: {what} | | {:.1} |", memory_mb(controller, field));
    }
    println!("| looks a second, nothing to do | | {:.0} |", looks / spent_s);
    println!("| CPU since it started, ms | | {} |", cpu_ms(controller));
}
