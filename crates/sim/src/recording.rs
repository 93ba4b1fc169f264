//! What a report is drawn from: how a few pods of a scenario's first node did over time.
//!
//! Called where a report is wanted, after the contest: the node is run once more under the same
//! policy, with a [`Recorder`] looking on. However long the run is, a series has at most
//! [`POINTS_MAX`] points, each the mean of as many seconds, and at most [`PODS_MAX`] pods are kept.

use crate::contest::Contestant;
use crate::load::LoadSpec;
use crate::policy::{AUTOTHROTTLE_TARGETS, Policy};
use crate::run::{PodMoment, Watcher, run_node};
use crate::scenario::{PodSpec, Scenario};

/// The most points of a series.
pub const POINTS_MAX: u32 = 720;
/// The most pods that are kept.
pub const PODS_MAX: usize = 6;

/// The node that is recorded.
const NODE: u32 = 0;

/// How the chosen pods of a node did under one policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// How many seconds a point stands for.
    pub step_s: u32,
    /// The pods, in the order in which they were chosen.
    pub pods: Vec<Series>,
    /// The price at each point; empty under a policy that has none.
    pub prices: Vec<f64>,
}

/// One pod over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Where the pod is in the scenario.
    pub place: usize,
    /// Its points, in the order of time.
    pub points: Vec<Point>,
}

/// A pod in a short stretch of time: means, but for what is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// What it was offered, in cores.
    pub offered_cores: f64,
    /// What it used, in cores.
    pub used_cores: f64,
    /// The limit, in cores; none where there was none all the time.
    pub limit_cores: Option<f64>,
    /// The request, in cores.
    pub request_cores: f64,
    /// How many periods it was throttled in.
    pub throttled_periods: u64,
}

/// Looks on while a node runs, and keeps what a report needs.
#[derive(Clone, Debug)]
pub struct Recorder {
    recording: Recording,
    /// What was seen of each chosen pod since its last point.
    sums: Vec<Sum>,
    seconds: u32,
    price_sum: f64,
    priced_seconds: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    offered_core_s: f64,
    used_core_s: f64,
    limit_core_s: f64,
    limited_seconds: u32,
    request_core_s: f64,
    throttled_before: u64,
    throttled_now: u64,
}

/// Runs the scenario's first node under a contestant, and keeps how the pods at `places` did. A
/// contestant with a setting is run with the one that the contest found for it.
#[must_use]
pub fn record(
    contestant: &Contestant,
    setting: Option<&str>,
    scenario: &Scenario,
    places: &[usize],
) -> Recording {
    let mut policy = policy_with(contestant, setting, scenario);
    let mut recorder = Recorder::new(scenario.duration_s, places);
    run_node(scenario, NODE, &mut *policy, &mut recorder);
    recorder.end()
}

/// The places of the pods that are worth looking at: one of each kind, services first, then the
/// last of each kind, which is the one that came last.
#[must_use]
pub fn chosen(scenario: &Scenario) -> Vec<usize> {
    let (services, others): (Vec<usize>, Vec<usize>) =
        (0..scenario.pods.len()).partition(|&place| is_service(&scenario.pods[place]));
    let mut kinds: Vec<(usize, usize)> = Vec::new();
    for place in services.into_iter().chain(others) {
        let pod = &scenario.pods[place];
        let known = kinds.iter().position(|(first, _)| are_alike(&scenario.pods[*first], pod));
        match known {
            Some(kind) => kinds[kind].1 = place,
            None if kinds.len() < PODS_MAX => kinds.push((place, place)),
            None => {}
        }
    }
    let firsts = kinds.iter().map(|(first, _)| *first);
    let lasts = kinds.iter().filter(|(first, last)| first != last).map(|(_, last)| *last);
    firsts.chain(lasts).take(PODS_MAX).collect()
}

fn is_service(pod: &PodSpec) -> bool {
    match pod.load {
        LoadSpec::Service { .. } => true,
        LoadSpec::Batch { .. } | LoadSpec::Usage { .. } => false,
    }
}

fn are_alike(one: &PodSpec, other: &PodSpec) -> bool {
    let declared = |pod: &PodSpec| (pod.request, pod.limit, pod.weight);
    declared(one) == declared(other) && one.startup == other.startup && one.load == other.load
}

fn policy_with(
    contestant: &Contestant,
    setting: Option<&str>,
    scenario: &Scenario,
) -> Box<dyn Policy> {
    let found = AUTOTHROTTLE_TARGETS
        .iter()
        .find(|(target, _)| setting == Some(format!("target {target}").as_str()));
    match found {
        Some((_, factory)) => factory(&scenario.node, &scenario.pods),
        None => contestant.policy(scenario, NODE),
    }
}

// === impl Recorder ===

impl Recorder {
    /// Nothing seen yet of a run of `duration_s`.
    #[must_use]
    pub fn new(duration_s: u32, places: &[usize]) -> Self {
        let pods = places.iter().map(|&place| Series { place, points: Vec::new() });
        Self {
            recording: Recording {
                step_s: duration_s.div_ceil(POINTS_MAX).max(1),
                pods: pods.collect(),
                prices: Vec::new(),
            },
            sums: vec![Sum::default(); places.len()],
            seconds: 0,
            price_sum: 0.0,
            priced_seconds: 0,
        }
    }

    /// What was recorded.
    #[must_use]
    pub fn end(mut self) -> Recording {
        self.close_point();
        self.recording
    }

