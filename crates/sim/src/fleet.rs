//! Many nodes of one scenario, on several threads, with the same result whatever their number.
//!
//! Threads take nodes one by one; what they find is added up in the order of the nodes, so that not
//! even the last bit of a sum depends on which thread was faster. A node's details are dropped as
//! soon as it is summed up, and its sums once it is added: memory does not grow with the number of
//! nodes, nor with time.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::measure::{PodTally, Summary};
use crate::policy::Policy;
use crate::run::{Unwatched, run_node};
use crate::scenario::Scenario;
use crate::target::with_targets;

/// Makes the policy of one node.
pub type MakePolicy<'a> = dyn Fn(&Scenario, u32) -> Box<dyn Policy> + Sync + 'a;

/// What became of all nodes.
#[derive(Debug, Default)]
pub struct FleetResult {
    /// All of them, added up.
    pub summary: Summary,
    /// The pods of the first node, to look at closely.
    pub first_node: Vec<PodTally>,
}

/// What one node came to.
struct NodeResult {
    summary: Summary,
    pods: Option<Vec<PodTally>>,
}

/// A sum in the making.
#[derive(Default)]
struct Sum {
    fleet: FleetResult,
    /// The node to be added next.
    next: u32,
    /// Nodes that were done before an earlier one was.
    early: BTreeMap<u32, NodeResult>,
}

/// Runs every node of the scenario; `node_done` is called after each.
#[must_use]
pub fn run_fleet(
    scenario: &Scenario,
    make_policy: &MakePolicy<'_>,
    threads: NonZeroUsize,
    node_done: &(dyn Fn() + Sync),
) -> FleetResult {
    let scenario = &with_targets(scenario, threads);
    let next = AtomicU32::new(0);
    let sum = Mutex::new(Sum::default());
    thread::scope(|scope| {
        for _ in 0..threads.get() {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= scenario.nodes {
                        return;
                    }
                    let result = run_one(scenario, number, make_policy);
                    sum.lock().expect("no thread panics while it holds this").add(number, result);
                    node_done();
                }
            });
        }
    });
    sum.into_inner().expect("all threads are done").fleet
}

fn run_one(scenario: &Scenario, number: u32, make_policy: &MakePolicy<'_>) -> NodeResult {
    let mut policy = make_policy(scenario, number);
    let pods = run_node(scenario, number, &mut *policy, &mut Unwatched);
    NodeResult { summary: Summary::of(&pods), pods: (number == 0).then_some(pods) }
}

// === impl Sum ===

impl Sum {
    /// Adds a node, or keeps it until all before it were added.
    fn add(&mut self, number: u32, result: NodeResult) {
        self.early.insert(number, result);
        while let Some(result) = self.early.remove(&self.next) {
            self.next += 1;
            self.fleet.summary.add(&result.summary);
            if let Some(pods) = result.pods {
                self.fleet.first_node = pods;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::Contestant;
    use crate::scenario::builtin;

    fn check(policy: &str) {
        let found = builtin().iter().find(|builtin| builtin.name == "fleet").expect("built in");
        let mut scenario = found.scenario();
        scenario.nodes = 5;
        scenario.duration_s = 20;
        let contestant = Contestant::named(policy).expect("known");
        let told = |threads| {
            let make = |scenario: &Scenario, number| contestant.policy(scenario, number);
            let threads = NonZeroUsize::new(threads).expect("at least one");
            // Every bit of every sum is in there.
            format!("{:?}", run_fleet(&scenario, &make, threads, &|| {}))
        };
        let one = told(1);
        assert_eq!(told(2), one, "{policy}");
        assert_eq!(told(9), one, "{policy}");
    }

    #[test]
    fn a_fleet_is_the_same_to_the_last_bit_on_any_number_of_threads() {
        for policy in ["walras", "walras-api-learning", "vpa", "koordinator-be"] {
            check(policy);
        }
    }

    #[test]
    fn nodes_are_added_in_their_order_whoever_was_faster() {
        let result = || NodeResult { summary: Summary::default(), pods: None };
        let mut sum = Sum::default();
        for (number, early) in [(2, 1), (1, 2), (0, 0), (4, 1), (3, 0)] {
            sum.add(number, result());
            assert_eq!(sum.early.len(), early, "after node {number}");
        }
        assert_eq!(sum.next, 5);
    }
}
