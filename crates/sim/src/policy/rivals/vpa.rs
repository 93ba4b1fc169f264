//! The Kubernetes vertical pod autoscaler: requests from a percentile of past usage, limits in
//! proportion.
//!
//! Every minute one usage sample per pod, the 15 s average that metrics-server holds then, goes
//! into a histogram that forgets half in 24 h, weighed by the request in cores (at least 0.1).
//! Target is P90, lower bound P50, upper bound P95, all with 15 % on top and at least 25m; a bound
//! is as wide as history is short: upper times `1 + 1/days`, lower times `(1 + 0.001/days)^-2`. A
//! request outside its bounds becomes the target, and so does one of a pod of 12 h or more that is
//! 10 % off; the limit keeps its declared ratio to the request. Throttling is not looked at.
//!
//! Simplified: one history per pod; recommender and updater run in the same instant; a request that
//! does not fit the node is put off, as the kubelet does, and tried again a minute later.
//!
//! Best fair setting: in place, so no evictions and no replica rules; limits move along
//! (`RequestsAndLimits`), since requests alone would never lift a cap.

use walras_core::units::{Millicores, Moment, Ratio, Span};

use super::{Room, cores_used, millicores_floor, to_cores, unmanaged_requests};
use crate::policy::{Actuation, Policy, Setting, View, weight_from_request};
use crate::scenario::{NodeSpec, PodSpec};

/// Width of the first bucket, in cores.
const FIRST_BUCKET_CORES: f64 = 0.01;
/// How much wider each bucket is than the one before.
const BUCKET_GROWTH: f64 = 0.05;
/// Enough for 1000 cores.
const BUCKETS: usize = 176;
/// The least weight of a sample.
const SAMPLE_WEIGHT_MIN: f64 = 0.1;
/// A day: the unit of a history's length, and the half-life of a sample.
const DAY: Span = Span::from_s(24 * 60 * 60);

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VpaSettings {
    /// Recommender and updater loop.
    pub every: Span,
    /// What one usage sample is the average of.
    pub metrics_window: Span,
    /// After this long, a sample counts half.
    pub half_life: Span,
    /// Percentile of usage that makes the target.
    pub target: Ratio,
    /// Percentile of usage that makes the lower bound.
    pub lower: Ratio,
    /// Percentile of usage that makes the upper bound.
    pub upper: Ratio,
    /// What is added to all three.
    pub margin: Ratio,
    /// The least that is recommended.
    pub least: Millicores,
    /// From this age on, a request within its bounds is moved too.
    pub old_age: Span,
    /// If it is this far off.
    pub old_age_change: Ratio,
}

/// The autoscaler of a node's pods.
#[derive(Clone, Debug)]
pub struct Vpa {
    settings: VpaSettings,
    capacity: Millicores,
    unmanaged: Millicores,
    /// By place in the scenario.
    pods: Vec<Option<Scaled>>,
    scraped_at: Moment,
    looked_at: Moment,
}

/// `vpa`: in place, requests and limits.
pub fn vpa(node: &NodeSpec, pods: &[PodSpec]) -> Box<dyn Policy> {
    Box::new(Vpa::new(VpaSettings::DEFAULT, node, pods))
}

/// A pod and its history.
#[derive(Clone, Debug)]
struct Scaled {
    in_force: Setting,
    /// As for the ratio.
    declared_request: Millicores,
    declared_limit: Option<Millicores>,
    started_at: Moment,
    /// CPU time at the last scrape, and the usage found there.
    scraped_core_ms: f64,
    usage_cores: Option<f64>,
    history: History,
}

/// Usage samples of one pod.
#[derive(Clone, Debug)]
struct History {
    weights: Box<[f64]>,
    span: Option<(Moment, Moment)>,
    samples: u32,
}

/// What the recommender says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recommendation {
    lower: Millicores,
    target: Millicores,
    upper: Millicores,
}

/// One usage sample.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Moment,
    usage_cores: f64,
    request: Millicores,
}

// === impl VpaSettings ===

