//! A node that does not exist: workloads of several characters under the real market, told to a
//! board.
//!
//! The model is as crude as it can be: a workload gets what it wants up to its limit, and is
//! throttled in proportion to what it misses. The example and the tests of the dashboard use it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use walras_core::claim::{CameWith, Nature};
use walras_core::demand::Sample;
use walras_core::need::Bounds;
use walras_core::node::{Loop, Node, WorkloadFacts};
use walras_core::profile::Profile;
use walras_core::request::RequestRule;
use walras_core::rng::Rng;
use walras_core::units::{Millicores, Moment, Span, Weight, WorkloadUid};
use walras_node::board::{Board, Identity, Took, WorkloadKind, WorkloadLabel};
use walras_wire::state::ChangeResult;
use walras_wire::telemetry::{Drops, Figure, NodeTelemetry};

/// The time between two ticks.
const TICK_MS: u64 = 200;
/// The kernel's period.
const PERIOD_MS: u64 = 100;

/// A node that does not exist.
#[derive(Debug)]
pub(crate) struct MadeUp {
    node: Node,
    board: Arc<Board>,
    workloads: Vec<Workload>,
    rng: Rng,
    now_ms: u64,
    started_unix_ms: u64,
}

#[derive(Debug)]
struct Workload {
    uid: WorkloadUid,
    character: Character,
    size: u64,
    phase: u64,
    burst_until_ms: u64,
    counters: Sample,
}

#[derive(Clone, Copy, Debug)]
enum Character {
    Steady,
    Bursty,
    Batch,
    Idle,
    Greedy,
    Wave,
}

const CHARACTERS: [(Character, &str, WorkloadKind); 6] = [
    (Character::Bursty, "shop-frontend", WorkloadKind::Docker),
    (Character::Steady, "postgres", WorkloadKind::Systemd),
    (Character::Batch, "nightly-report", WorkloadKind::Walras),
    (Character::Idle, "cron", WorkloadKind::Systemd),
    (Character::Greedy, "video-encoder", WorkloadKind::Podman),
    (Character::Wave, "search", WorkloadKind::Docker),
];

// === impl MadeUp ===

impl MadeUp {
    /// A node with so many workloads.
    pub(crate) fn new(workloads: usize) -> Self {
        let count = u64::try_from(workloads).unwrap_or(u64::MAX);
        let capacity = Millicores::new((count * 700).max(1000));
        let identity = Identity {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: "made-up".to_owned(),
            profile: "direct".to_owned(),
            acting: true,
        };
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut made_up = Self {
            node: Node::new(capacity, Profile::DIRECT),
            board: Arc::new(Board::new(identity)),
            workloads: Vec::new(),
            rng: Rng::from_seed(7),
            now_ms: 0,
            started_unix_ms: u64::try_from(unix.as_millis()).unwrap_or_default(),
        };
        for number in 0..workloads {
            made_up.add(number);
        }
        made_up.board.set_telemetry(figures(made_up.started_unix_ms));
        made_up
    }

    /// Where it is told.
    pub(crate) fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// Lets `time` pass that ends now.
    pub(crate) fn let_pass(&mut self, time: Duration) {
        let time_ms = u64::try_from(time.as_millis()).unwrap_or_default();
        self.started_unix_ms = self.started_unix_ms.saturating_sub(time_ms);
        for _ in 0..time_ms / TICK_MS {
            self.tick();
        }
    }

    /// Lets one tick pass.
    pub(crate) fn tick(&mut self) {
        self.now_ms += TICK_MS;
        let now = Moment::from_ms(self.now_ms);
        let limits: Vec<Millicores> =
            self.node.workloads().map(|workload| workload.in_force.limit).collect();
        let due: Vec<WorkloadUid> = self.node.due_for_sample(now).cloned().collect();
        let now_ms = self.now_ms;
        let wants: Vec<u64> = self
            .workloads
            .iter_mut()
            .map(|workload| workload.wants(now_ms, &mut self.rng))
            .collect();
        let granted = wants.iter().zip(&limits).map(|(want, limit)| limit.get().min(*want));
        let all = Millicores::new(granted.sum()).max(self.node.capacity());
        for ((workload, want), limit) in self.workloads.iter_mut().zip(wants).zip(limits) {
            // Where the machine is full, everybody gets less in the same proportion.
            let got = Millicores::new(want).min(limit).share_floor(self.node.capacity(), all);
            workload.run(Millicores::new(want), limit, got);
        }
        for uid in &due {
            if let Ok(place) = self.workloads.binary_search_by(|workload| workload.uid.cmp(uid)) {
                let sample = Sample { at: now, ..self.workloads[place].counters };
                self.node.sampled(uid, sample);
            }
        }
        let outcome = match self.node.next_wake() {
            (_, Loop::Slow) => self.node.slow_tick(now),
            (_, Loop::Fast) => self.node.fast_tick(now),
        };
        let results: Vec<_> = outcome
            .actions
            .iter()
            .map(|action| (action.uid.clone(), self.result_of(&action.uid)))
            .collect();
        self.board.ticked(&self.node, &outcome, &results, self.started_unix_ms + self.now_ms);
        let took =
            Took { sampling: Span::from_us(90), deciding: Span::from_us(40), ..Took::default() };
        self.board.tick_took(outcome.tick, took);
    }

