//! Random sequences of facts for one node: workloads come and go, samples are lost, late, doubled
//! and reset, clocks step, and capacity changes.
//!
//! Property tests call it. What a workload uses depends on the limit in force, so the sequence is
//! drawn while a node answers it; the facts are plain data afterwards and can be fed again.
//!
//! Always: the same seed gives the same story. Uids come from a small set, so they are reused.

use std::collections::BTreeMap;

use walras_core::claim::{CameWith, Nature};
use walras_core::need::Bounds;
use walras_core::node::{Fact, Loop, MachineSample, Node, Outcome, WorkloadFacts};
use walras_core::request::RequestRule;
use walras_core::rng::Rng;
use walras_core::units::{FamilyKey, Millicores, Moment, Span, Weight, WorkloadUid};

use super::draw::{one_of, percent, place, spread, within};
use super::load::Load;
use super::profile::profile;
use crate::fact::{Happened, Story, feed};

/// How many different uids there are.
const UIDS: u64 = 8;

/// The world around one node: it makes facts, and what the node answers changes it.
#[derive(Clone, Debug)]
pub struct World {
    rng: Rng,
    capacity: Millicores,
    /// Time as it really passes, in which workloads do their work.
    time: Moment,
    /// What the node's clock is ahead of that. It steps now and then.
    clock_ahead: Span,
    workloads: BTreeMap<WorkloadUid, Running>,
    machine: Counted,
}

/// A world drawn from `seed`, and the beginning of its story.
#[must_use]
pub fn begin(seed: u64) -> (World, Story) {
    let mut world = World::new(seed);
    let profile = profile(&mut world.rng);
    let story = Story { capacity: world.capacity, profile, facts: Vec::new() };
    (world, story)
}

/// What the machine has counted, and how much of it is idle for now.
#[derive(Clone, Debug)]
struct Counted {
    since: Moment,
    idle_us: u64,
    busy_us: u64,
    idle_percent: u64,
}

#[derive(Clone, Debug)]
struct Running {
    load: Load,
    limit: Millicores,
}

