//! One phase on real cgroups: the workloads run, and what the kernel tells of them is written down.
//!
//! Both phases are measured by the same code, from the kernel's own counters and settings, whoever
//! set them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use walras_core::demand::Sample;
use walras_core::units::Moment;
use walras_sim::load::{Histogram, LoadSpec};
use walras_sim::recording::Recorder;
use walras_sim::run::{PodMoment, Watcher};
use walras_sim::scenario::{PodSpec, Scenario};

use super::cast::{WEB, cores};
use super::ground::{Ground, Player, Players};
use super::market::Market;
use super::outcome::{Phase, Total};
use super::progress::Progress;

/// How often limits are read: once a period of the kernel.
const STEP: Duration = Duration::from_millis(100);
/// How many steps a point of the pictures has.
const STEPS_PER_SECOND: u32 = 10;

/// Why a phase has no result.
#[derive(Debug)]
pub(super) enum Ended {
    /// It is to end.
    Interrupted,
    /// Something does not work, in words.
    Broken(String),
}

/// What is known of one workload so far.
struct Seen {
    at_start: Sample,
    now: Sample,
    a_second_ago: Sample,
    limit_core_s: f64,
    limit_core_s_a_second_ago: f64,
    cores_all: f64,
}

/// Runs the workloads under their static limits or under the market.
pub(super) fn play(
    ground: &Ground,
    scenario: &Scenario,
    policy: &'static str,
    progress: &mut Progress,
    interrupted: &Arc<AtomicBool>,
) -> Result<Phase, Ended> {
    let mut players = ground.start(scenario)?;
    let market = match policy {
        "static" => None,
        _ => Some(Market::open(ground, scenario)?),
    };
    let places: Vec<usize> = (0..scenario.pods.len()).collect();
    let mut recorder = Recorder::new(scenario.duration_s, &places);
    let mut seen = players
        .all
        .iter()
        .map(|player| Seen::new(player, cores(scenario.node.capacity)))
        .collect::<Result<Vec<_>, _>>()?;
    players.go()?;
    let began = Instant::now();
    let mut last = began;
    for step in 1..=scenario.duration_s * STEPS_PER_SECOND {
        wait_until(began + STEP * step, interrupted)?;
        let now = Instant::now();
        for (seen, player) in seen.iter_mut().zip(&players.all) {
            seen.step(player, now - last)?;
        }
        last = now;
        if step.is_multiple_of(STEPS_PER_SECOND) {
            let second = step / STEPS_PER_SECOND;
            let pairs = seen.iter_mut().zip(&scenario.pods);
            let moments: Vec<_> =
                pairs.map(|(seen, pod)| seen.second(pod, second - 1, scenario.seed)).collect();
            recorder.second_passed(second, &moments, None);
            progress.second(policy, second, &totals(&players, &seen));
        }
    }
    let pods = totals(&players, &seen);
    let changes = market.map(Market::close).transpose()?.map_or(0, |tally| tally.changes);
    let answers = players.stop(WEB)?;
    let mut latencies = Histogram::default();
    for latency_us in &answers.latencies_us {
        latencies.record(Duration::from_micros(*latency_us).as_secs_f64() * 1000.0);
    }
    let unanswered = Some(answers.unanswered);
    Ok(Phase { policy, pods, latencies, unanswered, changes, recording: recorder.end() })
}

fn totals(players: &Players, seen: &[Seen]) -> Vec<Total> {
    players.all.iter().zip(seen).map(|(player, seen)| seen.total(&player.name)).collect()
}

fn wait_until(at: Instant, interrupted: &AtomicBool) -> Result<(), Ended> {
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return Err(Ended::Interrupted);
        }
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::park_timeout(left);
    }
}

// === impl Seen ===

impl Seen {
    fn new(player: &Player, cores_all: f64) -> Result<Self, Ended> {
        let at_start = player.group.sample(Moment::ORIGIN)?;
        Ok(Self {
            at_start,
            now: at_start,
            a_second_ago: at_start,
            limit_core_s: 0.0,
            limit_core_s_a_second_ago: 0.0,
            cores_all,
        })
    }

    /// So much time has passed.
    fn step(&mut self, player: &Player, passed: Duration) -> Result<(), Ended> {
        let limit = player.group.settings()?.max.limit_floor();
        self.limit_core_s += limit.map_or(self.cores_all, cores) * passed.as_secs_f64();
        self.now = player.group.sample(Moment::ORIGIN)?;
        Ok(())
    }

    /// A second has passed.
    fn second(&mut self, pod: &PodSpec, second: u32, seed: u64) -> PodMoment {
        let moment = PodMoment {
            offered_cores: offered(&pod.load, second, seed).min(self.cores_all),
            used_cores: used_s(&self.now) - used_s(&self.a_second_ago),
            limit_cores: Some(self.limit_core_s - self.limit_core_s_a_second_ago),
            request_cores: cores(pod.request),
            nr_throttled: self.now.nr_throttled.saturating_sub(self.at_start.nr_throttled),
        };
        self.a_second_ago = self.now;
        self.limit_core_s_a_second_ago = self.limit_core_s;
        moment
    }

    fn total(&self, name: &str) -> Total {
        let since = |part: fn(&Sample) -> u64| part(&self.now) - part(&self.at_start);
        Total {
            name: name.to_owned(),
            limit_core_s: self.limit_core_s,
            used_core_s: used_s(&self.now) - used_s(&self.at_start),
            periods: number(since(|sample| sample.nr_periods)),
            throttled_periods: number(since(|sample| sample.nr_throttled)),
        }
    }
}

impl From<String> for Ended {
    fn from(message: String) -> Self {
        Self::Broken(message)
    }
}

impl From<walras_cgroup::CgroupError> for Ended {
    fn from(error: walras_cgroup::CgroupError) -> Self {
        Self::Broken(error.to_string())
    }
}

/// What a workload wants in a second, if it can have it.
fn offered(load: &LoadSpec, second: u32, seed: u64) -> f64 {
    match load {
        LoadSpec::Service { rate, cost_ms, .. } => rate.level(second, seed) * cost_ms / 1000.0,
        LoadSpec::Batch { threads, .. } => *threads,
        LoadSpec::Usage { cores, .. } => cores.level(second, seed),
    }
}

fn used_s(sample: &Sample) -> f64 {
    Duration::from_micros(sample.usage.as_us()).as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "a phase has few periods")]
const fn number(count: u64) -> f64 {
    count as f64
}
