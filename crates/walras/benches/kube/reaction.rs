//! How long it takes from a pod's first throttled period to a larger quota, both ways to act.
//!
//! A hundred pods, twenty at a time, each new and idle until it is its turn to burn for a moment;
//! then it is deleted, and the next has its turn when the node has room again: where others hold
//! all there is, a raise waits for them and not for us. The kernel's own counters and quota are
//! looked at every few milliseconds; where the time went in between is what the API server's audit
//! log says.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;
use walras_testbed::wait_for;

use crate::installed::{Installed, Place};

/// How many, unless the command names another number.
const TRIALS: usize = 100;
const AT_ONCE: usize = 20;
/// Who has not been raised by then never will be.
const PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(4);
/// So much work has each: at 100m it would take ten seconds.
const WORK_MS: u64 = 1_000;
/// What the deletion of a pod takes, on the same machine.
const BETWEEN_TRIALS: Duration = Duration::from_secs(2);
/// A pod has run for so long before the first of them: a start may be throttled and raised, too.
const SETTLING: Duration = Duration::from_secs(12);

pub(crate) fn run(asked: &[String]) {
    let trials = asked.iter().find_map(|one| one.parse().ok()).unwrap_or(TRIALS);
    println!("| ms | median | 95 % | 99 % | longest | not raised |");
    println!("|---|---|---|---|---|---|");
    for (way, settings) in [
        ("api", &[("actuation", "api")][..]),
        ("direct-new", &[("actuation", "direct")][..]),
        // As after ten minutes without a raise.
        ("direct-quiet", &[("actuation", "direct"), ("market.hot_memory_s", "0")][..]),
    ] {
        let is_named = |one: &String| way.starts_with(one.as_str());
        let any_named = asked.iter().any(|one| one == "api" || one.starts_with("direct"));
        if any_named && !asked.iter().any(is_named) {
            continue;
        }
        let raises = measure(settings, trials);
        let missed = trials - raises.len();
        let each = |part: fn(&Raise) -> Option<Duration>| raises.iter().filter_map(part).collect();
        row(way, each(|raise| Some(raise.took)), &missed.to_string());
        if way == "api" {
            row("api, until the agent has written it", each(Raise::until_written), "");
            row("api, until the node is asked", each(Raise::until_asked), "");
        }
    }
}

fn row(name: &str, mut took: Vec<Duration>, missed: &str) {
    if took.is_empty() {
        println!("| {name} | | | | | {missed} |");
        return;
    }
    took.sort_unstable();
    let at = |percent: usize| took[(took.len() * percent).div_ceil(100).max(1) - 1].as_millis();
    println!("| {name} | {} | {} | {} | {} | {missed} |", at(50), at(95), at(99), at(100));
}

/// A raise: when its pod was held back first, how long it took, and what of it came when.
struct Raise {
    throttled_at: Timestamp,
    took: Duration,
    /// When the agent wrote what it wants.
    written_at: Option<Timestamp>,
    /// When the controller asked for it.
    asked_at: Option<Timestamp>,
}

// === impl Raise ===

impl Raise {
    fn until_written(&self) -> Option<Duration> {
        self.written_at.map(|at| self.until(at))
    }

    fn until_asked(&self) -> Option<Duration> {
        self.asked_at.map(|at| self.until(at))
    }

    fn until(&self, at: Timestamp) -> Duration {
        Duration::try_from(at.duration_since(self.throttled_at)).unwrap_or_default()
    }

    fn words(&self) -> String {
        let (written, asked) = (self.until_written(), self.until_asked());
        format!("written after {written:?}, asked for after {asked:?}, done after {:?}", self.took)
    }

