//! What a policy promises of every period of a node that it decides over, counted while it runs.
//!
//! Two books. *Work-conserving*: a period is wasted on a pod that is throttled at its end, below
//! the most it may have, while more of the node was idle than the guard. *Give-back*: in every
//! second a pod that wants to run gets what it has a right to, or all it wants if that is less.
//! Property tests read them; the books say what happened and not whether that is fine.
//!
//! Always: a pod that waits for nothing has nothing wasted on it, and is owed nothing.

use walras_core::profile::{Profile, WeightSource};
use walras_core::smooth::weight::KernelWeight;
use walras_core::units::Millicores;

use crate::machine::{PERIOD_MS, SLICE_MS, Want};
use crate::run::{Period, PodMoment, Watcher, cores};
use crate::scenario::{PodSpec, Scenario};

/// What is counted of one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Books {
    /// The most wasted periods in a row, after the warm-up.
    pub wasted_in_a_row: u32,
    /// What it could have had: its part of what was idle beyond the guard in a window, or what it
    /// waited for in it if that is less.
    pub wasted_core_ms: f64,
    /// The most of that in two windows that follow each other: what one reaction costs.
    pub worst_core_ms: f64,
    /// What it used after the warm-up.
    pub used_core_ms: f64,
    /// Its worst second: what it got of what it had a right to and wanted.
    pub worst_second: Option<Second>,
}

/// A second in which a pod wanted to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Second {
    /// Which one.
    pub number: u32,
    /// What it got.
    pub got_core_ms: f64,
    /// What it should have got.
    pub due_core_ms: f64,
}

/// Counts while a node runs.
#[derive(Clone, Debug)]
pub struct Closed {
    cores: f64,
    guard_core_ms: f64,
    warm_up_s: u32,
    weighs_by: WeightSource,
    periods: u32,
    idle_core_ms: f64,
    /// How many periods are judged together: what comes and goes faster than anybody can act is
    /// nobody's fault.
    window_periods: u32,
    /// What was idle beyond the guard in this window; below zero where less was.
    window_beyond_core_ms: f64,
    pods: Vec<Counted>,
}

#[derive(Clone, Debug)]
struct Counted {
    right_cores: f64,
    weight: f64,
    /// What it is due while it wants as much.
    due_cores: f64,
    /// In which second it was first seen; its first one is not a whole one.
    since_s: Option<u32>,
    in_a_row: u32,
    /// What it waited for in this window.
    waited_core_ms: f64,
    last_window_core_ms: f64,
    nr_throttled: u64,
    throttled_core_ms: f64,
    usage_core_ms: f64,
    got_core_ms: f64,
    due_core_ms: f64,
    books: Books,
}

/// What a pod has a right to: what it requests, or the least its owner wants for it.
#[must_use]
pub fn right(pod: &PodSpec, node: Millicores) -> Millicores {
    pod.request.max(pod.min.unwrap_or(Millicores::ZERO)).min(node)
}

/// How many periods it takes to see a pod wait, to decide, and to see that take effect.
fn reaction_periods(profile: &Profile) -> u32 {
    let ms =
        3 * profile.fast_loop_interval_ms.as_us() / 1000 + profile.effect_wait_ms.as_us() / 1000;
    // At least a second, since requests arrive at random.
    u32::try_from(ms.max(1000)).unwrap_or(u32::MAX).div_ceil(PERIOD_MS)
}

// === impl Closed ===

impl Closed {
    /// Counts what a market with this profile does to a node. What happens before the warm-up is
    /// over is not held against it.
    #[must_use]
    pub fn new(scenario: &Scenario, profile: &Profile, warm_up_s: u32) -> Self {
        let capacity = scenario.node.capacity;
        let guard = capacity
            .scale_floor(profile.idle_guard)
            .max(profile.idle_guard_floor_milli)
            .min(capacity);
        let pods = scenario.pods.iter().map(|pod| Counted::new(pod, capacity, profile)).collect();
        Self {
            cores: cores(capacity),
            guard_core_ms: cores(guard) * f64::from(PERIOD_MS),
            warm_up_s,
            weighs_by: profile.weight_source,
            periods: 0,
            idle_core_ms: 0.0,
            window_periods: reaction_periods(profile),
            window_beyond_core_ms: 0.0,
            pods,
        }
    }

    /// What was counted, by place.
    pub fn books(&self) -> impl Iterator<Item = &Books> {
        self.pods.iter().map(|pod| &pod.books)
    }

    fn close_window(&mut self) {
        let beyond = std::mem::take(&mut self.window_beyond_core_ms).max(0.0);
        // What several waited for could have been had only once.
        let waited: f64 = self.pods.iter().map(|pod| pod.waited_core_ms).sum();
        let part = if waited > 0.0 { (beyond / waited).min(1.0) } else { 0.0 };
        for pod in &mut self.pods {
            let cost_core_ms = part * std::mem::take(&mut pod.waited_core_ms);
            pod.books.wasted_core_ms += cost_core_ms;
            let two = cost_core_ms + pod.last_window_core_ms;
            pod.books.worst_core_ms = pod.books.worst_core_ms.max(two);
            pod.last_window_core_ms = cost_core_ms;
        }
    }