// === impl World ===

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::from_seed(seed);
        let capacity = capacity(&mut rng);
        let time = Moment::from_ms(spread(&mut rng, 100_000_000));
        let clock_ahead = Span::from_s(3600);
        let machine = Counted { since: time, idle_us: 0, busy_us: 0, idle_percent: 50 };
        Self { rng, capacity, time, clock_ahead, workloads: BTreeMap::new(), machine }
    }

    /// Lets about `count` things happen to `node`, writes them into `story`, and says what the
    /// ticks answered. A fact is written down before it is fed, so a story tells what led to a
    /// panic.
    pub fn go_on(&mut self, count: usize, node: &mut Node, story: &mut Story) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        for _ in 0..count {
            for fact in self.happens() {
                story.facts.push(fact.clone());
                if let Some(outcome) = feed(node, &fact) {
                    self.answered(&outcome);
                    outcomes.push(outcome);
                }
            }
        }
        outcomes
    }

    /// The next fact; or two, where something is doubled.
    fn happens(&mut self) -> Vec<Happened> {
        self.let_time_pass();
        let mut at = None;
        let fact = match self.rng.below(100) {
            0..=7 => self.workload_added(),
            8..=10 => Fact::WorkloadRemoved(self.any_uid()),
            11..=13 => {
                self.capacity = capacity(&mut self.rng);
                Fact::CapacityChanged(self.capacity)
            }
            14..=17 => {
                let missed = percent(&mut self.rng, 50);
                Fact::LatencyJudged { uid: self.any_uid(), missed }
            }
            18..=22 => {
                let late = Span::from_ms(spread(&mut self.rng, 10_000));
                at = Some(back(self.clock(), late));
                Fact::LimitTookEffect(self.any_uid())
            }
            23..=26 => self.limit_found(),
            27..=35 => self.machine_sampled(),
            36..=64 => self.sampled(),
            65..=84 => Fact::Ticked(Loop::Fast),
            _ => Fact::Ticked(Loop::Slow),
        };
        if let Fact::WorkloadRemoved(uid) = &fact {
            self.workloads.remove(uid);
        }
        let doubled = percent(&mut self.rng, 3);
        let happened = Happened { at: at.unwrap_or_else(|| self.clock()), fact };
        if doubled { vec![happened.clone(), happened] } else { vec![happened] }
    }

    /// The limits the node decided are in force at once.
    fn answered(&mut self, outcome: &Outcome) {
        for action in &outcome.actions {
            if let Some(workload) = self.workloads.get_mut(&action.uid) {
                workload.load.run_until(self.time, workload.limit);
                workload.limit = action.limit;
            }
        }
    }

    fn let_time_pass(&mut self) {
        let ms = match self.rng.below(20) {
            0..=1 => 0,
            2..=9 => within(&mut self.rng, 1, 250),
            10..=17 => within(&mut self.rng, 250, 2500),
            18 => within(&mut self.rng, 2500, 30_000),
            _ => 15_000,
        };
        self.time = self.time + Span::from_ms(ms);
        if percent(&mut self.rng, 2) {
            let ahead_ms = one_of(&mut self.rng, &[0, 3_590_000, 3_600_000, 3_605_000, 7_200_000]);
            self.clock_ahead = Span::from_ms(ahead_ms);
        }
    }

    fn clock(&self) -> Moment {
        self.time + self.clock_ahead
    }

    fn any_uid(&mut self) -> WorkloadUid {
        WorkloadUid::new(&format!("pod-{}", self.rng.below(UIDS)))
    }

    /// Mostly a workload that is there.
    fn likely_uid(&mut self) -> WorkloadUid {
        let chosen = place(&mut self.rng, self.workloads.len());
        match self.workloads.keys().nth(chosen) {
            Some(uid) if percent(&mut self.rng, 95) => uid.clone(),
            Some(_) | None => self.any_uid(),
        }
    }

    fn workload_added(&mut self) -> Fact {
        let workload = workload_facts(&mut self.rng, self.capacity);
        // Some workloads want more than they may ever have.
        let most = workload.bounds.max() + workload.bounds.max().max(Millicores::new(100));
        let load = Load::random(&mut self.rng, most, self.time);
        self.workloads.insert(workload.uid.clone(), Running { load, limit: workload.limit });
        Fact::WorkloadAdded(Box::new(workload))
    }

    /// A change failed, or somebody else made one.
    fn limit_found(&mut self) -> Fact {
        let uid = self.likely_uid();
        let limit = Millicores::new(within(&mut self.rng, 10, self.capacity.get().max(10)));
        if let Some(workload) = self.workloads.get_mut(&uid) {
            workload.load.run_until(self.time, workload.limit);
            workload.limit = limit;
        }
        Fact::LimitFound { uid, limit }
    }

    /// What is idle goes its own way: others than these workloads use the machine, too.
    fn machine_sampled(&mut self) -> Fact {
        let (rng, machine) = (&mut self.rng, &mut self.machine);
        let passed_us = self.time.since(machine.since).as_us();
        let whole_us =
            u64::try_from(u128::from(passed_us) * u128::from(self.capacity.get()) / 1000)
                .unwrap_or(u64::MAX);
        let idle_us = whole_us / 100 * machine.idle_percent;
        machine.since = self.time;
        machine.idle_us = machine.idle_us.saturating_add(idle_us);
        machine.busy_us = machine.busy_us.saturating_add(whole_us - idle_us);
        if percent(rng, 20) {
            machine.idle_percent = one_of(rng, &[0, 0, 1, 5, 12, 30, 100]);
        }
        match rng.below(100) {
            0..=2 => machine.idle_us = 0,
            3..=4 => machine.busy_us = 0,
            _ => {}
        }
        let (idle, busy) = (Span::from_us(machine.idle_us), Span::from_us(machine.busy_us));
        let late = Span::from_ms(spread(&mut self.rng, 5000));
        let clock = self.clock();
        let at = if percent(&mut self.rng, 5) { back(clock, late) } else { clock };
        Fact::MachineSampled(MachineSample { at, idle, busy })
    }

    fn sampled(&mut self) -> Fact {
        let uid = self.likely_uid();
        let (time, clock) = (self.time, self.clock());
        let late = Span::from_ms(spread(&mut self.rng, 5000));
        let rng = &mut self.rng;
        let Some(workload) = self.workloads.get_mut(&uid) else {
            let mut gone = Load::random(rng, Millicores::new(1000), time);
            gone.run_until(time + Span::from_s(1), Millicores::new(500));
            return Fact::Sampled(uid, gone.sample(clock));
        };
        workload.load.run_until(time, workload.limit);
        match rng.below(100) {
            0..=2 => workload.load.restart(rng),
            3..=4 => workload.load.toggle_stalled(rng),
            _ => {}
        }
        let at = if percent(rng, 5) { back(clock, late) } else { clock };
        Fact::Sampled(uid, workload.load.sample(at))
    }
}

