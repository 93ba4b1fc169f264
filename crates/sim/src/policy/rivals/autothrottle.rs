//! Autothrottle's controller of one service ("Captain", NSDI 2024): holds the share of throttled
//! periods near a target.
//!
//! Counters are read every 0.1 s. Every second, if the throttled share of the last 10 reads is
//! above three times the target, the limit grows by the excess; else the largest usage of the last
//! 50 reads plus a margin of standard deviations is proposed, and taken if it is at least 10 %
//! lower, by half at most. The margin starts at 3, adds the share minus the target at each
//! decision, and is never negative. As soon as a shrink shows more than three times the target, it
//! is undone: the limit becomes twice the one before minus the shrunk one. The floor is 0.01 core.
//!
//! Simplified: the bandit that moves the target every minute is not here. Best fair setting
//! instead: whoever compares runs all of [`AUTOTHROTTLE_TARGETS`] and keeps the best one of each
//! scenario, with hindsight. A pod without a limit starts at the original's one core.

use walras_core::units::{Millicores, Moment, Ratio, Span};

use super::{cores_used, millicores_nearest, to_cores};
use crate::machine::Counters;
use crate::policy::{Actuation, Factory, Policy, Setting, View};
use crate::scenario::{NodeSpec, PodSpec};

/// Reads that make the throttled share.
const THROTTLED_READS: usize = 10;
/// Reads that make the usage: 5 s.
const USAGE_READS: usize = 50;
/// How often a decision is made.
const DECISION_EVERY: Span = Span::from_s(1);
/// Throttling up to this many times the target is put up with.
const TOLERANCE: f64 = 3.0;
/// The margin of a new pod, in standard deviations.
const MARGIN_START: f64 = 3.0;
/// A proposal must be below this part of the limit to be taken.
const SHRINK_BELOW: f64 = 0.9;
/// No single shrink goes below this part of the limit.
const SHRINK_MOST: f64 = 0.5;
/// The smallest limit, in cores.
const FLOOR_CORES: f64 = 0.01;

/// The targets the original searches, with a policy for each.
pub const AUTOTHROTTLE_TARGETS: [(Ratio, Factory); 6] = [
    (Ratio::ZERO, autothrottle_at::<0>),
    (Ratio::from_percent(2), autothrottle_at::<2>),
    (Ratio::from_percent(5), autothrottle_at::<5>),
    (Ratio::from_percent(10), autothrottle_at::<10>),
    (Ratio::from_percent(20), autothrottle_at::<20>),
    (Ratio::from_percent(30), autothrottle_at::<30>),
];

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutothrottleSettings {
    /// The share of throttled periods that is aimed for.
    pub target: Ratio,
    /// What a pod without a declared limit starts with.
    pub undeclared_limit: Millicores,
}

/// One controller per pod.
#[derive(Clone, Debug)]
pub struct Autothrottle {
    settings: AutothrottleSettings,
    capacity: Millicores,
    /// By place in the scenario.
    pods: Vec<Option<Captain>>,
}

/// `autothrottle` with a target of `PERCENT`.
pub fn autothrottle_at<const PERCENT: u32>(node: &NodeSpec, pods: &[PodSpec]) -> Box<dyn Policy> {
    Box::new(Autothrottle::with_target(Ratio::from_percent(PERCENT), node, pods))
}

/// The controller of one pod.
#[derive(Clone, Debug)]
struct Captain {
    in_force: Setting,
    limit_cores: f64,
    /// The limit before the last decision.
    before_cores: f64,
    margin: f64,
    has_shrunk: bool,
    /// Throttled periods of each read, oldest overwritten first.
    throttled: [f64; THROTTLED_READS],
    usage_cores: [f64; USAGE_READS],
    reads: usize,
    last: Option<Read>,
    decided_at: Moment,
}

#[derive(Clone, Copy, Debug)]
struct Read {
    at: Moment,
    counters: Counters,
}

// === impl AutothrottleSettings ===

