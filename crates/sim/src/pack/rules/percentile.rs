//! A percentile of all that was seen, worked out once a day: what KRR recommends, carried out.
//!
//! P95 of the use of two weeks (here: of all history there is, at most), times the setting; KRR
//! itself adds nothing. Pods are changed in place once a day, and new ones by its webhook.

use walras_core::units::Millicores;

use super::histogram::Histogram;
use super::{Seen, Sizer, Wish, millicores_nearest};
use crate::pack::workload::{DAY, Town};

/// The percentile.
const SHARE: f64 = 0.95;
/// The least that is recommended.
const LEAST: Millicores = Millicores::new(10);
/// So many days are looked back.
const DAYS: usize = 14;

/// What is recommended.
#[derive(Clone, Debug)]
pub struct Percentile {
    factor: f64,
    /// Of each workload, one for each day, in turn.
    days: Vec<[Histogram; DAYS]>,
    recommended: Vec<Option<Millicores>>,
    windows: usize,
    is_due: bool,
}

// === impl Percentile ===

impl Percentile {
    /// Without a history.
    #[must_use]
    pub fn new(town: &Town, factor: f64) -> Self {
        let count = town.workloads.len();
        let days = vec![std::array::from_fn(|_| Histogram::new()); count];
        Self { factor, days, recommended: vec![None; count], windows: 0, is_due: false }
    }

    fn recommend(&mut self) {
        let mut all = Histogram::new();
        for (days, recommended) in self.days.iter().zip(&mut self.recommended) {
            all.clear();
            days.iter().for_each(|day| all.merge(day));
            let used = all.percentiles_cores([SHARE]);
            *recommended = used.map(|[used]| millicores_nearest(used * self.factor).max(LEAST));
        }
    }
}

impl Sizer for Percentile {
    fn at_arrival(&self, town: &Town, workload: usize) -> Millicores {
        self.recommended[workload].unwrap_or(town.workloads[workload].declared)
    }

    fn window_passed(&mut self, seen: &Seen<'_>) {
        let day = self.windows / DAY % DAYS;
        if self.windows.is_multiple_of(DAY) {
            self.days.iter_mut().for_each(|days| days[day].clear());
        }
        for (pod, used) in seen.uses.iter().enumerate().filter(|(_, used)| used.is_seen) {
            self.days[seen.town.pods[pod].workload][day].add(used.cores, 1.0);
        }
        self.windows += 1;
        self.is_due = self.windows.is_multiple_of(DAY);
        if self.is_due {
            self.recommend();
        }
    }

    fn decide(&mut self, seen: &Seen<'_>, wishes: &mut Vec<Wish>) {
        if !self.is_due {
            return;
        }
        for (place, pod) in seen.cluster.pods.iter().enumerate() {
            let recommended = self.recommended[seen.town.pods[place].workload];
            if let (Some(_), Some(request)) = (pod.node, recommended)
                && request != pod.request
            {
                wishes.push(Wish { pod: place, request, or_move: false });
            }
        }
    }
}