impl VpaSettings {
    /// As published.
    pub const DEFAULT: Self = Self {
        every: Span::from_s(60),
        metrics_window: Span::from_s(15),
        half_life: DAY,
        target: Ratio::from_percent(90),
        lower: Ratio::from_percent(50),
        upper: Ratio::from_percent(95),
        margin: Ratio::from_percent(15),
        least: Millicores::new(25),
        old_age: Span::from_s(12 * 60 * 60),
        old_age_change: Ratio::from_percent(10),
    };
}

// === impl Vpa ===

impl Vpa {
    /// An autoscaler with these settings.
    #[must_use]
    pub fn new(settings: VpaSettings, node: &NodeSpec, pods: &[PodSpec]) -> Self {
        Self {
            settings,
            capacity: node.capacity,
            unmanaged: unmanaged_requests(pods),
            pods: vec![None; pods.len()],
            scraped_at: Moment::ORIGIN,
            looked_at: Moment::ORIGIN,
        }
    }

    /// What metrics-server does: the average since the last scrape. A pod that started in between
    /// has no full window yet.
    fn scrape(&mut self, now: Moment, view: &View<'_>) {
        let window = now.since(self.scraped_at);
        for (pod, counters) in self.pods.iter_mut().zip(view.counters) {
            let Some(pod) = pod else {
                continue;
            };
            let used_core_ms = counters.usage_core_ms - pod.scraped_core_ms;
            pod.scraped_core_ms = counters.usage_core_ms;
            pod.usage_cores =
                (pod.started_at <= self.scraped_at).then(|| cores_used(used_core_ms, window));
        }
        self.scraped_at = now;
    }
}

impl Policy for Vpa {
    fn pod_started(&mut self, place: usize, pod: &PodSpec, now: Moment) -> Setting {
        let setting = Setting::declared(pod);
        self.pods[place] = Some(Scaled {
            in_force: setting,
            declared_request: pod.request,
            declared_limit: pod.limit,
            started_at: now,
            scraped_core_ms: 0.0,
            usage_cores: None,
            history: History::default(),
        });
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
        if now.since(self.scraped_at) >= self.settings.metrics_window {
            self.scrape(now, view);
        }
        if now.since(self.looked_at) < self.settings.every {
            return;
        }
        self.looked_at = now;
        let requests = self.pods.iter().flatten().map(|pod| pod.in_force.request);
        let mut room = Room::of(self.capacity, requests, self.unmanaged);
        for (place, pod) in self.pods.iter_mut().enumerate() {
            let Some(pod) = pod else {
                continue;
            };
            let Some(usage_cores) = pod.usage_cores else {
                continue;
            };
            let sample = Sample { at: now, usage_cores, request: pod.in_force.request };
            pod.history.add(&sample, self.settings.half_life);
            let recommended = pod.history.recommend(&self.settings);
            let age = now.since(pod.started_at);
            let request = pod.in_force.request;
            if must_act(request, &recommended, age, &self.settings)
                && room.admits(request, recommended.target)
            {
                pod.resize(recommended.target, self.capacity);
                settings.push((place, pod.in_force));
            }
        }
    }

    fn actuation(&self) -> Actuation {
        Actuation::Api
    }
}

/// The updater's rule.
fn must_act(
    request: Millicores,
    recommended: &Recommendation,
    age: Span,
    settings: &VpaSettings,
) -> bool {
    let outside = request < recommended.lower || request > recommended.upper;
    let change = request.abs_diff(recommended.target).ratio_of(request.max(Millicores::new(1)));
    outside || (age >= settings.old_age && change >= settings.old_age_change)
}

// === impl Scaled ===

impl Scaled {
    fn resize(&mut self, target: Millicores, capacity: Millicores) {
        self.in_force.request = target;
        self.in_force.weight = weight_from_request(target);
        self.in_force.limit = self.declared_limit.map(|limit| {
            // A pod without a request has its limit as request, as Kubernetes fills it in.
            let scaled = if self.declared_request == Millicores::ZERO {
                target
            } else {
                limit.share_floor(target, self.declared_request)
            };
            scaled.min(capacity)
        });
    }
}

// === impl History ===

impl Default for History {
    fn default() -> Self {
        Self { weights: vec![0.0; BUCKETS].into_boxed_slice(), span: None, samples: 0 }
    }
}

