//! How long a batch of nodes takes through each model: `cargo bench -p walras-brain`.
//!
//! From telemetry as it comes in to verdicts, on one core.

use divan::{Bencher, black_box};
use walras_brain::features::{Filler, Order};
use walras_brain::model::{Learned, Model, Trees};
use walras_brain::verdict::Verdict;
use walras_brain::{Kernel, random};
use walras_core::rng::Rng;

const NODES: [usize; 3] = [100, 1000, 5000];

fn main() {
    divan::main();
}

fn mlp() -> Model {
    let learned = Learned::Mlp(random::mlp(&mut Rng::from_seed(1)));
    Model { order: Order::Document, filler: Filler::Typical, learned }
}

fn trees(depth: usize) -> Model {
    let forest = random::forest(&mut Rng::from_seed(1), 100, depth);
    let confidence = forest.trees().first().cloned();
    let learned = Learned::Trees(Trees { forest, confidence });
    Model { order: Order::Document, filler: Filler::Nan, learned }
}

fn bench(bencher: Bencher<'_, '_>, model: &Model, kernel: Kernel, count: usize) {
    let mut rng = Rng::from_seed(2);
    let nodes = random::nodes(&mut rng, count);
    let pod = random::pod(&mut rng);
    let mut verdicts = vec![Verdict::NO_MODEL; count];
    bencher.bench_local(|| {
        model.score_with(kernel, black_box(&pod), black_box(&nodes), &mut verdicts);
        black_box(&mut verdicts);
    });
}

#[divan::bench(args = NODES)]
fn mlp_fast(bencher: Bencher<'_, '_>, count: usize) {
    bench(bencher, &mlp(), Kernel::best(), count);
}

#[divan::bench(args = NODES)]
fn mlp_portable(bencher: Bencher<'_, '_>, count: usize) {
    bench(bencher, &mlp(), Kernel::PORTABLE, count);
}

#[divan::bench(args = NODES)]
fn trees_fast(bencher: Bencher<'_, '_>, count: usize) {
    bench(bencher, &trees(6), Kernel::best(), count);
}

#[divan::bench(args = NODES)]
fn trees_portable(bencher: Bencher<'_, '_>, count: usize) {
    bench(bencher, &trees(6), Kernel::PORTABLE, count);
}

#[divan::bench(args = NODES)]
fn trees_of_eight_levels(bencher: Bencher<'_, '_>, count: usize) {
    bench(bencher, &trees(8), Kernel::best(), count);
}
