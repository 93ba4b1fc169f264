//! How long training takes: `cargo bench -p walras-brain --bench train`.
//!
//! 20,000 rows are learned from and nothing stops early: 50 epochs, or 100 trees of six levels.

use divan::{Bencher, black_box};
use walras_brain::data::Rows;
use walras_brain::label::LabelSettings;
use walras_brain::random;
use walras_brain::train::{Kind, TrainSettings, train};
use walras_core::rng::Rng;

fn main() {
    divan::main();
}

fn settings(kind: Kind) -> TrainSettings {
    let mut settings = TrainSettings { kind, ..TrainSettings::default() };
    settings.mlp.patience = settings.mlp.epochs;
    settings.trees.patience = settings.trees.trees;
    settings
}

fn bench(bencher: Bencher<'_, '_>, kind: Kind) {
    // Seven tenths of 28,572 rows are 20,000.
    let events = random::events(&mut Rng::from_seed(1), 7143, 4);
    let rows = Rows::of(&events, &LabelSettings::default());
    let settings = settings(kind);
    bencher.bench_local(|| {
        let trained = train(black_box(&rows), &settings, &mut |_| {});
        black_box(trained.expect("there are enough events"))
    });
}

#[divan::bench(sample_count = 5)]
fn mlp(bencher: Bencher<'_, '_>) {
    bench(bencher, Kind::Mlp);
}

#[divan::bench(sample_count = 5)]
fn trees(bencher: Bencher<'_, '_>) {
    bench(bencher, Kind::Trees);
}