impl History {
    fn add(&mut self, sample: &Sample, half_life: Span) {
        let (first, last) = self.span.unwrap_or((sample.at, sample.at));
        let half_lives = Ratio::of(sample.at.since(last).as_us(), half_life.as_us()).to_f64();
        let kept = libm::exp2(-half_lives);
        for weight in &mut self.weights {
            *weight *= kept;
        }
        self.weights[bucket(sample.usage_cores)] += to_cores(sample.request).max(SAMPLE_WEIGHT_MIN);
        self.span = Some((first, sample.at));
        self.samples += 1;
    }

    fn recommend(&self, settings: &VpaSettings) -> Recommendation {
        let days = self.days();
        let with_margin = |percentile: Ratio| {
            let usage = millicores_floor(self.percentile_cores(percentile));
            usage + usage.scale_floor(settings.margin)
        };
        let scaled = |amount: Millicores, factor: f64| millicores_floor(to_cores(amount) * factor);
        let lower = scaled(with_margin(settings.lower), lower_confidence(days));
        let upper = scaled(with_margin(settings.upper), upper_confidence(days));
        Recommendation {
            lower: lower.max(settings.least),
            target: with_margin(settings.target).max(settings.least),
            upper: upper.max(settings.least),
        }
    }

    /// The length of the history in days: from the first sample to the last, or as many days as a
    /// sample a minute would take, whichever is less.
    fn days(&self) -> f64 {
        let lasted = self.span.map_or(Span::ZERO, |(first, last)| last.since(first));
        let days = Ratio::of(lasted.as_us(), DAY.as_us()).to_f64();
        days.min(f64::from(self.samples) / (24.0 * 60.0))
    }

    /// The upper end of the bucket up to which this share of all weight lies.
    fn percentile_cores(&self, percentile: Ratio) -> f64 {
        let threshold = percentile.to_f64() * self.weights.iter().sum::<f64>();
        let last = self.weights.iter().rposition(|weight| *weight > 0.0).unwrap_or(0);
        let mut seen = 0.0;
        for (place, weight) in self.weights[..last].iter().enumerate() {
            seen += weight;
            if seen >= threshold {
                return bucket_end_cores(place);
            }
        }
        bucket_end_cores(last)
    }
}

fn upper_confidence(days: f64) -> f64 {
    1.0 + 1.0 / days
}

fn lower_confidence(days: f64) -> f64 {
    let shortness = 1.0 + 0.001 / days;
    1.0 / (shortness * shortness)
}

/// The bucket a usage falls into: bucket `n` begins at `0.01 * (1.05^n - 1) / 0.05`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
fn bucket(usage_cores: f64) -> usize {
    let widths = usage_cores.max(0.0) * BUCKET_GROWTH / FIRST_BUCKET_CORES + 1.0;
    let place = libm::log(widths) / libm::log(1.0 + BUCKET_GROWTH);
    (place as usize).min(BUCKETS - 1)
}

/// Where a bucket ends; the last one has no end, so its beginning is given.
#[expect(clippy::cast_precision_loss, reason = "there are fewer than 200 buckets")]
fn bucket_end_cores(place: usize) -> f64 {
    let next = (place + 1).min(BUCKETS - 1);
    FIRST_BUCKET_CORES * (libm::pow(1.0 + BUCKET_GROWTH, next as f64) - 1.0) / BUCKET_GROWTH
}

#[cfg(test)]
mod tests {
    use super::super::hand::{Hand, Period};
    use super::*;

    const MINUTE: u32 = 600;

    fn make(node: &NodeSpec, pods: &[PodSpec]) -> Vpa {
        Vpa::new(VpaSettings::DEFAULT, node, pods)
    }

    /// One sample a minute, all of the weight of one core.
    fn history(usages: &[f64]) -> History {
        let mut history = History::default();
        for (minute, usage) in (0..).zip(usages) {
            history.add(&sample(minute, *usage), VpaSettings::DEFAULT.half_life);
        }
        history
    }

    fn sample(minute: u64, usage_cores: f64) -> Sample {
        let at = Moment::from_ms(minute * 60_000);
        Sample { at, usage_cores, request: Millicores::from_cores(1) }
    }

