//! Koordinator's CPU burst (koordlet, policy `auto`): scales the quota of throttled containers
//! while the node has room, and gives each the kernel's burst buffer.
//!
//! Every second: a container that was throttled in the last second has its quota multiplied by 1.2,
//! up to 300 % of its limit; one that was not keeps what it has. While the node's share pool is
//! used by 50 % or more (5 s average) every quota is multiplied by 0.8 instead, down to the limit;
//! from 45 % to 50 % nothing is scaled up. The burst buffer is 1000 % of the limit, but never more
//! than the quota, since the kernel refuses more. Containers without a limit are left alone.
//!
//! Every pod counts as latency-sensitive (LS), or batch pods count as best-effort (BE): these are
//! not burst, have the least weight and request nothing, share a budget ([`super::suppress`]), and
//! what they use does not make the share pool busy. Which pods are so is for their owners to say,
//! so both are there to be compared.
//!
//! Simplified: the rest of the product (core binding, eviction) is not modelled. Containers are
//! pods.
//!
//! Best fair setting: off by default in the product, on here; no token bucket (its default), which
//! could only take back what was given.

use std::collections::VecDeque;

use walras_core::units::{Millicores, Moment, Ratio, Span};

use super::suppress::{self, Part, Suppress};
use super::{cores_used, millicores_nearest, to_cores};
use crate::load::LoadSpec;
use crate::machine::Counters;
use crate::policy::{Actuation, Policy, Setting, View, weight_from_request};
use crate::scenario::{NodeSpec, PodSpec};

/// What a quota is multiplied by when its container was throttled.
const SCALE_UP: Ratio = Ratio::from_percent(120);
/// What a quota is multiplied by while the node is busy.
const SCALE_DOWN: Ratio = Ratio::from_percent(80);
/// From this part of the threshold on, nothing is scaled up.
const COOLING: f64 = 0.9;
/// The node's usage is averaged over this many rounds.
const NODE_ROUNDS: usize = 5;

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KoordinatorSettings {
    /// How often it looks.
    pub every: Span,
    /// The largest quota, against the declared limit.
    pub quota_burst: Ratio,
    /// The burst buffer, against the declared limit.
    pub kernel_burst: Ratio,
    /// Usage of the share pool from which on quotas are taken back.
    pub share_pool_threshold: Ratio,
    /// Which classes pods are of.
    pub classes: Classes,
}

/// Which classes pods are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classes {
    /// All are latency-sensitive.
    AllSensitive,
    /// Batch pods are best-effort.
    BatchBestEffort,
}

/// The node's agent.
#[derive(Clone, Debug)]
pub struct Koordinator {
    settings: KoordinatorSettings,
    capacity: Millicores,
    /// By place in the scenario; pods without a limit are not kept.
    pods: Vec<Option<Bursting>>,
    /// Which of the pods are best-effort, whether they run or not.
    is_best_effort: Vec<bool>,
    /// Those of them that run, by place in the scenario.
    best_effort: Vec<Option<Suppressed>>,
    suppress: Suppress,
    looked_at: Moment,
    /// CPU time of the share pool at the last rounds, the oldest first.
    pool_core_ms: VecDeque<f64>,
}

/// `koordinator`: quota burst and kernel burst, both on.
pub fn koordinator(node: &NodeSpec, pods: &[PodSpec]) -> Box<dyn Policy> {
    Box::new(Koordinator::new(KoordinatorSettings::DEFAULT, node, pods))
}

/// `koordinator-be`: the same, with batch pods as best-effort.
pub fn koordinator_with_best_effort(node: &NodeSpec, pods: &[PodSpec]) -> Box<dyn Policy> {
    let settings =
        KoordinatorSettings { classes: Classes::BatchBestEffort, ..KoordinatorSettings::DEFAULT };
    Box::new(Koordinator::new(settings, node, pods))
}

/// A pod that has to make do with what the others leave.
#[derive(Clone, Debug)]
struct Suppressed {
    in_force: Setting,
    part: Part,
}

/// A pod that may burst.
#[derive(Clone, Debug)]
struct Bursting {
    in_force: Setting,
    base: Millicores,
    quota: Millicores,
    nr_throttled: u64,
}

/// How busy the share pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeState {
    Idle,
    Cooling,
    Overload,
}

/// What becomes of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    ScaleUp,
    ScaleDown,
    Remain,
}

// === impl KoordinatorSettings ===