impl AutothrottleSettings {
    /// A target in the middle of the practitioners' range, and the original's one core.
    pub const DEFAULT: Self =
        Self { target: Ratio::from_percent(10), undeclared_limit: Millicores::from_cores(1) };
}

// === impl Autothrottle ===

impl Autothrottle {
    /// Controllers with these settings.
    #[must_use]
    pub fn new(settings: AutothrottleSettings, node: &NodeSpec, pods: &[PodSpec]) -> Self {
        Self { settings, capacity: node.capacity, pods: vec![None; pods.len()] }
    }

    /// Controllers with this target.
    #[must_use]
    pub fn with_target(target: Ratio, node: &NodeSpec, pods: &[PodSpec]) -> Self {
        Self::new(AutothrottleSettings { target, ..AutothrottleSettings::DEFAULT }, node, pods)
    }
}

impl Policy for Autothrottle {
    fn pod_started(&mut self, place: usize, pod: &PodSpec, now: Moment) -> Setting {
        let limit = pod.limit.unwrap_or(self.settings.undeclared_limit).min(self.capacity);
        let setting = Setting { limit: Some(limit), ..Setting::declared(pod) };
        self.pods[place] = Some(Captain::new(setting, limit, now));
        setting
    }

    fn pod_stopped(&mut self, place: usize, _: Moment) {
        self.pods[place] = None;
    }

    fn period_passed(
        &mut self,
        now: Moment,
        view: &View<'_>,
        settings: &mut Vec<(usize, Setting)>,
    ) {
        let target = self.settings.target.to_f64();
        for (place, pod) in self.pods.iter_mut().enumerate() {
            let Some(captain) = pod else {
                continue;
            };
            captain.read(Read { at: now, counters: view.counters[place] }, target);
            let limit = Some(millicores_nearest(captain.limit_cores).min(self.capacity));
            if captain.in_force.limit != limit {
                captain.in_force.limit = limit;
                settings.push((place, captain.in_force));
            }
        }
    }

    fn actuation(&self) -> Actuation {
        Actuation::Cgroup
    }
}

// === impl Captain ===

impl Captain {
    fn new(in_force: Setting, limit: Millicores, now: Moment) -> Self {
        Self {
            in_force,
            limit_cores: to_cores(limit),
            before_cores: to_cores(limit),
            margin: MARGIN_START,
            has_shrunk: false,
            throttled: [0.0; THROTTLED_READS],
            usage_cores: [0.0; USAGE_READS],
            reads: 0,
            last: None,
            decided_at: now,
        }
    }

    /// The counters were read. The first read only says where they start.
    fn read(&mut self, read: Read, target: f64) {
        let Some(last) = self.last.replace(read) else {
            self.decided_at = read.at;
            return;
        };
        let used_core_ms = read.counters.usage_core_ms - last.counters.usage_core_ms;
        self.throttled[self.reads % THROTTLED_READS] =
            count(read.counters.nr_throttled - last.counters.nr_throttled);
        self.usage_cores[self.reads % USAGE_READS] =
            cores_used(used_core_ms, read.at.since(last.at));
        self.reads += 1;
        if self.has_shrunk && self.throttled_share() > TOLERANCE * target {
            self.undo_shrink(target);
        }
        if read.at.since(self.decided_at) >= DECISION_EVERY {
            self.decided_at = read.at;
            self.decide(target);
        }
    }

    fn undo_shrink(&mut self, target: f64) {
        self.margin += self.throttled_share() - target;
        self.limit_cores = 2.0 * self.before_cores - self.limit_cores;
        self.throttled.fill(0.0);
        self.has_shrunk = false;
    }

    fn decide(&mut self, target: f64) {
        let share = self.throttled_share();
        self.before_cores = self.limit_cores;
        self.margin = (self.margin + share - target).max(0.0);
        self.has_shrunk = false;
        if share > TOLERANCE * target {
            self.limit_cores *= 1.0 + (share - TOLERANCE * target);
        } else {
            let proposed = self.largest_usage() + self.margin * self.deviation();
            if proposed <= self.limit_cores * SHRINK_BELOW {
                self.limit_cores = proposed.max(self.limit_cores * SHRINK_MOST);
                self.has_shrunk = true;
            }
        }
        self.throttled.fill(0.0);
        self.limit_cores = self.limit_cores.max(FLOOR_CORES);
    }

