//! How long one tick of a node takes, with a fresh sample of every pod, which is not counted.

use divan::Bencher;
use walras_core::claim::{CameWith, Nature};
use walras_core::need::Bounds;
use walras_core::node::{Node, WorkloadFacts};
use walras_core::profile::Profile;
use walras_core::request::RequestRule;
use walras_core::rng::Rng;
use walras_core::units::{Millicores, Moment, Span, Weight, WorkloadUid};
use walras_sim::random::draw::within;
use walras_sim::random::load::{Appetite, Load};

const SIZES: [u64; 3] = [100, 500, 1000];
/// How long a node runs before it is measured: as long as its window looks back.
const WARM_UP_S: u64 = 60;

fn main() {
    divan::main();
}

#[divan::bench(args = SIZES)]
fn slow_tick(bencher: Bencher<'_, '_>, pods: u64) {
    let (node, now) = warmed_up(pods, Profile::DIRECT);
    bencher.with_inputs(|| node.clone()).bench_local_refs(|node| node.slow_tick(now));
}

#[divan::bench(args = SIZES)]
fn slow_tick_with_learning(bencher: Bencher<'_, '_>, pods: u64) {
    let (node, now) = warmed_up(pods, Profile { learning: true, ..Profile::DIRECT });
    bencher.with_inputs(|| node.clone()).bench_local_refs(|node| node.slow_tick(now));
}

#[divan::bench(args = SIZES)]
fn fast_tick(bencher: Bencher<'_, '_>, pods: u64) {
    let (node, now) = warmed_up(pods, Profile::DIRECT);
    bencher.with_inputs(|| node.clone()).bench_local_refs(|node| node.fast_tick(now));
}

/// A sample of every pod, which is what comes before a tick.
#[divan::bench(args = SIZES)]
fn take_samples(bencher: Bencher<'_, '_>, pods: u64) {
    let mut town = Town::new(pods, Profile::DIRECT);
    town.run_for(WARM_UP_S);
    let now = town.now + Span::from_s(1);
    let samples: Vec<_> = town
        .loads
        .iter_mut()
        .map(|(uid, load)| {
            load.run_until(now, Millicores::new(400));
            (uid.clone(), load.sample(now))
        })
        .collect();
    bencher.with_inputs(|| town.node.clone()).bench_local_refs(|node| {
        for (uid, sample) in &samples {
            node.sampled(uid, *sample);
        }
    });
}

/// A node whose pods have run for a while and were sampled just now.
fn warmed_up(pods: u64, profile: Profile) -> (Node, Moment) {
    let mut town = Town::new(pods, profile);
    town.run_for(WARM_UP_S);
    town.now = town.now + Span::from_s(1);
    town.sample();
    (town.node, town.now)
}

/// A node that is a little too small for its pods, a fifth of which are throttled at times.
struct Town {
    node: Node,
    loads: Vec<(WorkloadUid, Load)>,
    now: Moment,
}

impl Town {
    fn new(pods: u64, profile: Profile) -> Self {
        let mut rng = Rng::from_seed(1);
        let now = Moment::from_ms(1_000_000);
        let mut node = Node::new(Millicores::new(180 * pods), profile);
        let mut loads = Vec::new();
        for place in 0..pods {
            let uid = WorkloadUid::new(&format!("1f0c5b8e-52a3-4a8e-9d1c-{place:012x}"));
            let peak = if place % 5 == 0 { 600 } else { within(&mut rng, 20, 300) };
            let appetite = Appetite::Restless(Millicores::new(peak));
            node.workload_added(
                WorkloadFacts {
                    uid: uid.clone(),
                    family: None,
                    bounds: Bounds::new(Millicores::new(20), Millicores::new(2000)),
                    weight: Weight::ONE,
                    limit: Millicores::new(400),
                    request: None,
                    came_with: CameWith {
                        request: None,
                        limit: Some(Millicores::new(400)),
                        weight: None,
                    },
                    nature: Nature::Unknown,
                    request_rule: RequestRule::Kept,
                },
                now,
            );
            loads.push((uid, Load::new(appetite, place, now)));
        }
        Self { node, loads, now }
    }

    fn run_for(&mut self, seconds: u64) {
        for second in 0..seconds {
            self.now = self.now + Span::from_s(1);
            self.sample();
            self.node.fast_tick(self.now);
            if second % 15 == 0 {
                self.node.slow_tick(self.now);
            }
        }
    }

    fn sample(&mut self) {
        for (uid, load) in &mut self.loads {
            load.run_until(self.now, Millicores::new(400));
            self.node.sampled(uid, load.sample(self.now));
        }
    }
}