    fn near(found: f64, expected: f64) -> bool {
        (found / expected - 1.0).abs() < 0.001
    }

    #[test]
    fn buckets_begin_at_a_hundredth_core_and_grow_by_a_twentieth() {
        assert_eq!([0.0, 0.009, 0.0101, 0.0204, 0.0206, 0.0314].map(bucket), [0, 0, 1, 1, 2, 2]);
        assert!(near(bucket_end_cores(0), 0.01));
        assert!(near(bucket_end_cores(1), 0.0205));
        assert!(near(bucket_end_cores(2), 0.031_525));
        assert_eq!(bucket(5000.0), BUCKETS - 1);
        assert!(bucket_end_cores(BUCKETS - 2) >= 1000.0, "the last bucket begins at 1000 cores");
        assert!(bucket_end_cores(BUCKETS - 3) < 1000.0);
        for usage in [0.05, 0.4, 1.0, 3.3, 64.0] {
            let end = bucket_end_cores(bucket(usage));
            assert!(end > usage && end <= usage * 1.05 + 0.01, "{usage}: {end}");
        }
    }

    #[test]
    fn percentiles_are_the_ends_of_buckets() {
        let usages: Vec<f64> = (0..100).map(|number| f64::from(number / 10 + 1)).collect();
        let history = history(&usages);
        for (percent, usage) in [(5, 1.0), (45, 5.0), (85, 9.0), (95, 10.0), (100, 10.0)] {
            let found = history.percentile_cores(Ratio::from_percent(percent));
            assert!(near(found, bucket_end_cores(bucket(usage))), "{percent}: {found}");
        }
    }

    #[test]
    fn lower_target_and_upper_are_p50_p90_and_p95_with_15_percent_on_top() {
        let usages = [vec![1.0; 40], vec![2.0; 45], vec![3.0; 8], vec![4.0; 7]].concat();
        let mut history = history(&usages);
        // Long enough for the confidence factors to be almost one.
        history.span = Some((Moment::ORIGIN, Moment::from_ms(u64::MAX / 2000)));
        history.samples = u32::MAX;
        let Recommendation { lower, target, upper } = history.recommend(&VpaSettings::DEFAULT);
        for (found, usage) in [(lower, 2.0), (target, 3.0), (upper, 4.0)] {
            let expected = bucket_end_cores(bucket(usage)) * 1.15;
            assert!((to_cores(found) - expected).abs() < 0.003, "{usage}: {found}");
        }
    }

    #[test]
    fn nothing_below_25_millicores_is_recommended() {
        let recommended = history(&[0.0; 60]).recommend(&VpaSettings::DEFAULT);
        assert_eq!(recommended.target, Millicores::new(25));
        assert_eq!(recommended.lower, Millicores::new(25));
    }

    #[test]
    fn confidence_widens_the_bounds_of_a_short_history() {
        let minutes = |minutes: f64| minutes / (24.0 * 60.0);
        assert!(near(upper_confidence(0.5), 3.0));
        assert!(near(upper_confidence(1.0), 2.0));
        assert!((upper_confidence(7.0) - 1.14).abs() < 0.005);
        assert!((lower_confidence(minutes(5.0)) - 0.6).abs() < 0.01);
        assert!((lower_confidence(minutes(30.0)) - 0.9).abs() < 0.015);
        assert!((lower_confidence(minutes(60.0)) - 0.95).abs() < 0.01);
    }

    #[test]
    fn a_history_is_as_long_as_its_samples_are_apart_but_one_a_minute_at_most() {
        let mut twelve_hours = History::default();
        for minute in 0..=720 {
            twelve_hours.add(&sample(minute, 1.0), DAY);
        }
        assert!((twelve_hours.days() - 0.5).abs() < 1e-3);
        let mut sparse = History::default();
        sparse.add(&sample(0, 1.0), DAY);
        sparse.add(&sample(720, 1.0), DAY);
        assert!((sparse.days() - 2.0 / 1440.0).abs() < 1e-6);
        assert_eq!(history(&[1.0]).days(), 0.0);
    }

