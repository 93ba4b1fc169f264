//! How long one clearing takes, from ten workloads to a million, against the map-based baseline.
//!
//! `clear` has its needs given; `estimate_and_clear` estimates them first, as the baseline does, so
//! those two are what compares. All of them divide the same workloads.
#![expect(clippy::disallowed_types, reason = "the baseline is built on hash maps")]

use std::collections::HashMap;

use divan::{Bencher, black_box};
use walras_core::market::{Bid, Fairness, Terms, clear};
use walras_core::need::{Bounds, SpecFacts, spec};
use walras_core::rng::Rng;
use walras_core::units::{Millicores, Ratio, Weight};
use walras_sim::random::draw::{one_of, within};
use walras_sim::reference::map_based::{WorkloadParams, allocate};

const SIZES: [usize; 6] = [10, 100, 1000, 10_000, 100_000, 1_000_000];

fn main() {
    divan::main();
}

/// What is known of one workload before its need is.
#[derive(Clone, Copy)]
struct Workload {
    bounds: Bounds,
    facts: SpecFacts,
    weight: Weight,
}

#[divan::bench(args = SIZES, sample_count = 20)]
fn clear_congested_nash(bencher: Bencher<'_, '_>, size: usize) {
    bench_clear(bencher, size, Fairness::Nash, 70);
}

#[divan::bench(args = SIZES, sample_count = 20)]
fn clear_congested_proportional(bencher: Bencher<'_, '_>, size: usize) {
    bench_clear(bencher, size, Fairness::Proportional, 70);
}

#[divan::bench(args = SIZES, sample_count = 20)]
fn clear_overloaded(bencher: Bencher<'_, '_>, size: usize) {
    bench_clear(bencher, size, Fairness::Nash, 5);
}

#[divan::bench(args = SIZES, sample_count = 20)]
fn clear_uncongested(bencher: Bencher<'_, '_>, size: usize) {
    bench_clear(bencher, size, Fairness::Nash, 150);
}

#[divan::bench(args = SIZES, sample_count = 20)]
fn estimate_and_clear(bencher: Bencher<'_, '_>, size: usize) {
    let workloads = workloads(size);
    let terms = terms(&bids(&workloads), Fairness::Proportional, 70);
    bencher.bench_local(|| {
        let bids = bids(black_box(&workloads));
        clear(black_box(&terms), &bids)
    });
}

#[divan::bench(args = SIZES, sample_count = 20)]
fn map_based_baseline(bencher: Bencher<'_, '_>, size: usize) {
    let workloads = workloads(size);
    let capacity = terms(&bids(&workloads), Fairness::Proportional, 70).capacity;
    let capacity_milli = i64::try_from(capacity.get()).expect("a capacity of the benchmark");
    let params: HashMap<String, WorkloadParams> = workloads
        .iter()
        .enumerate()
        // As long as the uids of a real cluster.
        .map(|(place, one)| (format!("1f0c5b8e-52a3-4a8e-9d1c-{place:012x}"), params(one)))
        .collect();
    bencher.bench_local(|| allocate(black_box(capacity_milli), black_box(&params)));
}

fn bench_clear(bencher: Bencher<'_, '_>, size: usize, fairness: Fairness, percent: u32) {
    let bids = bids(&workloads(size));
    let terms = terms(&bids, fairness, percent);
    bencher.bench_local(|| clear(black_box(&terms), black_box(&bids)));
}

fn workloads(size: usize) -> Vec<Workload> {
    let mut rng = Rng::from_seed(1);
    (0..size)
        .map(|_| {
            let min = within(&mut rng, 50, 500);
            let max = within(&mut rng, min, 4000);
            let thousandths = one_of(&mut rng, &[500, 1000, 1500, 2000, 5000]);
            Workload {
                bounds: Bounds::new(Millicores::new(min), Millicores::new(max)),
                facts: SpecFacts {
                    demand: Ratio::from_millionths(rng.below(1_000_001)),
                    usage: Some(Millicores::new(within(&mut rng, 10, max))),
                    headroom_misses: 0,
                },
                weight: Weight::from_thousandths(thousandths).expect("within range"),
            }
        })
        .collect()
}

fn bids(workloads: &[Workload]) -> Vec<Bid> {
    workloads
        .iter()
        .map(|workload| {
            Bid::new(workload.bounds, spec(workload.bounds, &workload.facts), workload.weight)
        })
        .collect()
}

/// Terms under which capacity is `percent` of what all workloads need.
fn terms(bids: &[Bid], fairness: Fairness, percent: u32) -> Terms {
    let needs: Millicores = bids.iter().map(Bid::need).sum();
    let capacity = needs.scale_floor(Ratio::from_percent(percent));
    Terms {
        capacity,
        fairness,
        demand_capped: true,
        previous_mode: None,
        scarce: None,
        weight_unit: Weight::ONE,
    }
}

fn params(workload: &Workload) -> WorkloadParams {
    let milli = |amount: Millicores| i64::try_from(amount.get()).expect("a few cores");
    WorkloadParams {
        demand: workload.facts.demand.to_f64(),
        usage_milli: workload.facts.usage.map(milli),
        headroom_misses: workload.facts.headroom_misses,
        min_milli: milli(workload.bounds.min()),
        max_milli: milli(workload.bounds.max()),
    }
}
