//! CruiseKube: no CPU limits, and requests by node: what each pod steadily uses, plus one headroom
//! that all of them share.
//!
//! Demand of a minute is usage times `1 + share of time that some thread waited` (PSI). A pod's
//! base is the P75 of its last 10 minutes, its spike is its peak of the last 60 minutes minus the
//! base. The node's headroom is the largest single spike; each pod gets the part of it that its
//! spike is of all spikes. So requests add up to all bases plus one headroom. Requests are 0.001 to
//! 20 cores and move when they change by 0.001 core.
//!
//! Simplified: what does not fit is put off, as the kubelet does, where the original would evict;
//! no cordon of a loaded node. The peak of this hour in the last week is unknown, so the last hour
//! stands for it, and a new pod starts with its declared request.
//!
//! Best fair setting: a round every minute (its documents show 5), from the first full minute on.

use std::collections::VecDeque;

use walras_core::units::{Millicores, Moment, Ratio, Span};

use super::{Room, cores_used, millicores_nearest, milliseconds, unmanaged_requests};
use crate::machine::Counters;
use crate::policy::{Actuation, Policy, Setting, View, weight_from_request};
use crate::scenario::{NodeSpec, PodSpec};

/// Demand is measured over this long.
const MINUTE: Span = Span::from_s(60);
/// Minutes that make the base.
const BASE_MINUTES: usize = 10;
/// Minutes that make the peak.
const PEAK_MINUTES: usize = 60;
/// The smallest request.
const LEAST: Millicores = Millicores::new(1);
/// The largest request.
const MOST: Millicores = Millicores::from_cores(20);

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CruiseKubeSettings {
    /// How often requests are worked out; not more often than once a minute makes a difference.
    pub every: Span,
    /// Which percentile of the last 10 minutes is the base.
    pub base: Ratio,
}

/// The optimizer of one node.
#[derive(Clone, Debug)]
pub struct CruiseKube {
    settings: CruiseKubeSettings,
    capacity: Millicores,
    unmanaged: Millicores,
    /// By place in the scenario.
    pods: Vec<Option<Optimized>>,
    looked_at: Moment,
}

/// `cruisekube`: no limits, shared headroom.
pub fn cruisekube(node: &NodeSpec, pods: &[PodSpec]) -> Box<dyn Policy> {
    Box::new(CruiseKube::new(CruiseKubeSettings::DEFAULT, node, pods))
}

/// A pod and its last hour.
#[derive(Clone, Debug)]
struct Optimized {
    in_force: Setting,
    read_at: Moment,
    read: Counters,
    /// Demand of each minute, the oldest first.
    demand_cores: VecDeque<f64>,
}

/// What a pod needs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Need {
    base_cores: f64,
    spike_cores: f64,
}

// === impl CruiseKubeSettings ===

impl CruiseKubeSettings {
    /// As published, at its quickest.
    pub const DEFAULT: Self = Self { every: MINUTE, base: Ratio::from_percent(75) };
}

// === impl CruiseKube ===

impl CruiseKube {
    /// An optimizer with these settings.
    #[must_use]
    pub fn new(settings: CruiseKubeSettings, node: &NodeSpec, pods: &[PodSpec]) -> Self {
        Self {
            settings,
            capacity: node.capacity,
            unmanaged: unmanaged_requests(pods),
            pods: vec![None; pods.len()],
            looked_at: Moment::ORIGIN,
        }
    }

    /// Moves requests to what they should be; those that shrink first, since they make room.
    fn optimize(&mut self, settings: &mut Vec<(usize, Setting)>) {
        let wishes = self.wishes();
        let in_force = |pod: &Option<Optimized>| pod.as_ref().map(|pod| pod.in_force.request);
        let mut room =
            Room::of(self.capacity, self.pods.iter().filter_map(in_force), self.unmanaged);
        for shrinking in [true, false] {
            for (place, (pod, wish)) in self.pods.iter_mut().zip(&wishes).enumerate() {
                let (Some(pod), Some(wish)) = (pod, *wish) else {
                    continue;
                };
                let request = pod.in_force.request;
                let due = if shrinking { wish < request } else { wish > request };
                if due && room.admits(request, wish) {
                    pod.in_force.request = wish;
                    pod.in_force.weight = weight_from_request(wish);
                    settings.push((place, pod.in_force));
                }
            }
        }
    }