    fn result_of(&self, uid: &WorkloadUid) -> ChangeResult {
        if uid.as_str().ends_with("13") {
            ChangeResult::Failed("cpu.max cannot be written: read-only file system".to_owned())
        } else {
            ChangeResult::Done
        }
    }

    fn add(&mut self, number: usize) {
        let (character, name, kind) = CHARACTERS[number % CHARACTERS.len()];
        let uid = WorkloadUid::new(&format!("{}/{number:03}", kind.name()));
        let round = number / CHARACTERS.len();
        let name = if round == 0 { name.to_owned() } else { format!("{name}-{round}") };
        let size = 300 + self.rng.below(700);
        let limit = Millicores::new(size);
        let facts = WorkloadFacts {
            uid: uid.clone(),
            family: None,
            bounds: Bounds::new(Millicores::new(50), Millicores::new(size * 3)),
            weight: if number.is_multiple_of(7) { Weight::from_thousandths(2000) } else { None }
                .unwrap_or_default(),
            limit,
            request: Some(Millicores::new(size / 2)),
            came_with: CameWith::default(),
            nature: Nature::Unknown,
            request_rule: RequestRule::Kept,
        };
        let label = WorkloadLabel {
            name,
            kind,
            original_limit: (number % 4 != 3).then_some(limit),
            target_latency_ms: number.is_multiple_of(6).then_some(50.0),
        };
        self.board.workload_added(&facts, label);
        self.node.workload_added(facts, Moment::from_ms(self.now_ms));
        let phase = self.rng.below(600_000);
        let workload = Workload {
            uid,
            character,
            size,
            phase,
            burst_until_ms: 0,
            counters: Sample::default(),
        };
        let place = self.workloads.binary_search_by(|other| other.uid.cmp(&workload.uid));
        self.workloads.insert(place.unwrap_or_else(|place| place), workload);
    }
}

// === impl Workload ===

impl Workload {
    fn run(&mut self, want: Millicores, limit: Millicores, got: Millicores) {
        let periods = if got > Millicores::ZERO { TICK_MS / PERIOD_MS } else { 0 };
        let counters = &mut self.counters;
        counters.usage = Span::from_us(counters.usage.as_us() + got.get() * TICK_MS);
        counters.nr_periods += periods;
        let missing = want.saturating_sub(limit).get();
        if missing > 0 {
            counters.throttled = Span::from_us(counters.throttled.as_us() + missing * TICK_MS);
            counters.nr_throttled += periods.min(1 + missing * 2 / want.get());
        }
    }

    fn wants(&mut self, now_ms: u64, rng: &mut Rng) -> u64 {
        let size = self.size;
        match self.character {
            Character::Steady => size * (45 + rng.below(10)) / 100,
            Character::Idle => rng.below(12),
            Character::Greedy => size * 5 / 2,
            Character::Batch => match (now_ms + self.phase) / 400_000 % 3 {
                0 => size * 2,
                _ => 5,
            },
            Character::Wave => {
                let place = (now_ms + self.phase) % 600_000;
                let height = place.min(600_000 - place) * size / 300_000;
                size / 5 + height + rng.below(size / 10)
            }
            Character::Bursty => {
                if now_ms > self.burst_until_ms && rng.below(300) == 0 {
                    self.burst_until_ms = now_ms + 3_000 + rng.below(15_000);
                }
                let bursting = now_ms < self.burst_until_ms;
                if bursting { size * 8 / 5 } else { size * (20 + rng.below(15)) / 100 }
            }
        }
    }
}

/// Figures of the machine, some of them measured.
fn figures(taken_unix_ms: u64) -> NodeTelemetry {
    let figure = |name: &str, unit: &str, found: Result<f64, &str>| Figure {
        name: name.to_owned(),
        metric: format!("made_up_{name}"),
        about: "Made up.".to_owned(),
        unit: unit.to_owned(),
        feature: true,
        value: found.ok(),
        unavailable: found.err().map(str::to_owned),
        source: "made up".to_owned(),
    };
    NodeTelemetry {
        version: 1,
        node: "made-up".to_owned(),
        taken_unix_ms,
        age_ms: 0,
        stale: false,
        over_ms: Some(1000),
        zone: Some("zone-a".to_owned()),
        rack: None,
        figures: vec![
            figure("cpu_utilization", "ratio", Ok(0.25)),
            figure("disk_iops", "1/s", Ok(1234.4)),
            figure("l3_cache_miss_rate", "ratio", Err("this hardware shows no cache counters")),
            figure("run_queue_latency_p99_us", "us", Ok(7.5)),
        ],
        drops: vec![Drops { reason: "NO_SOCKET".to_owned(), per_second: 3.0 }],
        market: None,
    }
}
