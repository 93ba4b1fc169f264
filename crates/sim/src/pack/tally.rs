//! What a run came to: nodes, misses, slack, changes.

use super::workload::{Kind, Town};

/// Minutes of a window.
const MINUTES: f64 = 5.0;

/// What is counted while a run goes on.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    /// Of each pod: the minutes in which it was there, its right was broken, and it got less than
    /// it wanted.
    pub(super) pods: Vec<PodMinutes>,
    /// Nodes, summed over windows.
    pub(super) node_windows: usize,
    pub(super) nodes_most: usize,
    pub(super) windows: usize,
    /// Requests and use of pods that ran, summed over windows, in cores.
    pub(super) requested: f64,
    pub(super) used: f64,
    /// What batch work used of that.
    pub(super) batch: f64,
    pub(super) changes: u64,
    pub(super) refused: u64,
    pub(super) moves: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PodMinutes {
    pub(super) there: u32,
    pub(super) broken: u32,
    pub(super) missed: u32,
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PackFigures {
    /// How many nodes were there on average: what is paid for.
    pub nodes: f64,
    /// How many there were at most.
    pub nodes_most: f64,
    /// The share of all pods' minutes in which a right was broken: less than 95 % of the lesser of
    /// what was wanted and what was declared, in any second.
    pub broken: f64,
    /// The same share of the hundredth of the pods that were worst off.
    pub broken_worst: f64,
    /// The share of services' minutes in which they got less than 95 % of what they wanted, in any
    /// second.
    pub missed: f64,
    /// The same share of the hundredth that were worst off.
    pub missed_worst: f64,
    /// The share of minutes in which the rights of those were broken that rise on Mondays.
    pub risers_broken: f64,
    /// What part of requests was not used.
    pub slack: f64,
    /// Changes of requests by hour and pod.
    pub changes_per_pod_hour: f64,
    /// Pods that were moved, by hour and pod.
    pub moves_per_pod_hour: f64,
    /// Core-hours of batch work that were done.
    pub batch_core_hours: f64,
    /// What would do if pods were a liquid: use over what a node can give, on average.
    pub bound_nodes: f64,
}

// === impl Tally ===

impl Tally {
    pub(super) fn new(pods: usize) -> Self {
        Self {
            pods: vec![PodMinutes::default(); pods],
            node_windows: 0,
            nodes_most: 0,
            windows: 0,
            requested: 0.0,
            used: 0.0,
            batch: 0.0,
            changes: 0,
            refused: 0,
            moves: 0,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    pub(super) fn figures(&self, town: &Town) -> PackFigures {
        let windows = self.windows.max(1) as f64;
        let shares = |is_it: &dyn Fn(Kind) -> bool, of: &dyn Fn(&PodMinutes) -> u32| {
            let kind = |pod: usize| town.workload_of(pod).kind;
            let pods =
                self.pods.iter().enumerate().filter(|(pod, it)| it.there > 0 && is_it(kind(*pod)));
            let all: Vec<(u32, u32)> = pods.map(|(_, it)| (of(it), it.there)).collect();
            (share(&all), worst(all))
        };
        let (broken, broken_worst) = shares(&|_| true, &|it| it.broken);
        let (missed, missed_worst) = shares(&|kind| kind != Kind::Batch, &|it| it.missed);
        let (risers_broken, _) = shares(&|kind| kind == Kind::Riser, &|it| it.broken);
        let there: u64 = self.pods.iter().map(|it| u64::from(it.there)).sum();
        let pod_hours = (there as f64 / 60.0).max(1e-9);
        let capacity = super::rules::cores(town.shapes[0].allocatable());
        PackFigures {
            nodes: self.node_windows as f64 / windows,
            nodes_most: self.nodes_most as f64,
            broken,
            broken_worst,
            missed,
            missed_worst,
            risers_broken,
            slack: 1.0 - self.used / self.requested.max(1e-9),
            changes_per_pod_hour: self.changes as f64 / pod_hours,
            moves_per_pod_hour: self.moves as f64 / pod_hours,
            batch_core_hours: self.batch * MINUTES / 60.0,
            bound_nodes: self.used / windows / capacity,
        }
    }
}

/// The share of all minutes.
fn share(pods: &[(u32, u32)]) -> f64 {
    let sum =
        |of: &dyn Fn(&(u32, u32)) -> u32| pods.iter().map(|pod| f64::from(of(pod))).sum::<f64>();
    sum(&|pod| pod.0) / sum(&|pod| pod.1).max(1.0)
}

/// The share of the hundredth that is worst off, of at least one pod.
fn worst(mut pods: Vec<(u32, u32)>) -> f64 {
    let part = |pod: &(u32, u32)| f64::from(pod.0) / f64::from(pod.1.max(1));
    pods.sort_by(|one, other| part(other).total_cmp(&part(one)));
    pods.truncate(pods.len().div_ceil(100));
    share(&pods)
}
