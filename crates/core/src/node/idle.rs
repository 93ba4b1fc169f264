//! How much of the machine is idle: what scarcity is judged by.
//!
//! Needs are peaks, and a sum of peaks is not the peak of a sum: workloads whose needs add up to
//! more than the node may never want them at once. So the node is told what the machine's own
//! counters say, and CPU is scarce only if next to nothing of it was idle for a while. Two windows
//! are kept: the latest look, for raises that cannot wait, and whole seconds, for how the market
//! stands.
//!
//! Always: scarcity begins and ends only after it was seen for as long as the profile says, unless
//! much is idle, which ends it at once. Without such counters nothing is known, and the sums
//! decide.

use super::Node;
use crate::profile::Profile;
use crate::units::{Millicores, Moment, Ratio, Span};

/// A second may be this much shorter, since no look is exactly on time.
const SECOND_AT_LEAST: Span = Span::from_ms(900);
/// A look shorter than this is noise.
const LOOK_AT_LEAST: Span = Span::from_ms(50);

/// Below this part of the capacity, the machine is smaller and not just measured inexactly.
const CLEARLY: Ratio = Ratio::from_percent(90);

/// The machine's counters at one moment, over all CPUs that workloads may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineSample {
    /// When they were read.
    pub at: Moment,
    /// CPU time that was idle so far, on all CPUs together.
    pub idle: Span,
    /// CPU time that was used so far, by what we size and by all else.
    pub busy: Span,
}

/// What the machine did between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineUse {
    /// What was idle.
    pub idle: Millicores,
    /// What was used.
    pub busy: Millicores,
}

/// What is known of the machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    latest: Option<MachineSample>,
    second_from: Option<MachineSample>,
    look: Option<MachineUse>,
    second: Option<MachineUse>,
    /// Since when the judgement would be the other one than `scarce`.
    differs_since: Option<Moment>,
    scarce: bool,
    /// Whether workloads are contained, which keeps idle what is idle.
    held: bool,
}

// === impl Machine ===

impl Machine {
    /// Takes in the counters. What is old, or went backwards, only starts afresh.
    pub(super) fn sampled(&mut self, sample: MachineSample, guard: Millicores, profile: &Profile) {
        let (Some(latest), Some(from)) = (self.latest, self.second_from) else {
            (self.latest, self.second_from) = (Some(sample), Some(sample));
            return;
        };
        let Some(look) = MachineUse::between(&latest, &sample) else {
            (self.latest, self.second_from) = (Some(sample), Some(sample));
            return;
        };
        if sample.at.since(latest.at) >= LOOK_AT_LEAST {
            self.look = Some(look);
            self.latest = Some(sample);
        }
        if sample.at.since(from.at) < SECOND_AT_LEAST {
            return;
        }
        self.second = MachineUse::between(&from, &sample);
        self.second_from = Some(sample);
        if let Some(second) = self.second {
            self.judge(second.idle, guard, from.at, profile);
        }
    }

    /// While workloads are contained, what is idle is kept near the guard on purpose and says
    /// nothing: scarcity ends only when much is idle.
    pub(super) const fn hold_scarce(&mut self, contained: bool) {
        self.held = contained;
    }

    /// Its counters as they were last read.
    pub(super) const fn latest(&self) -> Option<MachineSample> {
        self.latest
    }

    /// What the machine did since the look before the last one.
    pub(super) const fn look(&self) -> Option<MachineUse> {
        self.look
    }

    /// What the machine did in the last whole second.
    pub(super) const fn second(&self) -> Option<MachineUse> {
        self.second
    }

    /// The whole machine, where it is clearly less than `capacity`: the settings may say that
    /// there is more to divide than there is, and a part of that may never be idle.
    fn smaller_than(&self, capacity: Millicores) -> Option<Millicores> {
        let second = self.second?;
        let whole = second.idle + second.busy;
        (whole < capacity.scale_floor(CLEARLY)).then_some(whole)
    }

    /// Whether CPU is scarce; nothing where that is not known.
    pub(super) fn is_scarce(&self) -> Option<bool> {
        self.second.map(|_| self.scarce)
    }

    fn judge(&mut self, idle: Millicores, guard: Millicores, began: Moment, profile: &Profile) {
        let ended = self.second_from.map_or(began, |sample| sample.at);
        let much = guard + guard;
        if self.scarce && idle > much {
            (self.scarce, self.differs_since) = (false, None);
            return;
        }
        let seems_scarce = idle < guard;
        if seems_scarce == self.scarce || (self.scarce && self.held) {
            self.differs_since = None;
            return;
        }
        let since = *self.differs_since.get_or_insert(began);
        if ended.since(since) >= profile.scarce_after_ms {
            (self.scarce, self.differs_since) = (seems_scarce, None);
        }
    }
}

// === impl MachineUse ===

