//! Many nodes of one scenario, on several threads, with the same result whatever their number.
//!
//! Threads take nodes one by one; what they find is added up in the order of the nodes, so that not
//! even the last bit of a sum depends on which thread was faster. A node's details are dropped as
//! soon as it is summed up: memory does not grow with the number of nodes, nor with time.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::measure::{PodTally, Summary};
use crate::policy::Policy;
use crate::run::{Unwatched, run_node};
use crate::scenario::Scenario;

/// Makes the policy of one node.
pub type MakePolicy<'a> = dyn Fn(&Scenario, u32) -> Box<dyn Policy> + Sync + 'a;

/// What became of all nodes.
#[derive(Debug)]
pub struct FleetResult {
    /// All of them, added up.
    pub summary: Summary,
    /// The pods of the first node, to look at closely.
    pub first_node: Vec<PodTally>,
}

/// What one node came to.
struct NodeResult {
    number: u32,
    summary: Summary,
    pods: Option<Vec<PodTally>>,
}

/// Runs every node of the scenario; `node_done` is called after each.
#[must_use]
pub fn run_fleet(
    scenario: &Scenario,
    make_policy: &MakePolicy<'_>,
    threads: NonZeroUsize,
    node_done: &(dyn Fn() + Sync),
) -> FleetResult {
    let next = AtomicU32::new(0);
    let results: Mutex<Vec<NodeResult>> = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..threads.get() {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= scenario.nodes {
                        return;
                    }
                    let result = run_one(scenario, number, make_policy);
                    results.lock().expect("no thread panics while it holds this").push(result);
                    node_done();
                }
            });
        }
    });
    let mut results = results.into_inner().expect("all threads are done");
    results.sort_by_key(|result| result.number);
    let mut fleet = FleetResult { summary: Summary::default(), first_node: Vec::new() };
    for result in results {
        fleet.summary.add(&result.summary);
        if let Some(pods) = result.pods {
            fleet.first_node = pods;
        }
    }
    fleet
}

fn run_one(scenario: &Scenario, number: u32, make_policy: &MakePolicy<'_>) -> NodeResult {
    let mut policy = make_policy(scenario, number);
    let pods = run_node(scenario, number, &mut *policy, &mut Unwatched);
    NodeResult { number, summary: Summary::of(&pods), pods: (number == 0).then_some(pods) }
}
