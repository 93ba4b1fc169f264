//! CruiseKube: requests by node, what each pod steadily uses and one headroom that all share.
//!
//! Every fifteen minutes: demand of a window is use times `1 + share of it that was waited`; a
//! pod's base is the larger of its last two windows (the P75 of ten minutes), its spike the peak of
//! the last seven days less the base. The node's headroom is the largest single spike, and each pod
//! gets the part of it that its spike is of all spikes. A new pod gets the week's peak of this
//! hour. What does not fit is evicted. All times the setting, which the original does not have.

use walras_core::units::Millicores;

use super::{Seen, Sizer, Wish, millicores_nearest};
use crate::pack::workload::{DAY, HOUR, Town};

/// How often requests are worked out.
const EVERY: usize = 3;
/// Hours of a week.
const HOURS: usize = 168;
/// The smallest request.
const LEAST: Millicores = Millicores::new(1);

/// The optimizer of all nodes.
#[derive(Clone, Debug)]
pub struct CruiseKube {
    factor: f64,
    /// The last two windows of each pod, in cores.
    recent: Vec<[f64; 2]>,
    /// The peak of each workload's pods in each hour of the last week.
    peaks: Vec<[f64; HOURS]>,
    /// The largest of these, for as long as it stands.
    week: Vec<f64>,
    windows: usize,
}

// === impl CruiseKube ===

impl CruiseKube {
    /// Without a history.
    #[must_use]
    pub fn new(town: &Town, factor: f64) -> Self {
        let count = town.workloads.len();
        Self {
            factor,
            recent: vec![[0.0; 2]; town.pods.len()],
            peaks: vec![[0.0; HOURS]; count],
            week: vec![0.0; count],
            windows: 0,
        }
    }

    fn base(&self, pod: usize) -> f64 {
        self.recent[pod][0].max(self.recent[pod][1])
    }

    fn spike(&self, town: &Town, pod: usize) -> f64 {
        (self.week[town.pods[pod].workload] - self.base(pod)).max(0.0)
    }
}

impl Sizer for CruiseKube {
    fn at_arrival(&self, town: &Town, workload: usize) -> Millicores {
        if self.windows < DAY {
            return town.workloads[workload].declared;
        }
        let hour = self.windows / HOUR % HOURS;
        let peak = self.peaks[workload][hour];
        millicores_nearest(peak * self.factor).max(LEAST)
    }

    fn window_passed(&mut self, seen: &Seen<'_>) {
        let hour = self.windows / HOUR % HOURS;
        let is_new = self.windows.is_multiple_of(HOUR);
        if is_new {
            // The same hour of the week before is forgotten.
            self.peaks.iter_mut().for_each(|peaks| peaks[hour] = 0.0);
        }
        for (pod, used) in seen.uses.iter().enumerate().filter(|(_, used)| used.is_seen) {
            let demand = used.cores * (1.0 + used.stalled);
            self.recent[pod] = [self.recent[pod][1], demand];
            let peak = &mut self.peaks[seen.town.pods[pod].workload][hour];
            *peak = peak.max(demand);
        }
        self.windows += 1;
        if self.windows.is_multiple_of(EVERY) {
            for (week, peaks) in self.week.iter_mut().zip(&self.peaks) {
                *week = peaks.iter().copied().fold(0.0, f64::max);
            }
        }
    }

    fn decide(&mut self, seen: &Seen<'_>, wishes: &mut Vec<Wish>) {
        if !self.windows.is_multiple_of(EVERY) {
            return;
        }
        for (_, node) in seen.cluster.there() {
            let spikes = || node.pods.iter().map(|pod| self.spike(seen.town, *pod));
            let (headroom, all) = (spikes().fold(0.0, f64::max), spikes().sum::<f64>());
            for pod in &node.pods {
                let part = if all > 0.0 { self.spike(seen.town, *pod) / all } else { 0.0 };
                let wish = self.factor * (self.base(*pod) + headroom * part);
                let request = millicores_nearest(wish).max(LEAST);
                if request != seen.cluster.pods[*pod].request {
                    wishes.push(Wish { pod: *pod, request, or_move: true });
                }
            }
        }
    }
}
