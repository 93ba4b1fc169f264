//! A node that does not exist: pods of several characters under the real market, told to a board.
//!
//! The model is as crude as it can be: a pod gets what it wants up to its limit, and is throttled
//! in proportion to what it misses. The example and the tests of the dashboard use it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use walras_core::claim::{CameWith, Nature};
use walras_core::demand::Sample;
use walras_core::need::Bounds;
use walras_core::node::{Loop, Node, PodFacts};
use walras_core::profile::Profile;
use walras_core::request::RequestRule;
use walras_core::rng::Rng;
use walras_core::units::{Millicores, Moment, PodUid, Span, Weight};
use walras_node::board::{Board, Identity, PodKind, PodLabel, Took};
use walras_wire::state::ChangeResult;

/// The time between two ticks.
const TICK_MS: u64 = 200;
/// The kernel's period.
const PERIOD_MS: u64 = 100;

/// A node that does not exist.
#[derive(Debug)]
pub(crate) struct MadeUp {
    node: Node,
    board: Arc<Board>,
    pods: Vec<Pod>,
    rng: Rng,
    now_ms: u64,
    started_unix_ms: u64,
}

#[derive(Debug)]
struct Pod {
    uid: PodUid,
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

const CHARACTERS: [(Character, &str, PodKind); 6] = [
    (Character::Bursty, "shop-frontend", PodKind::Docker),
    (Character::Steady, "postgres", PodKind::Systemd),
    (Character::Batch, "nightly-report", PodKind::Walras),
    (Character::Idle, "cron", PodKind::Systemd),
    (Character::Greedy, "video-encoder", PodKind::Podman),
    (Character::Wave, "search", PodKind::Docker),
];

// === impl MadeUp ===

impl MadeUp {
    /// A node with so many pods.
    pub(crate) fn new(pods: usize) -> Self {
        let count = u64::try_from(pods).unwrap_or(u64::MAX);
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
            pods: Vec::new(),
            rng: Rng::from_seed(7),
            now_ms: 0,
            started_unix_ms: u64::try_from(unix.as_millis()).unwrap_or_default(),
        };
        for number in 0..pods {
            made_up.add(number);
        }
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
        let limits: Vec<Millicores> = self.node.pods().map(|pod| pod.in_force.limit).collect();
        let due: Vec<PodUid> = self.node.due_for_sample(now).cloned().collect();
        let now_ms = self.now_ms;
        let wants: Vec<u64> =
            self.pods.iter_mut().map(|pod| pod.wants(now_ms, &mut self.rng)).collect();
        let granted = wants.iter().zip(&limits).map(|(want, limit)| limit.get().min(*want));
        let all = Millicores::new(granted.sum()).max(self.node.capacity());
        for ((pod, want), limit) in self.pods.iter_mut().zip(wants).zip(limits) {
            // Where the machine is full, everybody gets less in the same proportion.
            let got = Millicores::new(want).min(limit).share_floor(self.node.capacity(), all);
            pod.run(Millicores::new(want), limit, got);
        }
        for uid in &due {
            if let Ok(place) = self.pods.binary_search_by(|pod| pod.uid.cmp(uid)) {
                let sample = Sample { at: now, ..self.pods[place].counters };
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

    fn result_of(&self, uid: &PodUid) -> ChangeResult {
        if uid.as_str().ends_with("13") {
            ChangeResult::Failed("cpu.max cannot be written: read-only file system".to_owned())
        } else {
            ChangeResult::Done
        }
    }

    fn add(&mut self, number: usize) {
        let (character, name, kind) = CHARACTERS[number % CHARACTERS.len()];
        let uid = PodUid::new(&format!("{}/{number:03}", kind.name()));
        let round = number / CHARACTERS.len();
        let name = if round == 0 { name.to_owned() } else { format!("{name}-{round}") };
        let size = 300 + self.rng.below(700);
        let limit = Millicores::new(size);
        let facts = PodFacts {
            uid: uid.clone(),
            workload: None,
            bounds: Bounds::new(Millicores::new(50), Millicores::new(size * 3)),
            weight: if number.is_multiple_of(7) { Weight::from_thousandths(2000) } else { None }
                .unwrap_or_default(),
            limit,
            request: Some(Millicores::new(size / 2)),
            came_with: CameWith::default(),
            nature: Nature::Unknown,
            request_rule: RequestRule::Kept,
        };
        let label = PodLabel {
            name,
            kind,
            original_limit: (number % 4 != 3).then_some(limit),
            target_latency_ms: number.is_multiple_of(6).then_some(50.0),
        };
        self.board.pod_added(&facts, label);
        self.node.pod_added(facts, Moment::from_ms(self.now_ms));
        let phase = self.rng.below(600_000);
        let pod =
            Pod { uid, character, size, phase, burst_until_ms: 0, counters: Sample::default() };
        let place = self.pods.binary_search_by(|other| other.uid.cmp(&pod.uid));
        self.pods.insert(place.unwrap_or_else(|place| place), pod);
    }
}

// === impl Pod ===

impl Pod {
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
