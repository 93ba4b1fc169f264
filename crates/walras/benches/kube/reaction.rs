//! How long it takes from a pod's first throttled period to a larger quota, both ways to act.
//!
//! A hundred pods, twenty at a time, each new and idle until it is its turn to burn for a moment.
//! The kernel's own counters and quota are looked at every few milliseconds.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::installed::{Installed, Place};

const TRIALS: usize = 100;
const AT_ONCE: usize = 20;
/// Who has not been raised by then never will be.
const PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(4);
/// So much work has each, and so long is it left alone with it: else one pod would wait for what
/// another still needs.
const WORK_MS: u64 = 1_500;
const BETWEEN_TRIALS: Duration = Duration::from_secs(2);
/// A pod has run for so long before the first of them: a start may be throttled and raised, too.
const SETTLING: Duration = Duration::from_secs(12);

pub(crate) fn run(asked: &[String]) {
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
        let mut took = measure(settings);
        let missed = TRIALS - took.len();
        took.sort_unstable();
        let at = |percent: usize| took[(took.len() * percent).div_ceil(100).max(1) - 1].as_millis();
        println!("| {way} | {} | {} | {} | {} | {missed} |", at(50), at(95), at(99), at(100));
    }
}

fn measure(settings: &[(&str, &str)]) -> Vec<Duration> {
    // Without a floor nobody is raised before it is held back, and with as much as it asks for as
    // the least, the first resize of each is the raise.
    let least = [("market.limit_floor_milli", "10"), ("baselineCPUPerPod", "50m")];
    let settings = [settings, &least].concat();
    let mut installed = Installed::start(&settings);
    let kubectl = installed.testbed.kubectl().expect("kubectl");
    let mut took = Vec::new();
    for batch in 0..TRIALS.div_ceil(AT_ONCE) {
        let names: Vec<String> = (0..AT_ONCE).map(|n| format!("web-{batch}-{n}")).collect();
        for name in &names {
            kubectl.apply(&installed.pod("default", name, "50m", "100m")).expect("a pod");
        }
        let places: Vec<Place> =
            names.iter().map(|name| installed.place("default", name)).collect();
        installed.check_alive();
        std::thread::sleep(SETTLING);
        for place in &places {
            took.extend(trial(&installed, place));
            std::thread::sleep(BETWEEN_TRIALS);
        }
        let mut delete = vec!["delete", "pod", "--wait=true", "--force"];
        delete.extend(names.iter().map(String::as_str));
        kubectl.run(&delete).expect("deletion");
        eprintln!("{} of {TRIALS}", took.len());
    }
    took
}

fn trial(installed: &Installed, place: &Place) -> Option<Duration> {
    let folder = installed.testbed.container_cgroup(&place.uid, &place.container).expect("cgroup");
    let quota_before = quota(&folder)?;
    let throttled_before = throttled(&folder)?;
    place.burst(WORK_MS, 1);
    let began = Instant::now();
    let mut first_throttled = None;
    while began.elapsed() < PATIENCE {
        if first_throttled.is_none() && throttled(&folder)? > throttled_before {
            first_throttled = Some(Instant::now());
        }
        if quota(&folder)? > quota_before {
            // Where both happened between two looks, it took no longer than that.
            return Some(first_throttled.map_or(Duration::ZERO, |at| at.elapsed()));
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