impl KoordinatorSettings {
    /// As published, with both kinds of burst turned on.
    pub const DEFAULT: Self = Self {
        every: Span::from_s(1),
        quota_burst: Ratio::from_percent(300),
        kernel_burst: Ratio::from_percent(1000),
        share_pool_threshold: Ratio::from_percent(50),
        classes: Classes::AllSensitive,
    };
}

// === impl Koordinator ===

impl Koordinator {
    /// An agent with these settings.
    #[must_use]
    pub fn new(settings: KoordinatorSettings, node: &NodeSpec, pods: &[PodSpec]) -> Self {
        Self {
            settings,
            capacity: node.capacity,
            pods: vec![None; pods.len()],
            is_best_effort: pods.iter().map(|pod| is_best_effort(&settings, pod)).collect(),
            best_effort: vec![None; pods.len()],
            suppress: Suppress::new(node.capacity),
            looked_at: Moment::ORIGIN,
            pool_core_ms: VecDeque::from([0.0]),
        }
    }

    fn setting(&self, in_force: Setting, base: Millicores, quota: Millicores) -> Setting {
        let limit = quota.min(self.capacity);
        let burst = base.scale_floor(self.settings.kernel_burst).min(limit);
        Setting { limit: Some(limit), burst, ..in_force }
    }

    /// How busy the share pool was in the last rounds.
    fn node_state(&mut self) -> NodeState {
        let used_cores = self.pool_used_cores(NODE_ROUNDS);
        let used_share = used_cores / to_cores(self.capacity);
        let threshold = self.settings.share_pool_threshold.to_f64();
        if used_share >= threshold {
            NodeState::Overload
        } else if used_share >= threshold * COOLING {
            NodeState::Cooling
        } else {
            NodeState::Idle
        }
    }

    /// What the share pool used on average over up to so many rounds.
    fn pool_used_cores(&self, rounds_max: usize) -> f64 {
        let newest = self.pool_core_ms.len() - 1;
        let rounds = rounds_max.min(newest);
        let used_core_ms = self.pool_core_ms[newest] - self.pool_core_ms[newest - rounds];
        let rounds = u64::try_from(rounds).unwrap_or(u64::MAX);
        cores_used(used_core_ms, Span::from_us(self.settings.every.as_us().saturating_mul(rounds)))
    }

    fn remember(&mut self, counters: &[Counters]) {
        let in_pool = counters.iter().zip(&self.is_best_effort).filter(|(_, outside)| !**outside);
        self.pool_core_ms.push_back(in_pool.map(|(pod, _)| pod.usage_core_ms).sum());
        if self.pool_core_ms.len() > NODE_ROUNDS + 1 {
            self.pool_core_ms.pop_front();
        }
    }

    fn suppress(&mut self, settings: &mut Vec<(usize, Setting)>) {
        let used = millicores_nearest(self.pool_used_cores(1));
        let budget = self.suppress.second_passed(used);
        let parts: Vec<Part> = self.best_effort.iter().flatten().map(|pod| pod.part).collect();
        let shares = suppress::divide(budget, &parts);
        let running = self.best_effort.iter_mut().enumerate();
        let running = running.filter_map(|(place, pod)| Some((place, pod.as_mut()?)));
        for ((place, pod), share) in running.zip(shares) {
            if pod.in_force.limit != Some(share) {
                pod.in_force.limit = Some(share);
                settings.push((place, pod.in_force));
            }
        }
    }
}

impl Policy for Koordinator {
    fn pod_started(&mut self, place: usize, pod: &PodSpec, _: Moment) -> Setting {
        if self.is_best_effort[place] {
            let most = pod.limit.unwrap_or(self.capacity).min(self.capacity);
            let in_force = Setting {
                // Until the next round it may have what there is for all of them.
                limit: Some(self.suppress.budget().min(most)),
                request: Millicores::ZERO,
                weight: weight_from_request(Millicores::ZERO),
                burst: Millicores::ZERO,
            };
            let part = Part { request: pod.request, most };
            self.best_effort[place] = Some(Suppressed { in_force, part });
            return in_force;
        }
        let Some(base) = pod.limit else {
            return Setting::declared(pod);
        };
        let setting = self.setting(Setting::declared(pod), base, base);
        self.pods[place] = Some(Bursting { in_force: setting, base, quota: base, nr_throttled: 0 });
        setting
    }

