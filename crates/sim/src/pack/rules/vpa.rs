//! The Kubernetes vertical pod autoscaler: requests in place, and by a webhook for new pods.
//!
//! The replicas of a workload share one history. A sample is what metrics-server tells, the mean of
//! fifteen seconds; all weigh the same, as since 2025, and half as much after a day. Target is P90,
//! lower bound P50 and upper bound P95, all times the margin (1.15 as published) and at least 25m,
//! and the bounds are wider while history is short. A request outside its bounds becomes the
//! target, and so does one of a pod of twelve hours and more that is a tenth off. What does not fit
//! is deferred, and after five minutes the pod is evicted, if its workload has two replicas.
//!
//! Simplified, in its favour: one sample a window and replica where it takes five; nothing is lost
//! by a restart; `RequestsOnly`, so that no limit holds anybody back.

use walras_core::units::Millicores;

use super::histogram::Histogram;
use super::{Seen, Sizer, Wish, cores, millicores_nearest};
use crate::pack::workload::{DAY, HOUR, Town};

/// The least that is recommended.
const LEAST: Millicores = Millicores::new(25);
/// From this age on, a request within its bounds is moved too.
const OLD_AGE: usize = 12 * HOUR;
/// If it is this far off.
const OLD_AGE_CHANGE: f64 = 0.1;
/// Workloads of fewer replicas are not evicted.
const REPLICAS_MIN: u32 = 2;

/// The autoscaler of a cluster.
#[derive(Clone, Debug)]
pub struct Vpa {
    /// What a recommendation is over the percentile.
    margin: f64,
    histories: Vec<Histogram>,
    recommended: Vec<Option<Recommendation>>,
    /// How many windows of history there are.
    windows: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recommendation {
    lower: Millicores,
    target: Millicores,
    upper: Millicores,
}

// === impl Vpa ===

impl Vpa {
    /// An autoscaler without a history.
    #[must_use]
    pub fn new(town: &Town, margin: f64) -> Self {
        let count = town.workloads.len();
        let histories = vec![Histogram::new(); count];
        Self { margin, histories, recommended: vec![None; count], windows: 0 }
    }

    #[expect(clippy::cast_precision_loss, reason = "a few thousand windows")]
    fn recommend(&self, workload: usize) -> Option<Recommendation> {
        let days = self.windows as f64 / DAY as f64;
        let [lower, target, upper] =
            self.histories[workload].percentiles_cores([0.5, 0.9, 0.95])?;
        let of =
            |used: f64, factor: f64| millicores_nearest(used * self.margin * factor).max(LEAST);
        let shortness = 1.0 + 0.001 / days;
        Some(Recommendation {
            lower: of(lower, 1.0 / (shortness * shortness)),
            target: of(target, 1.0),
            upper: of(upper, 1.0 + 1.0 / days),
        })
    }
}

impl Sizer for Vpa {
    fn at_arrival(&self, town: &Town, workload: usize) -> Millicores {
        let declared = town.workloads[workload].declared;
        self.recommended[workload].map_or(declared, |recommended| recommended.target)
    }

    #[expect(clippy::cast_precision_loss, reason = "a few thousand windows")]
    fn window_passed(&mut self, seen: &Seen<'_>) {
        let weight = libm::exp2(self.windows as f64 / DAY as f64);
        self.windows += 1;
        for (pod, used) in seen.uses.iter().enumerate().filter(|(_, used)| used.is_seen) {
            let workload = seen.town.pods[pod].workload;
            self.histories[workload].add(used.sampled_cores, weight);
        }
        for workload in 0..seen.town.workloads.len() {
            self.recommended[workload] = self.recommend(workload);
        }
    }

    fn decide(&mut self, seen: &Seen<'_>, wishes: &mut Vec<Wish>) {
        for (place, pod) in seen.cluster.pods.iter().enumerate() {
            let workload = seen.town.pods[place].workload;
            let (Some(_), Some(recommended)) = (pod.node, self.recommended[workload]) else {
                continue;
            };
            let age = seen.window - pod.since;
            if must_act(pod.request, recommended, age) {
                let or_move = seen.town.workloads[workload].replicas >= REPLICAS_MIN;
                wishes.push(Wish { pod: place, request: recommended.target, or_move });
            }
        }
    }
}

/// The updater's rule.
fn must_act(request: Millicores, recommended: Recommendation, age: usize) -> bool {
    let is_outside = request < recommended.lower || request > recommended.upper;
    let off = cores(request.abs_diff(recommended.target)) / cores(request).max(0.001);
    is_outside || (age >= OLD_AGE && off >= OLD_AGE_CHANGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_acts_outside_the_bounds_or_on_old_pods_a_tenth_off() {
        let milli = Millicores::new;
        let recommended =
            Recommendation { lower: milli(800), target: milli(1000), upper: milli(1500) };
        let acts = |request, hours| must_act(milli(request), recommended, hours * HOUR);
        assert!(acts(799, 0) && acts(1501, 0));
        assert!(!acts(800, 0) && !acts(1500, 11));
        assert!(acts(1500, 12) && acts(900, 12));
        assert!(!acts(1110, 12) && !acts(950, 12), "less than a tenth off");
    }
}
