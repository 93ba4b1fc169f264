//! What a sample of one real control group costs: ours against the plain way of opening, reading,
//! splitting and closing. Needs root, as the tests on real control groups do:
//! `cargo bench -p walras-cgroup --features real-kernel`.

use std::fs;
use std::path::{Path, PathBuf};

use divan::{Bencher, black_box};
use walras_cgroup::{CgroupPath, Created, Group, Layout, Version, walk};
use walras_cgroup::{WalkLimits, remove_left_behind};
use walras_core::demand::Sample;
use walras_core::units::{Moment, Span};

/// So many groups are read in turn, as a daemon does.
const GROUPS: usize = 100;
const PREFIX: &str = "walras-cgroup-bench-";

/// Groups for one benchmark, and the one they are in.
struct Ground {
    layout: Layout,
    top: CgroupPath,
    made: Vec<Created>,
}

fn main() {
    divan::main();
}

#[divan::bench]
fn ours(bencher: Bencher<'_, '_>) {
    let ground = Ground::new();
    let open = |made: &Created| Group::open(&ground.layout, made.path()).expect("it was made");
    let groups: Vec<Group> = ground.made.iter().map(open).collect();
    let mut turn = groups.iter().cycle();
    bencher.bench_local(|| turn.next().expect("it never ends").sample(black_box(Moment::ORIGIN)));
}

#[divan::bench]
fn naive(bencher: Bencher<'_, '_>) {
    let ground = Ground::new();
    let place = |made: &Created| made.path().under(ground.layout.cpu_root());
    let places: Vec<PathBuf> = ground.made.iter().map(place).collect();
    let version = ground.layout.version();
    let mut turn = places.iter().cycle();
    bencher.bench_local(|| naive_sample(version, turn.next().expect("it never ends")));
}

#[divan::bench]
fn opening(bencher: Bencher<'_, '_>) {
    let ground = Ground::new();
    let mut turn = ground.made.iter().cycle();
    bencher.bench_local(|| turn.next().expect("it never ends").open());
}

#[divan::bench]
fn walking_a_hundred(bencher: Bencher<'_, '_>) {
    let ground = Ground::new();
    let limits = WalkLimits { depth: 8, groups: 1000 };
    bencher.bench_local(|| walk(&ground.layout, &ground.top, limits));
}

/// The way one writes it without thinking of its cost.
fn naive_sample(version: Version, place: &Path) -> Sample {
    let text = fs::read_to_string(place.join("cpu.stat")).expect("every group has it");
    let mut sample = Sample::default();
    for line in text.lines() {
        let parts: Vec<&str> = line.split_whitespace().collect();
        let value: u64 = parts[1].parse().expect("a number");
        match parts[0] {
            "usage_usec" => sample.usage = Span::from_us(value),
            "nr_periods" => sample.nr_periods = value,
            "nr_throttled" => sample.nr_throttled = value,
            "throttled_usec" => sample.throttled = Span::from_us(value),
            "throttled_time" => sample.throttled = Span::from_us(value / 1000),
            _ => {}
        }
    }
    match version {
        Version::V1 => {
            let place = place.to_string_lossy().replace("/cpu/", "/cpuacct/");
            let usage = fs::read_to_string(PathBuf::from(place).join("cpuacct.usage"));
            let usage: u64 = usage.expect("every group has it").trim().parse().expect("a number");
            sample.usage = Span::from_us(usage / 1000);
        }
        Version::V2 => {
            let text = fs::read_to_string(place.join("cpu.pressure")).expect("it is measured");
            let total = text.split("total=").nth(1).and_then(|rest| rest.lines().next());
            sample.stalled = total.and_then(|us| us.parse().ok()).map(Span::from_us);
        }
    }
    sample
}

// === impl Ground ===

impl Ground {
    fn new() -> Self {
        let layout = Layout::of_this_machine().expect("the cpu controller is mounted");
        remove_left_behind(&layout, &CgroupPath::ROOT, PREFIX.as_bytes()).expect("root may");
        let name = format!("{PREFIX}{}", std::process::id());
        let top = CgroupPath::ROOT.join(name.as_bytes()).expect("a name");
        let mut made = vec![Created::create(&layout, &top).expect("root may make groups")];
        for number in 0..GROUPS {
            let path = top.join(number.to_string().as_bytes()).expect("a name");
            made.push(Created::create(&layout, &path).expect("root may make groups"));
        }
        Self { layout, top, made }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        while self.made.pop().is_some() {}
    }
}