fn capacity(rng: &mut Rng) -> Millicores {
    Millicores::new(match rng.below(12) {
        0 => 0,
        1 => within(rng, 1, 100),
        2 => spread(rng, Millicores::LIMIT.get()),
        3..=8 => within(rng, 500, 8000),
        _ => within(rng, 8000, 64_000),
    })
}

fn workload_facts(rng: &mut Rng, capacity: Millicores) -> WorkloadFacts {
    let most = match rng.below(10) {
        0 => 20,
        1 => Millicores::LIMIT.get(),
        _ => capacity.get().max(100),
    };
    let min = Millicores::new(spread(rng, most));
    let max = Millicores::new(within(rng, min.get(), most));
    let limit = match rng.below(10) {
        0 => Millicores::ZERO,
        1 => Millicores::LIMIT,
        2 => max,
        3 => min,
        _ => Millicores::new(within(rng, 0, max.get())),
    };
    let request = percent(rng, 70).then(|| Millicores::new(within(rng, 0, limit.get())));
    let thousandths = u32::try_from(within(rng, 1, 10_000)).unwrap_or(1);
    let weight = if percent(rng, 50) { None } else { Weight::from_thousandths(thousandths) };
    WorkloadFacts {
        uid: WorkloadUid::new(&format!("pod-{}", rng.below(UIDS))),
        family: percent(rng, 50).then(|| FamilyKey::new(&format!("app-{}", rng.below(3)))),
        bounds: Bounds::new(min, max),
        weight: weight.unwrap_or(Weight::ONE),
        limit,
        request,
        came_with: CameWith {
            request: percent(rng, 70).then(|| request.unwrap_or(min)),
            limit: percent(rng, 70).then_some(limit),
            weight: None,
        },
        nature: one_of(rng, &[Nature::Unknown, Nature::Batch, Nature::Service]),
        // Not drawn, so that what is drawn after it stays what it was.
        request_rule: RequestRule::ALL[usize::try_from(thousandths % 3).unwrap_or(0)],
    }
}

fn back(moment: Moment, by: Span) -> Moment {
    Moment::from_us(moment.since(Moment::ORIGIN + by).as_us())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tell(seed: u64) -> (Story, Vec<Outcome>) {
        let (mut world, mut story) = begin(seed);
        let mut node = story.node();
        let outcomes = world.go_on(200, &mut node, &mut story);
        (story, outcomes)
    }

    #[test]
    fn the_same_seed_gives_the_same_story() {
        for seed in 0..20 {
            let (one, other) = (tell(seed), tell(seed));
            assert_eq!(one.0.facts, other.0.facts);
            assert_eq!(one.1, other.1);
        }
    }

    #[test]
    fn stories_are_about_as_long_as_asked_for_and_ticks_act() {
        let (story, outcomes) = tell(3);
        assert!((200..230).contains(&story.facts.len()), "{}", story.facts.len());
        assert!(outcomes.len() > 40, "{}", outcomes.len());
        assert!(outcomes.iter().any(|outcome| !outcome.actions.is_empty()));
    }
}