impl MachineUse {
    pub(super) fn between(older: &MachineSample, newer: &MachineSample) -> Option<Self> {
        let window_us = newer.at.since(older.at).as_us();
        let idle_us = newer.idle.as_us().checked_sub(older.idle.as_us())?;
        let busy_us = newer.busy.as_us().checked_sub(older.busy.as_us())?;
        let rate = |us: u64| Millicores::new(Ratio::of(us, window_us).millionths() / 1000);
        (window_us > 0).then(|| Self { idle: rate(idle_us), busy: rate(busy_us) })
    }
}

// === impl Node ===

impl Node {
    /// The machine's counters were read.
    pub fn machine_sampled(&mut self, sample: MachineSample) {
        let guard = self.guard();
        self.machine.sampled(sample, guard, &self.profile);
    }

    /// How much is kept idle, so that a workload that wakes up need not wait for its turn.
    #[must_use]
    pub fn guard(&self) -> Millicores {
        let size = self.machine.smaller_than(self.capacity).unwrap_or(self.capacity);
        let part = size.scale_floor(self.profile.idle_guard);
        part.max(self.profile.idle_guard_floor_milli).min(size)
    }

    /// What the machine did in the last second; nothing where that is not known.
    #[must_use]
    pub const fn machine_use(&self) -> Option<MachineUse> {
        self.machine.second()
    }

    /// What those use who are not sized here; nothing where that is not known.
    #[must_use]
    pub fn unmanaged(&self) -> Option<Millicores> {
        let busy = self.machine.second()?.busy;
        let managed: Millicores = self
            .workloads
            .iter()
            .filter_map(|workload| workload.signal)
            .map(|signal| signal.usage)
            .sum();
        Some(busy.saturating_sub(managed))
    }

    /// What there is for the workloads: the capacity, less what others use of it. The reserve
    /// between capacity and machine is used up first.
    pub(super) fn divisible(&self) -> Millicores {
        let (Some(second), Some(unmanaged)) = (self.machine.second(), self.unmanaged()) else {
            return self.capacity;
        };
        let whole = second.idle + second.busy;
        self.capacity.min(whole.saturating_sub(unmanaged))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    /// The idle CPU of each second, on two cores; says what is judged after each.
    fn judged(idle: &[u64], profile: &Profile) -> String {
        let guard = Millicores::new(200);
        let mut machine = Machine::default();
        let mut sample = MachineSample::default();
        machine.sampled(sample, guard, profile);
        let mut said = String::new();
        for &milli in idle {
            sample.at = sample.at + Span::from_s(1);
            sample.idle = Span::from_us(sample.idle.as_us() + milli * 1000);
            sample.busy = Span::from_us(sample.busy.as_us() + (2000 - milli) * 1000);
            machine.sampled(sample, guard, profile);
            said.push(if machine.is_scarce() == Some(true) { 'x' } else { '.' });
        }
        said
    }

    #[test]
    fn scarcity_begins_after_two_seconds_and_ends_as_slowly_or_at_once_when_much_is_idle() {
        let direct = Profile::DIRECT;
        assert_eq!(judged(&[900, 0, 0, 0, 900, 0], &direct), "..xx..");
        assert_eq!(judged(&[0, 199, 201, 0, 100], &direct), ".xxxx");
        assert_eq!(judged(&[0, 0, 250, 250, 250], &direct), ".xx..");
        assert_eq!(judged(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &Profile::API), ".........xx");
    }

    #[test]
    fn the_guard_is_a_part_of_the_machine_where_that_is_less_than_the_capacity() {
        let guard = |capacity: u32| {
            let mut node = Node::new(Millicores::from_cores(capacity), Profile::DIRECT);
            for second in 0..3 {
                // Four cores, of which three are idle.
                node.machine_sampled(MachineSample {
                    at: Moment::from_ms(second * 1000),
                    idle: Span::from_s(3 * second),
                    busy: Span::from_s(second),
                });
            }
            node.guard().get()
        };
        assert_eq!(guard(4), 400);
        assert_eq!(guard(2), 200);
        assert_eq!(guard(100), 400, "ten cores are never idle on four");
    }

    #[test]
    fn counters_that_went_backwards_start_afresh() {
        let (guard, profile) = (Millicores::new(200), Profile::DIRECT);
        let mut machine = Machine::default();
        let sample = |second: u64, idle: u64| MachineSample {
            at: Moment::from_ms(second * 1000),
            idle: Span::from_s(idle),
            busy: Span::from_s(second),
        };
        for one in [sample(1, 50), sample(2, 51), sample(3, 4), sample(4, 5)] {
            machine.sampled(one, guard, &profile);
        }
        let expected = MachineUse { idle: Millicores::from_cores(1), busy: Millicores::new(1000) };
        assert_eq!(machine.second(), Some(expected));
        assert_eq!(machine.is_scarce(), Some(false));
    }
}
