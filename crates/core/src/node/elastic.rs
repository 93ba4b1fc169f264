//! Containment where caps are loose: who takes all it can get while another waits.
//!
//! Only elastic work is contained: what its owner calls batch, or what was seen to take all it
//! could get for a minute and more, waiting throughout, above its right; and only while CPU is
//! scarce and another one below its grant waits. A burst is not greed. The cap of a contained
//! workload is its grant, or what it uses and, while more is idle than the guard, its share of
//! that: every fast tick looks at it again, so that what the others leave is not kept from it, and
//! what they want back is there soon. Something is taken only when less than half the guard is
//! idle.
//!
//! Always: a contained workload keeps its right and its grant; none is contained while CPU is
//! idle beyond twice the guard.

use alloc::vec::Vec;

use super::workload::{Containment, Workload};
use super::{Action, Node, Note, Why};
use crate::claim::Nature;
use crate::demand::Signal;
use crate::profile::Profile;
use crate::smooth;
use crate::smooth::weight::KernelWeight;
use crate::units::{Millicores, Moment, Ratio, Span};

/// A workload that waits for this much of a second waits,
const WAITING_STALL: Ratio = Ratio::from_percent(1);
/// or for this much of the time it runs.
const WAITING_PART: Ratio = Ratio::from_percent(10);
/// A workload that uses less than this of its cap is not held back by it.
const HELD_BACK_USAGE: Ratio = Ratio::from_percent(50);
/// A workload that waits for a CPU for this much of a second takes all it can get,
const HUNGRY_STALL: Ratio = Ratio::from_percent(50);
/// or who is throttled in this many of its periods.
const HUNGRY_PERIODS: Ratio = Ratio::from_percent(80);

/// How a workload takes what it can get. One that was hungry for long enough is elastic until it
/// was not for as long.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Appetite {
    /// Whether it waited for more in its last second.
    is_hungry: bool,
    /// Since when that was so.
    since: Moment,
    is_elastic: bool,
}

/// What there is to give to those that are contained, or to take from them. Between half the guard
/// and all of it nothing moves, so that what is kept idle does not hover around the guard.
struct Share {
    more: Millicores,
    less: Millicores,
    /// The weights of those that get some, or give some, in thousandths.
    weights: u64,
}

// === impl Share ===

impl Share {
    fn of<'a>(
        idle: Millicores,
        guard: Millicores,
        workloads: impl Iterator<Item = &'a Workload>,
    ) -> Self {
        let half = Millicores::new(guard.get() / 2);
        let wanted = half + Millicores::new(guard.get() / 4);
        let more = if idle > guard + guard {
            // Others have stopped, and it is let go soon.
            idle
        } else if idle > guard {
            // Down to where something would be taken: what the others leave tends to grow.
            idle.saturating_sub(half)
        } else {
            Millicores::ZERO
        };
        let less = if idle < half { wanted.saturating_sub(idle) } else { Millicores::ZERO };
        let takes_part =
            |workload: &&Workload| less > Millicores::ZERO || workload.is_throttled_now();
        let weights = workloads
            .filter(takes_part)
            .map(|workload| u64::from(workload.weight.thousandths()))
            .sum();
        Self { more, less, weights }
    }

    /// What a contained workload may use from now on.
    fn follow(&self, workload: &Workload, recent: &Signal) -> Millicores {
        let part = Millicores::new(u64::from(workload.weight.thousandths()));
        let whole = Millicores::new(self.weights.max(part.get()));
        let more = if workload.is_throttled_now() { self.more } else { Millicores::ZERO };
        (recent.usage + more.share_floor(part, whole))
            .saturating_sub(self.less.share_floor(part, whole))
    }
}

// === impl Appetite ===

impl Appetite {
    /// A second passed that began then. A workload that waits for a CPU, or for its quota, all the
    /// time would use more if it could.
    pub(super) fn second_passed(&mut self, signal: &Signal, began: Moment, patience: Span) {
        let hungry = signal.stall_ratio >= HUNGRY_STALL || signal.period_ratio >= HUNGRY_PERIODS;
        if hungry != self.is_hungry {
            (self.is_hungry, self.since) = (hungry, began);
        }
        let lasted = (began + signal.window).since(self.since);
        if lasted >= patience {
            self.is_elastic = hungry;
        }
    }
}

// === impl Node ===