    /// Throttled periods per read; since the history is emptied by filling it with zeros, a few
    /// reads after a decision can only say too little.
    fn throttled_share(&self) -> f64 {
        mean(&self.throttled)
    }

    fn largest_usage(&self) -> f64 {
        self.usage_cores.iter().copied().fold(0.0, f64::max)
    }

    /// The standard deviation of a sample, as the original has it.
    fn deviation(&self) -> f64 {
        let mean = mean(&self.usage_cores);
        let squares: f64 =
            self.usage_cores.iter().map(|usage| (usage - mean) * (usage - mean)).sum();
        libm::sqrt(squares / (length(&self.usage_cores) - 1.0))
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / length(values)
}

#[expect(clippy::cast_precision_loss, reason = "at most fifty values")]
fn length(values: &[f64]) -> f64 {
    values.len() as f64
}

#[expect(clippy::cast_precision_loss, reason = "fewer than 2^53 periods")]
fn count(periods: u64) -> f64 {
    periods as f64
}

#[cfg(test)]
mod tests {
    use super::super::hand::{Hand, Period};
    use super::*;

    /// A pod with a limit of 2 cores, and a target of 10 %. The first read only sets the origin.
    fn hand(target: u32) -> Hand<Autothrottle> {
        let make = |node: &NodeSpec, pods: &[PodSpec]| {
            Autothrottle::with_target(Ratio::from_percent(target), node, pods)
        };
        let mut hand = Hand::with_limits(&[Some(2000)], make);
        hand.pass(1, Period::using(1.0));
        hand
    }

    fn captain(hand: &Hand<Autothrottle>) -> &Captain {
        hand.policy.pods[0].as_ref().expect("it runs")
    }

    /// Fifty reads at `cores`, so that the deviation is zero, with the limit put back afterwards.
    fn settle(hand: &mut Hand<Autothrottle>, cores: f64, limit_cores: f64) {
        hand.pass(50, Period::using(cores));
        let captain = hand.policy.pods[0].as_mut().expect("it runs");
        captain.limit_cores = limit_cores;
        captain.before_cores = limit_cores;
        captain.margin = MARGIN_START;
        captain.has_shrunk = false;
    }

    #[test]
    fn growth_is_what_exceeds_three_times_the_target() {
        let mut hand = hand(10);
        // 5 of 10 periods throttled: 2 * (1 + 0.5 - 0.3).
        hand.pass(5, Period::throttled(2.0));
        hand.pass(5, Period::using(2.0));
        assert_eq!(hand.limit(0), Some(2400));
        assert!((captain(&hand).margin - 3.4).abs() < 1e-9);
    }

    #[test]
    fn throttling_up_to_three_times_the_target_changes_nothing() {
        let mut hand = hand(10);
        settle(&mut hand, 1.95, 2.0);
        hand.pass(3, Period::throttled(1.95));
        hand.pass(7, Period::using(1.95));
        assert_eq!(captain(&hand).limit_cores, 2.0);
    }

    #[test]
    fn with_a_target_of_zero_a_single_throttled_period_is_too_many() {
        let mut hand = hand(0);
        hand.pass(9, Period::using(2.0));
        hand.pass(1, Period::throttled(2.0));
        assert_eq!(hand.limit(0), Some(2200));
    }

    #[test]
    fn no_decision_is_made_within_a_second() {
        let mut hand = hand(10);
        hand.pass(9, Period::throttled(2.0));
        assert_eq!(hand.limit(0), Some(2000));
        hand.pass(1, Period::throttled(2.0));
        assert_eq!(hand.limit(0), Some(3400));
    }