    fn pod_stopped(&mut self, place: usize, _: Moment) {
        self.pods[place] = None;
        self.best_effort[place] = None;
    }

    fn period_passed(
        &mut self,
        now: Moment,
        view: &View<'_>,
        settings: &mut Vec<(usize, Setting)>,
    ) {
        if now.since(self.looked_at) < self.settings.every {
            return;
        }
        self.looked_at = now;
        self.remember(view.counters);
        self.suppress(settings);
        let state = self.node_state();
        for place in 0..self.pods.len() {
            let Some(mut pod) = self.pods[place].take() else {
                continue;
            };
            let nr_throttled = view.counters[place].nr_throttled;
            let was_throttled = nr_throttled > pod.nr_throttled;
            pod.nr_throttled = nr_throttled;
            pod.scale(operation(was_throttled, state), self.settings.quota_burst);
            let setting = self.setting(pod.in_force, pod.base, pod.quota);
            if setting != pod.in_force {
                pod.in_force = setting;
                settings.push((place, setting));
            }
            self.pods[place] = Some(pod);
        }
    }

    fn actuation(&self) -> Actuation {
        Actuation::Cgroup
    }
}

// === impl Bursting ===

impl Bursting {
    fn scale(&mut self, operation: Operation, quota_burst: Ratio) {
        let target = match operation {
            Operation::ScaleUp => self.quota.scale_floor(SCALE_UP),
            Operation::ScaleDown => self.quota.scale_floor(SCALE_DOWN),
            Operation::Remain => self.quota,
        };
        self.quota = target.min(self.base.scale_floor(quota_burst)).max(self.base);
    }
}

fn is_best_effort(settings: &KoordinatorSettings, pod: &PodSpec) -> bool {
    match (settings.classes, &pod.load) {
        // What it may not size is none of its best-effort pods, whatever it does.
        (Classes::BatchBestEffort, LoadSpec::Batch { .. }) => pod.managed,
        (Classes::BatchBestEffort, LoadSpec::Service { .. } | LoadSpec::Usage { .. })
        | (Classes::AllSensitive, _) => false,
    }
}