    /// Finds in the audit log what came when.
    fn explain(&mut self, pod: &str, events: &[Value]) {
        let first = |resource: &str, subresource: Option<&str>, name: &str| {
            let mut of_it = events.iter().filter(|event| {
                let object = &event["objectRef"];
                object["resource"] == resource
                    && object["subresource"].as_str() == subresource
                    && object["name"] == name
            });
            of_it.find_map(|event| {
                let at: Timestamp = event["requestReceivedTimestamp"].as_str()?.parse().ok()?;
                (at >= self.throttled_at).then_some(at)
            })
        };
        let written_at = first("podallocations", None, &format!("default-{pod}"));
        let asked_at = first("pods", Some("resize"), pod);
        (self.written_at, self.asked_at) = (written_at, asked_at);
    }
}

fn measure(settings: &[(&str, &str)], trials: usize) -> Vec<Raise> {
    // Without a floor nobody is raised before it is held back, and with as much as it asks for as
    // the least, the first resize of each is the raise.
    let least = [("market.limit_floor_milli", "10"), ("baselineCPUPerPod", "50m")];
    let settings = [settings, &least].concat();
    let mut installed = Installed::start(&settings);
    let kubectl = installed.testbed.kubectl().expect("kubectl");
    let mut raises = Vec::new();
    let numbers: Vec<usize> = (0..trials).collect();
    for batch in numbers.chunks(AT_ONCE) {
        let names: Vec<String> = batch.iter().map(|n| format!("web-{n}")).collect();
        for name in &names {
            kubectl.apply(&installed.pod("default", name, "50m", "100m")).expect("a pod");
        }
        let places: Vec<Place> =
            names.iter().map(|name| installed.place("default", name)).collect();
        installed.check_alive();
        std::thread::sleep(SETTLING);
        for place in &places {
            let mut raise = trial(&installed, place);
            if let Some(raise) = &mut raise {
                raise.explain(&place.name, &installed.testbed.audit().expect("the audit log"));
                eprintln!("{}: {}", place.name, raise.words());
            }
            raises.extend(raise);
            kubectl
                .run(&["delete", "pod", "--wait=true", "--force", &place.name])
                .expect("deletion");
            std::thread::sleep(BETWEEN_TRIALS);
            wait_for("room on the node", PATIENCE, || {
                Ok(is_free(&installed.agent_metrics()?).then_some(()))
            })
            .expect("room on the node");
        }
        eprintln!("{} of {trials}", batch.last().expect("not empty") + 1);
    }
    raises
}

/// Whether nobody has to pay for CPU.
fn is_free(metrics: &str) -> bool {
    let price = metrics.lines().find_map(|line| line.strip_prefix("walras_price "));
    price.and_then(|price| price.parse::<f64>().ok()).is_some_and(|price| price <= 0.0)
}

fn trial(installed: &Installed, place: &Place) -> Option<Raise> {
    let folder = installed.testbed.container_cgroup(&place.uid, &place.container).expect("cgroup");
    let quota_before = quota(&folder)?;
    let throttled_before = throttled(&folder)?;
    place.burst(WORK_MS, 1);
    let began = Instant::now();
    let mut first_throttled = None;
    while began.elapsed() < PATIENCE {
        if first_throttled.is_none() && throttled(&folder)? > throttled_before {
            first_throttled = Some((Instant::now(), Timestamp::now()));
        }
        if quota(&folder)? > quota_before {
            // Where both happened between two looks, it took no longer than that.
            let (since, throttled_at) =
                first_throttled.unwrap_or_else(|| (Instant::now(), Timestamp::now()));
            let took = since.elapsed();
            return Some(Raise { throttled_at, took, written_at: None, asked_at: None });
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    None
}

fn quota(folder: &Path) -> Option<u64> {
    let v1 = fs::read_to_string(folder.join("cpu.cfs_quota_us"));
    let v2 = || fs::read_to_string(folder.join("cpu.max"));
    let text = v1.or_else(|_| v2()).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn throttled(folder: &Path) -> Option<u64> {
    let text = fs::read_to_string(folder.join("cpu.stat")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("nr_throttled "))?;
    line.parse().ok()
}