    /// What of each right the kernel can hold: weights are whole numbers, and a right's part of the
    /// node is only as fine as they are.
    fn divide(&mut self) {
        let running = || self.pods.iter().filter(|pod| pod.since_s.is_some());
        let weights: f64 = running().map(|pod| pod.weight).sum();
        let rights: f64 = running().map(|pod| pod.right_cores).sum();
        let count: f64 = running().map(|_| 1.0).sum();
        for pod in &mut self.pods {
            pod.due_cores = match self.weighs_by {
                WeightSource::Request | WeightSource::Bargaining => {
                    pod.right_cores.min(self.cores * pod.weight / weights.max(pod.weight))
                }
                WeightSource::Standing => {
                    let units = WHOLE * pod.right_cores / self.cores.max(rights);
                    // To the nearest, and nobody has less than one.
                    self.cores * (units - 0.5).max(0.0) / (WHOLE + count)
                }
            };
        }
    }
}

/// The largest weight there is, which standing weights make of the node.
const WHOLE: f64 = 10_000.0;

impl Watcher for Closed {
    fn second_passed(&mut self, second: u32, _: &[PodMoment], _: Option<f64>) {
        for pod in &mut self.pods {
            let (got_core_ms, due_core_ms) = (pod.got_core_ms, pod.due_core_ms);
            (pod.got_core_ms, pod.due_core_ms) = (0.0, 0.0);
            let is_whole = pod.since_s.is_some_and(|since_s| second > since_s + 1);
            let missing = due_core_ms - got_core_ms;
            let worst = pod.books.worst_second;
            let is_worse = worst.is_none_or(|worst| {
                missing * worst.due_core_ms > (worst.due_core_ms - worst.got_core_ms) * due_core_ms
            });
            if is_whole && missing > 0.0 && is_worse {
                pod.books.worst_second = Some(Second { number: second, got_core_ms, due_core_ms });
            }
        }
    }

    fn slice_passed(&mut self, wants: &[Want], ran_core_ms: &[f64]) {
        let slice_ms = f64::from(SLICE_MS);
        for (place, (want, &ran)) in wants.iter().zip(ran_core_ms).enumerate() {
            if want.work_core_ms <= 0.0 {
                continue;
            }
            let wanted = want.work_core_ms.min(want.threads.min(self.cores) * slice_ms);
            let due = wanted.min(self.pods[place].due_cores * slice_ms);
            let pod = &mut self.pods[place];
            pod.got_core_ms += ran;
            pod.due_core_ms += due;
        }
    }

    fn period_passed(&mut self, period: &Period<'_>) {
        self.periods += 1;
        let second = self.periods * PERIOD_MS / 1000;
        let idle_core_ms = core_ms(period.idle().as_us());
        let beyond = idle_core_ms - self.idle_core_ms - self.guard_core_ms;
        self.idle_core_ms = idle_core_ms;
        for (place, pod) in self.pods.iter_mut().enumerate() {
            let counters = period.counters(place);
            let throttled = counters.nr_throttled > pod.nr_throttled;
            let waited = counters.throttled_core_ms - pod.throttled_core_ms;
            let used = counters.usage_core_ms - pod.usage_core_ms;
            pod.nr_throttled = counters.nr_throttled;
            pod.throttled_core_ms = counters.throttled_core_ms;
            pod.usage_core_ms = counters.usage_core_ms;
            let Some(setting) = period.setting(place) else {
                (pod.since_s, pod.in_a_row) = (None, 0);
                continue;
            };
            let since_s = *pod.since_s.get_or_insert(second);
            let below_max = setting.limit.is_some_and(|limit| cores(limit) < self.cores);
            // Counters are whole microseconds.
            let wasted = throttled && below_max && beyond > 0.1;
            // A pod that has just come is not known yet.
            if second < since_s + self.warm_up_s {
                continue;
            }
            let books = &mut pod.books;
            books.used_core_ms += used;
            pod.in_a_row = if wasted { pod.in_a_row + 1 } else { 0 };
            books.wasted_in_a_row = books.wasted_in_a_row.max(pod.in_a_row);
            if throttled && below_max {
                pod.waited_core_ms += waited;
            }
        }
        self.window_beyond_core_ms += beyond;
        if self.periods.is_multiple_of(self.window_periods) {
            self.close_window();
        }
        self.divide();
    }
}

// === impl Counted ===

impl Counted {
    fn new(pod: &PodSpec, node: Millicores, profile: &Profile) -> Self {
        // Where weights follow requests, a min beyond the request is not in them.
        let right = match profile.weight_source {
            WeightSource::Standing => right(pod, node),
            WeightSource::Request | WeightSource::Bargaining => pod.request.min(node),
        };
        Self {
            right_cores: cores(right),
            weight: f64::from(KernelWeight::from_request(pod.request).get()),
            due_cores: 0.0,
            since_s: None,
            in_a_row: 0,
            waited_core_ms: 0.0,
            last_window_core_ms: 0.0,
            nr_throttled: 0,
            throttled_core_ms: 0.0,
            usage_core_ms: 0.0,
            got_core_ms: 0.0,
            due_core_ms: 0.0,
            books: Books::default(),
        }
    }
}

impl Second {
    /// The part it got of what it should have got.
    #[must_use]
    pub fn part(&self) -> f64 {
        if self.due_core_ms > 0.0 { self.got_core_ms / self.due_core_ms } else { 1.0 }
    }
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a few hours")]
fn core_ms(us: u64) -> f64 {
    us as f64 / 1000.0
}