/// What the container asks for, unless the node objects.
fn operation(was_throttled: bool, state: NodeState) -> Operation {
    match (state, was_throttled) {
        (NodeState::Overload, _) => Operation::ScaleDown,
        (NodeState::Idle, true) => Operation::ScaleUp,
        (NodeState::Cooling, _) | (NodeState::Idle, false) => Operation::Remain,
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand::{Hand, Period, pod};
    use super::*;

    fn make(node: &NodeSpec, pods: &[PodSpec]) -> Koordinator {
        Koordinator::new(KoordinatorSettings::DEFAULT, node, pods)
    }

    /// A pod of 2 cores beside one that fills the node as far as the test wants.
    fn hand() -> Hand<Koordinator> {
        Hand::with_limits(&[Some(2000), None], make)
    }

    fn seconds(hand: &mut Hand<Koordinator>, seconds: u32, pod: Period, neighbour: f64) {
        hand.pass_each(seconds * 10, &[pod, Period::using(neighbour)]);
    }

    #[test]
    fn a_throttled_pod_gets_a_fifth_more_every_second_up_to_three_times_its_limit() {
        let mut hand = hand();
        let mut limits = Vec::new();
        for _ in 0..8 {
            seconds(&mut hand, 1, Period::throttled(1.0), 0.0);
            limits.extend(hand.limit(0));
        }
        assert_eq!(limits, [2400, 2880, 3456, 4147, 4976, 5971, 6000, 6000]);
    }

    #[test]
    fn one_throttled_period_in_the_second_is_enough() {
        let mut hand = hand();
        hand.pass_each(9, &[Period::using(1.0), Period::default()]);
        assert_eq!(hand.limit(0), Some(2000), "it looks once a second");
        hand.pass_each(1, &[Period::throttled(1.0), Period::default()]);
        assert_eq!(hand.limit(0), Some(2400));
    }

    #[test]
    fn a_pod_that_is_no_longer_throttled_keeps_what_it_has() {
        let mut hand = hand();
        seconds(&mut hand, 3, Period::throttled(1.0), 0.0);
        seconds(&mut hand, 60, Period::using(0.1), 0.0);
        assert_eq!(hand.limit(0), Some(3456));
    }

    #[test]
    fn on_a_busy_node_quotas_fall_to_the_limit_and_no_further() {
        let mut hand = hand();
        seconds(&mut hand, 20, Period::throttled(1.0), 0.0);
        // 8 of 16 cores on average over 5 s, for the first time after the fifth second.
        seconds(&mut hand, 4, Period::throttled(1.0), 7.0);
        assert_eq!(hand.limit(0), Some(6000));
        let mut limits = Vec::new();
        for _ in 0..6 {
            seconds(&mut hand, 1, Period::throttled(1.0), 7.0);
            limits.extend(hand.limit(0));
        }
        assert_eq!(limits, [4800, 3840, 3072, 2457, 2000, 2000]);
    }

    #[test]
    fn between_45_and_50_percent_nothing_is_scaled() {
        for (neighbour, expected) in [(6.1, 2400), (6.2, 2000), (6.9, 2000)] {
            let mut hand = hand();
            seconds(&mut hand, 1, Period::throttled(1.0), neighbour);
            assert_eq!(hand.limit(0), Some(expected), "{neighbour}");
        }
        let mut hand = hand();
        seconds(&mut hand, 2, Period::throttled(1.0), 0.0);
        seconds(&mut hand, 60, Period::throttled(1.0), 6.5);
        let held = hand.limit(0);
        seconds(&mut hand, 60, Period::throttled(1.0), 6.5);
        assert_eq!(hand.limit(0), held);
    }

    #[test]
    fn the_burst_buffer_is_as_large_as_the_kernel_allows() {
        let mut hand = hand();
        assert_eq!(hand.setting(0).burst, Millicores::new(2000));
        seconds(&mut hand, 1, Period::throttled(1.0), 0.0);
        assert_eq!(hand.setting(0).burst, Millicores::new(2400));
        let little = KoordinatorSettings {
            kernel_burst: Ratio::from_percent(50),
            ..KoordinatorSettings::DEFAULT
        };
        let hand =
            Hand::with_limits(&[Some(2000)], |node, pods| Koordinator::new(little, node, pods));
        assert_eq!(hand.setting(0).burst, Millicores::new(1000));
    }

    #[test]
    fn a_pod_without_a_limit_and_every_request_are_left_alone() {
        let mut hand = hand();
        let before = hand.setting(0);
        seconds(&mut hand, 10, Period::throttled(1.0), 0.0);
        assert_eq!(hand.limit(1), None);
        assert_eq!(hand.setting(0).request, before.request);
        assert_eq!(hand.setting(0).weight, before.weight);
    }

    /// A service of two cores beside two batch pods, of which one has a limit.
    fn with_best_effort() -> Hand<Koordinator> {
        let batch = |limit| PodSpec {
            load: LoadSpec::Batch { work_core_s: None, threads: 8.0, every_s: None },
            ..pod(limit)
        };
        let pods =
            vec![pod(Some(Millicores::new(2000))), batch(None), batch(Some(Millicores::new(3000)))];
        let settings = KoordinatorSettings {
            classes: Classes::BatchBestEffort,
            ..KoordinatorSettings::DEFAULT
        };
        Hand::with_pods(pods, |node, pods| Koordinator::new(settings, node, pods))
    }

    #[test]
    fn best_effort_pods_share_65_percent_of_the_node_less_what_others_use() {
        let mut hand = with_best_effort();
        // 65 % of 16 cores are 10.4.
        hand.pass_each(10, &[Period::using(2.0), Period::using(5.0), Period::using(3.0)]);
        assert_eq!((hand.limit(1), hand.limit(2)), (Some(5400), Some(3000)));
        hand.pass_each(10, &[Period::using(8.4), Period::using(5.0), Period::using(3.0)]);
        assert_eq!((hand.limit(1), hand.limit(2)), (Some(1000), Some(1000)));
        assert_eq!((hand.request(1), hand.setting(1).weight), (0, 1));
    }

    #[test]
    fn what_best_effort_pods_use_does_not_keep_others_from_bursting() {
        let busy = [Period::throttled(1.0), Period::using(6.0), Period::using(3.0)];
        let mut hand = with_best_effort();
        hand.pass_each(10, &busy);
        assert_eq!(hand.limit(0), Some(2400));
        let limits = [Some(2000), None, Some(3000)];
        let mut hand = Hand::with_limits(&limits, make);
        hand.pass_each(10, &busy);
        assert_eq!(hand.limit(0), Some(2000), "10 of 16 cores are busy");
    }
}
