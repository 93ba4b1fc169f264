//! Feeds a policy counters made by hand, period by period, and keeps what it sets.

use walras_core::units::{Millicores, Moment, Span};

use crate::load::{LoadSpec, Shape};
use crate::machine::{Counters, PERIOD_MS};
use crate::policy::{Policy, Setting, View};
use crate::scenario::{NodeSpec, PodSpec};

/// The request of every pod made here.
pub(super) const REQUEST: Millicores = Millicores::new(1000);
const CAPACITY: Millicores = Millicores::from_cores(16);

/// What a pod did in one period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Period {
    used_cores: f64,
    throttled: bool,
    throttled_cores: f64,
    stalled_share: f64,
}

/// A node whose pods do what the test says.
pub(super) struct Hand<P> {
    pub(super) policy: P,
    node: NodeSpec,
    pods: Vec<PodSpec>,
    counters: Vec<Counters>,
    settings: Vec<Setting>,
    resizes: usize,
    passed: u64,
}

impl Period {
    pub(super) fn using(cores: f64) -> Self {
        Self { used_cores: cores, ..Self::default() }
    }

    pub(super) fn throttled(cores: f64) -> Self {
        Self { throttled: true, ..Self::using(cores) }
    }

    /// Throttled, by so many cores that it would have used.
    pub(super) fn held_back(cores: f64, throttled_cores: f64) -> Self {
        Self { throttled_cores, ..Self::throttled(cores) }
    }

    pub(super) fn waiting(cores: f64, stalled_share: f64) -> Self {
        Self { stalled_share, ..Self::using(cores) }
    }
}

impl<P: Policy> Hand<P> {
    /// A node of 16 cores, and pods that request one core and have these limits, in millicores.
    pub(super) fn with_limits(
        limits: &[Option<u64>],
        make: impl Fn(&NodeSpec, &[PodSpec]) -> P,
    ) -> Self {
        Self::with_pods(limits.iter().map(|limit| pod(limit.map(Millicores::new))).collect(), make)
    }

    /// A node of 16 cores, and these pods.
    pub(super) fn with_pods(pods: Vec<PodSpec>, make: impl Fn(&NodeSpec, &[PodSpec]) -> P) -> Self {
        let node = NodeSpec::new(CAPACITY);
        let mut policy = make(&node, &pods);
        let start = |(place, pod)| policy.pod_started(place, pod, Moment::ORIGIN);
        let settings: Vec<Setting> = pods.iter().enumerate().map(start).collect();
        let counters = vec![Counters::default(); pods.len()];
        Self { policy, node, pods, counters, settings, resizes: 0, passed: 0 }
    }

    /// Lets periods pass in which every pod does the same.
    pub(super) fn pass(&mut self, periods: u32, each: Period) {
        self.pass_each(periods, &vec![each; self.pods.len()]);
    }

    /// Lets periods pass in which every pod does as it is told.
    pub(super) fn pass_each(&mut self, periods: u32, each: &[Period]) {
        for _ in 0..periods {
            for (counters, period) in self.counters.iter_mut().zip(each) {
                counters.usage_core_ms += period.used_cores * f64::from(PERIOD_MS);
                counters.throttled_core_ms += period.throttled_cores * f64::from(PERIOD_MS);
                counters.stalled_ms += period.stalled_share * f64::from(PERIOD_MS);
                counters.nr_periods += 1;
                counters.nr_throttled += u64::from(period.throttled);
            }
            self.passed += 1;
            let mut decided = Vec::new();
            let view = View {
                counters: &self.counters,
                running: &vec![true; self.pods.len()],
                latency_missed: &vec![false; self.pods.len()],
                idle: Span::ZERO,
                busy: Span::ZERO,
            };
            let now = Moment::from_ms(self.passed * u64::from(PERIOD_MS));
            self.policy.period_passed(now, &view, &mut decided);
            self.resizes += decided.len();
            for (place, setting) in decided {
                self.settings[place] = setting;
            }
        }
    }

    pub(super) fn setting(&self, place: usize) -> Setting {
        self.settings[place]
    }

    /// The limit in force, in millicores.
    pub(super) fn limit(&self, place: usize) -> Option<u64> {
        self.settings[place].limit.map(Millicores::get)
    }

    /// The request in force, in millicores.
    pub(super) fn request(&self, place: usize) -> u64 {
        self.settings[place].request.get()
    }

    /// How many settings were decided so far.
    pub(super) fn resizes(&self) -> usize {
        self.resizes
    }

    pub(super) fn capacity(&self) -> Millicores {
        self.node.capacity
    }

    pub(super) fn node(&self) -> &NodeSpec {
        &self.node
    }

    pub(super) fn pods(&self) -> &[PodSpec] {
        &self.pods
    }
}

/// A pod that requests one core.
pub(super) fn pod(limit: Option<Millicores>) -> PodSpec {
    let load = LoadSpec::Usage { cores: Shape::Constant { level: 0.0 }, threads: 1.0 };
    PodSpec { limit, ..PodSpec::new("pod", load, REQUEST) }
}