    /// Makes a point of what was seen since the last one, if anything was.
    fn close_point(&mut self) {
        if self.seconds == 0 {
            return;
        }
        for (series, sum) in self.recording.pods.iter_mut().zip(&mut self.sums) {
            series.points.push(sum.point(self.seconds));
            *sum = Sum {
                throttled_before: sum.throttled_now,
                throttled_now: sum.throttled_now,
                ..Sum::default()
            };
        }
        if self.priced_seconds > 0 {
            self.recording.prices.push(self.price_sum / f64::from(self.priced_seconds));
        }
        (self.seconds, self.price_sum, self.priced_seconds) = (0, 0.0, 0);
    }
}

impl Watcher for Recorder {
    fn second_passed(&mut self, _: u32, pods: &[PodMoment], price: Option<f64>) {
        for (series, sum) in self.recording.pods.iter().zip(&mut self.sums) {
            if let Some(moment) = pods.get(series.place) {
                sum.add(moment);
            }
        }
        if let Some(price) = price {
            self.price_sum += price;
            self.priced_seconds += 1;
        }
        self.seconds += 1;
        if self.seconds == self.recording.step_s {
            self.close_point();
        }
    }
}

// === impl Sum ===

impl Sum {
    fn add(&mut self, moment: &PodMoment) {
        self.offered_core_s += moment.offered_cores;
        self.used_core_s += moment.used_cores;
        self.request_core_s += moment.request_cores;
        self.throttled_now = moment.nr_throttled;
        if let Some(limit_cores) = moment.limit_cores {
            self.limit_core_s += limit_cores;
            self.limited_seconds += 1;
        }
    }

    fn point(&self, seconds: u32) -> Point {
        let seconds = f64::from(seconds);
        let limited = f64::from(self.limited_seconds);
        Point {
            offered_cores: self.offered_core_s / seconds,
            used_cores: self.used_core_s / seconds,
            limit_cores: (limited > 0.0).then(|| self.limit_core_s / limited),
            request_cores: self.request_core_s / seconds,
            throttled_periods: self.throttled_now.saturating_sub(self.throttled_before),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::{self, builtin};

    fn moment(used_cores: f64, limit_cores: Option<f64>, nr_throttled: u64) -> PodMoment {
        let (offered_cores, request_cores) = (2.0 * used_cores, 0.5);
        PodMoment { offered_cores, used_cores, limit_cores, request_cores, nr_throttled }
    }

    #[test]
    fn a_point_is_the_mean_of_its_seconds_and_counts_its_own_throttling() {
        // 1441 seconds are one too many for two to a point.
        let mut recorder = Recorder::new(1441, &[1]);
        let other = moment(9.0, None, 99);
        for (used, limit, throttled) in
            [(1.0, Some(2.0), 1), (2.0, None, 4), (3.0, None, 4), (1.0, None, 5), (2.0, None, 5)]
        {
            recorder.second_passed(0, &[other, moment(used, limit, throttled)], None);
        }
        let recording = recorder.end();
        assert_eq!(recording.step_s, 3);
        let [pod] = recording.pods.as_slice() else { panic!("one pod was chosen") };
        let told = |point: &Point| {
            let Point { used_cores, offered_cores, limit_cores, throttled_periods, .. } = point;
            format!("{used_cores} {offered_cores} {limit_cores:?} {throttled_periods}")
        };
        let points: Vec<String> = pod.points.iter().map(told).collect();
        assert_eq!(points, ["2 4 Some(2.0) 4", "1.5 3 None 1"]);
        assert!(recording.prices.is_empty());
    }

    #[test]
    fn a_price_is_kept_where_there_is_one() {
        let mut recorder = Recorder::new(1440, &[]);
        for price in [Some(1.0), Some(2.0), Some(0.5), None] {
            recorder.second_passed(0, &[], price);
        }
        assert_eq!(recorder.end().prices, [1.5, 0.5]);
    }

    #[test]
    fn a_long_run_has_no_more_points_than_a_short_one() {
        for duration_s in [1, 719, 720, 721, 3600, 100_000] {
            let mut recorder = Recorder::new(duration_s, &[0]);
            for second in 0..duration_s {
                recorder.second_passed(second, &[moment(1.0, None, 0)], Some(1.0));
            }
            let recording = recorder.end();
            let points = recording.pods[0].points.len();
            assert!((1..=720).contains(&points), "{duration_s}: {points}");
            assert_eq!(recording.prices.len(), points);
        }
    }

    fn chosen_of(name: &str) -> Vec<String> {
        let found = builtin().iter().find(|builtin| builtin.name == name).expect("there is one");
        let scenario = found.scenario();
        chosen(&scenario).iter().map(|&place| scenario.pods[place].name.clone()).collect()
    }

    #[test]
    fn pods_of_every_kind_are_chosen_and_services_come_first() {
        let first = ["gold-1", "bronze-1", "batch-1"];
        let last = ["gold-4", "bronze-4", "batch-3"];
        assert_eq!(chosen_of("tenants"), [first, last].concat());
        assert_eq!(chosen_of("steady").len(), 1);
    }

    #[test]
    fn the_setting_that_was_found_is_the_one_that_is_recorded() {
        let text = "name = 'x'\nabout = 'x'\nminutes = 1\ncores = 4\n[[pod]]\nname = 'web'\n\
                    request = '1'\nlimit = '2'\n[pod.service]\nrate = { constant = 150 }\n\
                    cost_ms = 10\n";
        let read = |_: &Path| Err(std::io::Error::other("nothing is read"));
        let scenario = scenario::parse(text.as_bytes(), Path::new("x"), &read).expect("fine");
        let contestant = Contestant::named("autothrottle").expect("there is one");
        let mean_limit = |setting: &str| {
            let recording = record(contestant, Some(setting), &scenario, &[0]);
            let limits = recording.pods[0].points.iter().filter_map(|point| point.limit_cores);
            limits.sum::<f64>()
        };
        assert!(mean_limit("target 0.02") > mean_limit("target 0.3"));
    }
}