    #[test]
    fn the_first_sample_alone_never_acts() {
        let recommended = history(&[8.0]).recommend(&VpaSettings::DEFAULT);
        assert_eq!(recommended.lower, VpaSettings::DEFAULT.least);
        let request = Millicores::from_cores(1);
        assert!(!must_act(request, &recommended, Span::ZERO, &VpaSettings::DEFAULT));
    }

    #[test]
    fn a_day_halves_what_a_sample_counts_and_the_request_weighs_it() {
        let mut history = History::default();
        history.add(&sample(0, 1.0), DAY);
        history.add(&sample(24 * 60, 5.0), DAY);
        assert!(near(history.weights[bucket(1.0)], 0.5));
        assert!(near(history.weights[bucket(5.0)], 1.0));
        let small = Sample { request: Millicores::new(20), ..sample(24 * 60, 9.0) };
        history.add(&small, DAY);
        assert!(near(history.weights[bucket(9.0)], 0.1), "but a tenth at least");
    }

    #[test]
    fn the_updater_acts_outside_the_bounds_or_on_old_pods_a_tenth_off() {
        let recommended = Recommendation {
            lower: Millicores::new(800),
            target: Millicores::new(1000),
            upper: Millicores::new(1500),
        };
        let acts = |request: u64, hours: u64| {
            let age = Span::from_s(hours * 3600);
            must_act(Millicores::new(request), &recommended, age, &VpaSettings::DEFAULT)
        };
        assert!(acts(799, 0) && acts(1501, 0));
        assert!(!acts(800, 0) && !acts(1500, 0) && !acts(1500, 11));
        assert!(acts(1500, 12) && acts(1112, 12) && acts(900, 12));
        assert!(!acts(1110, 12) && !acts(950, 12), "less than a tenth off");
    }

    #[test]
    fn a_low_request_is_raised_to_the_target_and_the_limit_keeps_its_ratio() {
        let mut hand = Hand::with_limits(&[Some(2000)], make);
        hand.pass(MINUTE, Period::throttled(2.0));
        assert_eq!(hand.request(0), 1000, "one sample is no history");
        hand.pass(MINUTE, Period::throttled(2.0));
        // P90 of 2.0 is the end of its bucket; P50 is the same, and at one minute counts 0.17.
        assert_eq!(hand.request(0), 1000);
        hand.pass(8 * MINUTE, Period::throttled(2.0));
        let end = millicores_floor(bucket_end_cores(bucket(2.0)));
        let target = end + end.scale_floor(Ratio::from_percent(15));
        assert_eq!(hand.setting(0).request, target);
        assert_eq!(hand.limit(0), Some(target.get() * 2));
        assert_eq!(hand.setting(0).weight, weight_from_request(target));
        assert_eq!(hand.resizes(), 1);
    }

    #[test]
    fn a_request_that_is_too_high_stays_for_long() {
        let mut hand = Hand::with_limits(&[Some(2000)], make);
        hand.pass(60 * MINUTE, Period::using(0.3));
        assert_eq!((hand.request(0), hand.resizes()), (1000, 0));
        // After 12 hours it is a tenth off, and that is enough.
        hand.pass(11 * 60 * MINUTE, Period::using(0.3));
        assert_eq!(hand.resizes(), 1);
        assert!(hand.request(0) < 400);
    }

    #[test]
    fn a_request_that_does_not_fit_the_node_is_put_off() {
        // Of 16 cores, 14 or 15 are requested; the first pod wants 1.4 more.
        for (pods, expected_resizes) in [(14, 1), (15, 0)] {
            let mut hand = Hand::with_limits(&vec![Some(2000); pods], make);
            let mut each = vec![Period::using(0.5); pods];
            each[0] = Period::throttled(2.0);
            hand.pass_each(10 * MINUTE, &each);
            assert_eq!(hand.resizes(), expected_resizes, "{pods} pods");
        }
    }

    #[test]
    fn a_sample_is_the_average_of_the_last_15_seconds() {
        let mut hand = Hand::with_limits(&[Some(4000)], make);
        hand.pass(450, Period::using(4.0));
        hand.pass(150, Period::using(0.5));
        let pod = hand.policy.pods[0].as_ref().expect("it runs");
        assert!(near(pod.usage_cores.expect("scraped"), 0.5));
        assert_eq!(pod.history.samples, 1);
    }
}