    /// The request each pod should have: its base, and its part of the one headroom.
    fn wishes(&self) -> Vec<Option<Millicores>> {
        let base = self.settings.base;
        let needs: Vec<Option<Need>> =
            self.pods.iter().map(|pod| pod.as_ref()?.need(base)).collect();
        let spikes = || needs.iter().flatten().map(|need| need.spike_cores);
        let headroom_cores = spikes().fold(0.0, f64::max);
        let all_spikes_cores: f64 = spikes().sum();
        let wish = |need: &Need| {
            let part =
                if all_spikes_cores > 0.0 { need.spike_cores / all_spikes_cores } else { 0.0 };
            millicores_nearest(need.base_cores + headroom_cores * part).clamp(LEAST, MOST)
        };
        needs.iter().map(|need| need.as_ref().map(wish)).collect()
    }
}

impl Policy for CruiseKube {
    fn pod_started(&mut self, place: usize, pod: &PodSpec, now: Moment) -> Setting {
        let setting = Setting { limit: None, ..Setting::declared(pod) };
        self.pods[place] = Some(Optimized {
            in_force: setting,
            read_at: now,
            read: Counters::default(),
            demand_cores: VecDeque::with_capacity(PEAK_MINUTES),
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
        for (pod, counters) in self.pods.iter_mut().zip(view.counters) {
            if let Some(pod) = pod {
                pod.minute_passed(counters, now);
            }
        }
        if now.since(self.looked_at) >= self.settings.every {
            self.looked_at = now;
            self.optimize(settings);
        }
    }

    fn actuation(&self) -> Actuation {
        Actuation::Api
    }
}

// === impl Optimized ===

impl Optimized {
    /// Keeps the demand of the minute, if one has passed.
    fn minute_passed(&mut self, counters: &Counters, now: Moment) {
        let window = now.since(self.read_at);
        if window < MINUTE {
            return;
        }
        let usage_cores = cores_used(counters.usage_core_ms - self.read.usage_core_ms, window);
        let waited_share = (counters.stalled_ms - self.read.stalled_ms) / milliseconds(window);
        if self.demand_cores.len() == PEAK_MINUTES {
            self.demand_cores.pop_front();
        }
        self.demand_cores.push_back(usage_cores * (1.0 + waited_share));
        self.read_at = now;
        self.read = *counters;
    }

    fn need(&self, base: Ratio) -> Option<Need> {
        let mut recent: Vec<f64> =
            self.demand_cores.iter().rev().take(BASE_MINUTES).copied().collect();
        recent.sort_by(f64::total_cmp);
        let base_cores = quantile(&recent, base)?;
        let peak_cores = self.demand_cores.iter().copied().fold(base_cores, f64::max);
        Some(Need { base_cores, spike_cores: peak_cores - base_cores })
    }
}

/// The quantile of values in ascending order, in a straight line between the two next to it.
#[expect(clippy::cast_precision_loss, reason = "at most ten values")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the values")]
fn quantile(ordered: &[f64], share: Ratio) -> Option<f64> {
    let last = ordered.len().checked_sub(1)?;
    let rank = share.at_most_one().to_f64() * last as f64;
    let below = (rank as usize).min(last);
    let above = (below + 1).min(last);
    Some(ordered[below] + (ordered[above] - ordered[below]) * (rank - below as f64))
}

#[cfg(test)]
mod tests {
    use super::super::hand::{Hand, Period};
    use super::*;

    const MINUTE_PERIODS: u32 = 600;

    fn make(node: &NodeSpec, pods: &[PodSpec]) -> CruiseKube {
        CruiseKube::new(CruiseKubeSettings::DEFAULT, node, pods)
    }

    /// Lets minutes pass in which each pod uses so many cores.
    fn minutes(hand: &mut Hand<CruiseKube>, minutes: u32, cores: &[f64]) {
        let each: Vec<Period> = cores.iter().map(|cores| Period::using(*cores)).collect();
        hand.pass_each(minutes * MINUTE_PERIODS, &each);
    }

    #[test]
    fn limits_are_gone_from_the_start_and_requests_as_declared() {
        let mut hand = Hand::with_limits(&[Some(2000)], make);
        assert_eq!((hand.limit(0), hand.request(0)), (None, 1000));
        hand.pass(MINUTE_PERIODS - 1, Period::using(0.5));
        assert_eq!(hand.request(0), 1000);
        hand.pass(1, Period::using(0.5));
        assert_eq!(hand.request(0), 500);
        assert_eq!(hand.setting(0).weight, weight_from_request(Millicores::new(500)));
    }

    #[test]
    fn the_base_is_the_third_quartile_of_ten_minutes() {
        let mut hand = Hand::with_limits(&[Some(2000)], make);
        minutes(&mut hand, 30, &[0.2]);
        for tenths in 1..=10 {
            minutes(&mut hand, 1, &[f64::from(tenths) / 10.0]);
        }
        let pod = hand.policy.pods[0].as_ref().expect("it runs");
        let need = pod.need(Ratio::from_percent(75)).expect("there were minutes");
        // In a straight line between 0.7 and 0.8.
        assert!((need.base_cores - 0.775).abs() < 1e-9, "{need:?}");
        assert!((need.spike_cores - 0.225).abs() < 1e-9, "{need:?}");
        // The only pod has the headroom for itself.
        assert_eq!(hand.request(0), 1000);
    }

    #[test]
    fn one_headroom_is_shared_by_spikes() {
        let mut hand = Hand::with_limits(&[Some(2000), Some(2000), Some(2000)], make);
        minutes(&mut hand, 1, &[1.5, 0.8, 0.6]);
        minutes(&mut hand, 20, &[0.5, 0.5, 0.6]);
        // Bases 0.5, 0.5 and 0.6; spikes 1.0, 0.3 and none; the headroom is 1.0.
        let requests = [0, 1, 2].map(|place| hand.request(place));
        assert_eq!(requests, [1269, 731, 600]);
        assert_eq!(requests.iter().sum::<u64>(), 500 + 500 + 600 + 1000);
    }

    #[test]
    fn a_peak_is_forgotten_after_an_hour() {
        let mut hand = Hand::with_limits(&[Some(2000)], make);
        minutes(&mut hand, 1, &[3.0]);
        minutes(&mut hand, 59, &[0.5]);
        assert_eq!(hand.request(0), 3000);
        minutes(&mut hand, 1, &[0.5]);
        assert_eq!(hand.request(0), 500);
    }

    #[test]
    fn waiting_counts_as_demand() {
        let mut hand = Hand::with_limits(&[Some(2000)], make);
        hand.pass(MINUTE_PERIODS, Period::waiting(0.5, 0.2));
        assert_eq!(hand.request(0), 600);
    }

    #[test]
    fn a_request_has_a_floor_and_a_ceiling_and_rests_where_it_is() {
        let mut hand = Hand::with_limits(&[Some(2000)], make);
        minutes(&mut hand, 5, &[0.0]);
        assert_eq!((hand.request(0), hand.resizes()), (1, 1));
        minutes(&mut hand, 5, &[30.0]);
        assert_eq!(hand.policy.wishes(), [Some(MOST)]);
    }

    #[test]
    fn what_does_not_fit_waits_for_room() {
        let mut hand = Hand::with_limits(&[Some(2000), Some(2000)], make);
        minutes(&mut hand, 1, &[10.0, 7.0]);
        // The first one fits beside the declared request of the second; the second does not.
        assert_eq!([hand.request(0), hand.request(1)], [10_000, 1000]);
        minutes(&mut hand, 70, &[8.0, 7.0]);
        assert_eq!([hand.request(0), hand.request(1)], [8000, 7000]);
    }

    #[test]
    fn what_shrinks_makes_room_in_the_same_round() {
        let mut hand = Hand::with_limits(&[Some(2000), Some(2000)], make);
        minutes(&mut hand, 1, &[1.0, 10.0]);
        minutes(&mut hand, 59, &[7.0, 8.0]);
        assert_eq!(hand.request(1), 10_000);
        assert!(hand.request(0) < 7000);
        // The peak of the second one is an hour old now.
        minutes(&mut hand, 1, &[7.0, 8.0]);
        assert_eq!([hand.request(0), hand.request(1)], [7000, 8000]);
    }
}