    #[test]
    fn the_proposal_is_the_largest_usage_plus_the_margin_of_deviations() {
        let mut hand = hand(0);
        settle(&mut hand, 1.0, 2.0);
        // One read of 1.5 among fifty of 1.0: the deviation is 0.5 / sqrt(50).
        hand.pass(9, Period::using(1.0));
        hand.pass(1, Period::using(1.5));
        let expected = 1.5 + 3.0 * 0.5 / 50.0_f64.sqrt();
        assert!((captain(&hand).limit_cores - expected).abs() < 1e-9);
        assert_eq!(hand.limit(0), Some(1712));
    }

    #[test]
    fn a_shrink_of_less_than_a_tenth_is_not_made() {
        let mut hand = hand(0);
        settle(&mut hand, 1.0, 1.11);
        hand.pass(10, Period::using(1.0));
        assert_eq!(captain(&hand).limit_cores, 1.11);
        settle(&mut hand, 1.0, 1.12);
        hand.pass(10, Period::using(1.0));
        assert_eq!(hand.limit(0), Some(1000));
    }

    #[test]
    fn a_shrink_halves_at_most() {
        let mut hand = hand(10);
        settle(&mut hand, 0.2, 2.0);
        hand.pass(10, Period::using(0.2));
        assert_eq!(hand.limit(0), Some(1000));
        hand.pass(10, Period::using(0.2));
        assert_eq!(hand.limit(0), Some(500));
    }

    #[test]
    fn a_bad_shrink_is_undone_at_once_and_twofold() {
        let mut hand = hand(10);
        settle(&mut hand, 0.2, 2.0);
        hand.pass(10, Period::using(0.2));
        let margin = captain(&hand).margin;
        // Three reads of ten make 0.3, which is not yet more than three times the target.
        hand.pass(3, Period::throttled(1.0));
        assert_eq!(hand.limit(0), Some(1000));
        hand.pass(1, Period::throttled(1.0));
        assert_eq!(hand.limit(0), Some(3000), "2 * 2000 - 1000");
        assert!((captain(&hand).margin - (margin + 0.4 - 0.1)).abs() < 1e-9);
        assert!(!captain(&hand).has_shrunk, "and not twice");
        // What led to it is forgotten, so the next decision does not grow on top of it.
        hand.pass(6, Period::using(2.9));
        assert_eq!(hand.limit(0), Some(3000));
    }

    #[test]
    fn what_a_decision_has_seen_does_not_count_against_it() {
        let mut hand = hand(10);
        settle(&mut hand, 0.2, 2.0);
        hand.pass(7, Period::using(0.2));
        hand.pass(3, Period::throttled(0.2));
        assert_eq!(hand.limit(0), Some(1000));
        hand.pass(1, Period::throttled(0.2));
        assert_eq!(hand.limit(0), Some(1000), "one throttled read since the shrink");
    }

    #[test]
    fn the_margin_follows_the_gap_to_the_target_and_is_never_negative() {
        let mut hand = hand(30);
        hand.pass(50, Period::using(2.0));
        assert!((captain(&hand).margin - 1.5).abs() < 1e-9);
        hand.pass(100, Period::using(2.0));
        assert_eq!(captain(&hand).margin, 0.0);
    }

    #[test]
    fn an_idle_pod_keeps_a_hundredth_of_a_core() {
        let mut hand = hand(10);
        hand.pass(300, Period::using(0.0));
        assert_eq!(hand.limit(0), Some(10));
    }

    #[test]
    fn requests_and_weights_stay_and_no_limit_is_larger_than_the_node() {
        let mut hand = hand(0);
        let before = hand.setting(0);
        hand.pass(100, Period::throttled(2.0));
        let after = hand.setting(0);
        assert_eq!((before.request, before.weight), (after.request, after.weight));
        assert_eq!(hand.limit(0), Some(hand.capacity().get()));
    }

    #[test]
    fn every_target_has_its_policy() {
        let hand = hand(10);
        for (target, make) in AUTOTHROTTLE_TARGETS {
            let policy = make(hand.node(), hand.pods());
            assert_eq!(policy.actuation(), Actuation::Cgroup);
            assert!(target <= Ratio::from_percent(30));
        }
    }
}
