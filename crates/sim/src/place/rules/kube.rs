//! kube-scheduler's scores by requests: `NodeResourcesFit` with the strategies `LeastAllocated` and
//! `MostAllocated`, and `NodeResourcesBalancedAllocation`, all with CPU and memory of weight 1.
//!
//! Whole numbers from 0 to 100, rounded down as the scheduler does. Of a node's score, the pod that
//! is to be placed is a part.

use super::{Rule, View};

/// Which nodes are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// The emptiest.
    Least,
    /// The fullest.
    Most,
}

/// `NodeResourcesFit` by how much is requested.
#[derive(Clone, Copy, Debug)]
pub struct Allocated(pub Preference);

/// `NodeResourcesBalancedAllocation`: CPU and memory requested to the same share.
#[derive(Clone, Copy, Debug, Default)]
pub struct Balanced;

/// What kube-scheduler does unless it is told otherwise: the emptiest and the balanced, added.
#[derive(Clone, Copy, Debug, Default)]
pub struct Both;

/// What would be requested of a node, and what it can allocate: CPU, then memory.
type Resources = [(u64, u64); 2];

impl Rule for Allocated {
    fn score(&mut self, view: &View<'_>, candidates: &[usize], scores: &mut Vec<f64>) {
        each(view, candidates, scores, |resources| allocated(self.0, resources));
    }
}

impl Rule for Balanced {
    fn score(&mut self, view: &View<'_>, candidates: &[usize], scores: &mut Vec<f64>) {
        each(view, candidates, scores, balanced);
    }
}

impl Rule for Both {
    fn score(&mut self, view: &View<'_>, candidates: &[usize], scores: &mut Vec<f64>) {
        each(view, candidates, scores, |resources| {
            allocated(Preference::Least, resources) + balanced(resources)
        });
    }
}

fn each(
    view: &View<'_>,
    candidates: &[usize],
    scores: &mut Vec<f64>,
    score: impl Fn(&Resources) -> u64,
) {
    scores.clear();
    for &place in candidates {
        let (node, shape) = (&view.cluster.nodes[place], &view.town.sites[place].shape);
        let cpu = (node.requested_milli + view.pod.cpu_milli, whole(shape.allocatable_milli()));
        let memory = (node.requested_mib + view.pod.memory_mib, whole(shape.allocatable_mib()));
        scores.push(number(score(&[cpu, memory])));
    }
}

fn allocated(preference: Preference, resources: &Resources) -> u64 {
    let one = |(requested, has): &(u64, u64)| {
        let counted = match preference {
            Preference::Least => has.saturating_sub(*requested),
            Preference::Most => (*requested).min(*has),
        };
        (counted * 100).checked_div(*has).unwrap_or(0)
    };
    resources.iter().map(one).sum::<u64>() / 2
}

fn balanced(resources: &Resources) -> u64 {
    let [cpu, memory] =
        resources.map(|(requested, has)| (number(requested) / number(has.max(1))).min(1.0));
    // Of two numbers, the standard deviation is half of what is between them.
    let deviation = (cpu - memory).abs() / 2.0;
    whole((1.0 - deviation) * 100.0)
}

#[expect(clippy::cast_precision_loss, reason = "requests are far below 2^53")]
fn number(value: u64) -> f64 {
    value as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
fn whole(value: f64) -> u64 {
    value.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_those_of_the_documented_formulas() {
        // 4000m and 8192 MiB, of which 3000m and 2048 MiB would be requested.
        let node = [(3000, 4000), (2048, 8192)];
        // Least: (1000 * 100 / 4000 + 6144 * 100 / 8192) / 2 = (25 + 75) / 2.
        assert_eq!(allocated(Preference::Least, &node), 50);
        // Most: (75 + 25) / 2.
        assert_eq!(allocated(Preference::Most, &node), 50);
        // Balanced: shares 0.75 and 0.25, deviation 0.25.
        assert_eq!(balanced(&node), 75);
        // Rounded down, each resource on its own: (33 + 66) / 2 = 49.
        assert_eq!(allocated(Preference::Least, &[(2, 3), (1, 3)]), 49);
        assert_eq!(allocated(Preference::Most, &[(2, 3), (1, 3)]), 49);
        // More than there is: nothing left, or all of it.
        assert_eq!(allocated(Preference::Least, &[(9, 3), (0, 3)]), 50);
        assert_eq!(allocated(Preference::Most, &[(9, 3), (0, 3)]), 50);
        assert_eq!(allocated(Preference::Least, &[(1, 0), (0, 3)]), 50);
        assert_eq!(balanced(&[(1000, 4000), (2048, 8192)]), 100);
        assert_eq!(balanced(&[(4000, 4000), (0, 8192)]), 50);
    }
}