impl Node {
    /// Decides who is contained until the next clearing.
    pub(super) fn contain_elastic(&mut self, now: Moment) {
        let scarce = self.machine.is_scarce() == Some(true);
        let idle = self.idle_now();
        let waiting = if scarce { self.somebody_waiting() } else { None };
        for place in 0..self.workloads.len() {
            let workload = &mut self.workloads[place];
            let was = workload.containment.is_some();
            let stays = was && scarce && workload.is_held_back();
            let starts = !was && waiting.is_some() && workload.is_elastic();
            match (&waiting, was) {
                (Some(waiting), false) if starts => {
                    let waiting = waiting.clone();
                    workload.containment =
                        Some(Containment { waiting: waiting.clone(), idle, since: now });
                    workload.contained_at = Some(workload.in_force.limit);
                    workload.was_released = false;
                    let uid = workload.uid().clone();
                    self.note(Note::ContainedFor { uid, waiting, idle });
                }
                (_, true) if !stays => {
                    workload.containment = None;
                    workload.contained_at = None;
                    workload.was_released = true;
                    let uid = workload.uid().clone();
                    self.note(Note::Released { uid });
                }
                _ => {}
            }
        }
        self.machine
            .hold_scarce(self.workloads.iter().any(|workload| workload.containment.is_some()));
    }

    /// Lets the caps of contained workloads follow what is idle. `looked_at` are the places of
    /// those that were seen since their last change took effect.
    pub(super) fn follow_contained(
        &mut self,
        looked_at: &[usize],
        kernel_weights: &[KernelWeight],
        now: Moment,
        actions: &mut Vec<(usize, Action)>,
    ) {
        let (idle, guard, capacity) = (self.idle_now(), self.guard(), self.capacity);
        let much = idle > guard;
        let share = Share::of(idle, guard, looked_at.iter().map(|&place| &*self.workloads[place]));
        for &place in looked_at {
            let workload = &mut self.workloads[place];
            let (Some(containment), Some(recent)) = (&workload.containment, workload.recent) else {
                continue;
            };
            let grant = workload.grant.map_or(Millicores::ZERO, |grant| grant.amount);
            let mut cap = share.follow(workload, &recent);
            if much {
                // Nothing is taken while much is idle.
                cap = cap.max(workload.in_force.limit.min(capacity));
            }
            let cap = cap
                .max(grant)
                .max(workload.bounds.min())
                .round_up_to(self.profile.rounding_milli)
                .min(workload.bounds.max());
            // What a limit has above the whole node is not worth steps of its own.
            let present = workload.in_force.limit.min(capacity.max(cap));
            let cap = smooth::limit_step(&self.profile, present, cap);
            let why = Why::Contained { waiting: containment.waiting.clone(), idle, grant };
            if workload.is_worth_a_change(cap, much, &self.profile, now) {
                workload.contained_at = Some(cap);
                let known = workload.in_force.weight;
                workload.in_force.weight = known.or_else(|| kernel_weights.get(place).copied());
                workload.boost.raised(cap, &self.profile, now);
                actions.push((place, workload.set_cap(cap, why, now)));
            }
        }
    }

    /// A workload that waits for a CPU though it uses less than it was granted.
    fn somebody_waiting(&self) -> Option<crate::units::WorkloadUid> {
        let waits = |workload: &&alloc::boxed::Box<Workload>| {
            let Some(second) = workload.second else {
                return false;
            };
            let granted = workload.grant.map_or(Millicores::ZERO, |grant| grant.amount);
            let stalled = Millicores::from_cores(1).scale_floor(second.stall_ratio);
            second.stall_ratio >= WAITING_STALL
                && stalled >= second.usage.scale_floor(WAITING_PART)
                && second.usage < granted
                && workload.containment.is_none()
                && !workload.is_elastic()
        };
        self.workloads.iter().find(waits).map(|workload| workload.uid().clone())
    }
}

// === impl Workload ===

impl Workload {
    /// Whether it takes all it can get, and has done so for longer than a burst lasts.
    pub(super) fn is_elastic(&self) -> bool {
        let is_elastic = match self.nature {
            Nature::Service => false,
            Nature::Batch => true,
            Nature::Unknown => self.appetite.is_elastic,
        };
        let above_right = self.second.is_some_and(|second| second.usage > self.bounds.min());
        is_elastic && above_right
    }

    /// Whether its cap is what keeps it from using more.
    fn is_held_back(&self) -> bool {
        let cap = self.in_force.limit.scale_floor(HELD_BACK_USAGE);
        self.second
            .is_none_or(|second| second.usage >= cap || second.period_ratio >= HUNGRY_PERIODS)
    }

    /// Whether its cap held it back when it was last looked at.
    fn is_throttled_now(&self) -> bool {
        self.recent.is_some_and(|recent| recent.throttled_periods > 0)
    }

    fn is_worth_a_change(
        &self,
        cap: Millicores,
        much_idle: bool,
        profile: &Profile,
        now: Moment,
    ) -> bool {
        let in_force = self.in_force.limit;
        if much_idle {
            return cap > in_force;
        }
        let rested = self.last_change.is_none_or(|at| now >= at + profile.cooldown_ms);
        // What comes back is taken at once; what is given up can wait for the cooldown.
        smooth::exceeds(cap, in_force, profile.raise_band)
            || (rested && smooth::falls_below(cap, in_force, profile.shrink_band))
    }
}
