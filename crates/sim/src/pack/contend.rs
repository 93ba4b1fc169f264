//! Who gets what on one node within a window of five minutes, second by second where it matters.
//!
//! A service wants what it wants at once; what it does not get is left over for the next second,
//! and is given up by whoever asked for it when it is ten seconds of work. Batch work wants as many
//! cores as it has threads until its queue is empty. Where all of it does not fit, CPU is shared as
//! the kernel shares it: by weight, which Kubernetes makes of requests, and nobody gets more than
//! it wants. Where it fits by five standard deviations, no second is looked at.
//!
//! A second is missed by a pod that gets less than 95 % of what it wants, and breaks its right if
//! that is also less than 95 % of what its owner declared. A minute with such a second counts.

use super::noise::{Noise, STRETCH};

/// Seconds of a window.
pub(super) const SECONDS: usize = 300;
/// Seconds of a stretch in which the load's level is the same.
const BLOCK: usize = 15;
/// Whoever gets this much of what it wants does not complain.
const ENOUGH: f64 = 0.95;
/// What is wanted but was not done in so many seconds is given up.
const PATIENCE_S: f64 = 10.0;
/// Standard deviations by which the mean has to fit where no second is looked at.
const SURE: f64 = 5.0;
/// Less than this is nothing, in cores.
const NOTHING: f64 = 0.001;

/// What a pod wants in a window, and what became of it. CPU is in cores, work in core-seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    /// What it wants on average; zero for batch work.
    pub(super) mean: f64,
    /// How much stretches of fifteen seconds differ.
    pub(super) block_spread: f64,
    /// How much seconds differ.
    pub(super) second_spread: f64,
    /// Where its noise begins.
    pub(super) place: u64,
    /// What it weighs.
    pub(super) weight: f64,
    /// What its owner declared.
    pub(super) right: f64,
    /// How many threads batch work has; zero for services.
    pub(super) threads: f64,
    /// What is left to do: the queue of batch work, or what a service could not do at once.
    pub(super) left: f64,
    /// What it got on average.
    pub(super) used: f64,
    /// In what part of the window it waited.
    pub(super) stalled: f64,
    /// The minutes in which its right was broken, one bit for each.
    pub(super) broken: u8,
    /// The minutes in which it did not get what it wanted.
    pub(super) missed: u8,
}

/// Room to work in, kept between windows.
#[derive(Debug)]
pub(super) struct Arena {
    total: Box<[f64; SECONDS]>,
    wants: Vec<f64>,
    gots: Vec<f64>,
    open: Vec<usize>,
    queues: Vec<usize>,
}

// === impl Load ===

impl Load {
    fn is_batch(&self) -> bool {
        self.threads > 0.0
    }

    fn wants_of_queue(&self) -> f64 {
        // A service has no threads that would wait for its queue.
        self.left.min(self.threads)
    }

    /// What a service wants in a second, by the noise of its place.
    fn wants_at(&self, noise: &[f64; STRETCH], second: usize) -> f64 {
        // Blocks read the noise from the other end of the stretch.
        let level = 1.0 + self.block_spread * noise[STRETCH - 1 - second / BLOCK];
        self.mean * (level + self.second_spread * noise[second]).max(0.0)
    }

    /// A second has passed in which it got something. What a service wants is in `used` already.
    fn got(&mut self, wanted: f64, got: f64, second: usize) {
        if self.is_batch() {
            self.used += got;
            self.left -= got;
        } else {
            self.left = (wanted - got).clamp(0.0, PATIENCE_S * self.mean);
            self.used -= wanted - got - self.left;
        }
        if got >= ENOUGH * wanted || wanted < NOTHING {
            return;
        }
        self.stalled += 1.0;
        let minute = 1 << (second / 60);
        self.missed |= minute;
        if got < ENOUGH * wanted.min(self.right) {
            self.broken |= minute;
        }
    }
}

// === impl Arena ===

impl Arena {
    pub(super) fn new() -> Self {
        let total = Box::new([0.0; SECONDS]);
        Self { total, wants: vec![], gots: vec![], open: vec![], queues: vec![] }
    }

    /// Lets a window pass on a node of so many cores.
    pub(super) fn pass(&mut self, noise: &Noise, capacity: f64, loads: &mut [Load]) {
        if fits_surely(capacity, loads) {
            loads.iter_mut().for_each(undisturbed);
            return;
        }
        self.add_up(noise, loads);
        let mut is_late = loads.iter().any(|load| !load.is_batch() && load.left > 0.0);
        self.queues.clear();
        self.queues.extend((0..loads.len()).filter(|place| loads[*place].is_batch()));
        for second in 0..SECONDS {
            let queued: f64 = self.queues.iter().map(|place| loads[*place].wants_of_queue()).sum();
            if !is_late && self.total[second] + queued <= capacity {
                for place in &self.queues {
                    let wanted = loads[*place].wants_of_queue();
                    loads[*place].got(wanted, wanted, second);
                }
                continue;
            }
            self.share(noise, capacity, loads, second);
            is_late = loads.iter().any(|load| !load.is_batch() && load.left > 0.0);
        }
        for load in loads {
            let late = if load.is_batch() { 0.0 } else { load.left };
            load.used = (load.used - late) / 300.0;
            load.stalled /= 300.0;
        }
    }

    fn wanted(&self, load: &Load, noise: &Noise, second: usize) -> f64 {
        if load.is_batch() {
            load.wants_of_queue()
        } else {
            load.wants_at(noise.stretch(load.place), second) + load.left
        }
    }

    /// What all services want, second by second.
    fn add_up(&mut self, noise: &Noise, loads: &mut [Load]) {
        self.total.fill(0.0);
        for load in loads.iter_mut().filter(|load| !load.is_batch()) {
            let noise = noise.stretch(load.place);
            let mut sum = 0.0;
            let blocks = self.total.as_chunks_mut::<BLOCK>().0.iter_mut();
            for (block, totals) in blocks.enumerate() {
                let level = 1.0 + load.block_spread * noise[STRETCH - 1 - block];
                let noise: &[f64; BLOCK] =
                    noise[block * BLOCK..].first_chunk().expect("a stretch is longer");
                for (total, noise) in totals.iter_mut().zip(noise) {
                    let wanted = load.mean * (level + load.second_spread * noise).max(0.0);
                    *total += wanted;
                    sum += wanted;
                }
            }
            load.used = sum + load.left;
        }
    }

    /// Shares a second by weight, and nobody gets more than it wants.
    fn share(&mut self, noise: &Noise, capacity: f64, loads: &mut [Load], second: usize) {
        self.wants.clear();
        for load in loads.iter() {
            let wanted = self.wanted(load, noise, second);
            self.wants.push(wanted);
        }
        self.gots.clear();
        self.gots.resize(loads.len(), 0.0);
        self.open.clear();
        self.open.extend((0..loads.len()).filter(|place| self.wants[*place] > 0.0));
        let mut room = capacity;
        loop {
            let weights: f64 = self.open.iter().map(|place| loads[*place].weight).sum();
            let pace = if weights > 0.0 { room / weights } else { 0.0 };
            let before = self.open.len();
            let (wants, gots) = (&self.wants, &mut self.gots);
            self.open.retain(|place| {
                let is_open = wants[*place] > loads[*place].weight * pace;
                if !is_open {
                    gots[*place] = wants[*place];
                    room -= wants[*place];
                }
                is_open
            });
            if self.open.len() == before {
                for place in &self.open {
                    self.gots[*place] = loads[*place].weight * pace;
                }
                break;
            }
        }
        for ((load, wanted), got) in loads.iter_mut().zip(&self.wants).zip(&self.gots) {
            load.got(*wanted, *got, second);
        }
    }
}

/// Whether all of it fits, by so many deviations that nobody has to look.
fn fits_surely(capacity: f64, loads: &[Load]) -> bool {
    let (mut mean, mut variance) = (0.0, 0.0);
    for load in loads {
        let spread = load.block_spread.powi(2) + load.second_spread.powi(2);
        mean += if load.is_batch() { load.wants_of_queue() } else { load.mean + load.left };
        variance += load.mean * load.mean * spread;
    }
    mean + SURE * variance.sqrt() <= capacity
}

/// Everybody got what it wanted.
fn undisturbed(load: &mut Load) {
    if load.is_batch() {
        let done = load.left.min(load.threads * 300.0);
        load.left -= done;
        load.used = done / 300.0;
    } else {
        load.used = load.mean + load.left / 300.0;
        load.left = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(mean: f64, weight: f64, right: f64) -> Load {
        Load { mean, weight, right, ..Load::default() }
    }

    fn pass(capacity: f64, loads: &mut [Load]) {
        Arena::new().pass(&Noise::new(), capacity, loads);
    }

    #[test]
    fn where_all_fits_nobody_misses_anything() {
        let mut loads = [service(1.0, 1.0, 1.0), service(2.0, 1.0, 1.0)];
        pass(3.0, &mut loads);
        assert_eq!(loads.map(|load| (load.used, load.missed)), [(1.0, 0), (2.0, 0)]);
    }

    #[test]
    fn a_right_is_broken_only_below_what_was_declared() {
        // Three cores are wanted of two, and all weigh the same.
        let mut loads = [service(0.5, 1.0, 1.0), service(1.25, 1.0, 0.7), service(1.25, 1.0, 1.0)];
        pass(2.0, &mut loads);
        let told = loads.map(|load| (load.missed, load.broken));
        // The small one gets all it wants; the others 0.75, which is enough for the first right.
        assert_eq!(told, [(0, 0), (31, 0), (31, 31)]);
        assert!(loads.iter().map(|load| load.used).sum::<f64>() < 2.0 + 1e-9);
        assert!((loads[1].used - 0.75).abs() < 1e-6, "{}", loads[1].used);
    }

    #[test]
    fn cpu_goes_by_weight_and_what_nobody_wants_is_not_lost() {
        let mut loads = [service(4.0, 3.0, 1.0), service(4.0, 1.0, 1.0), service(0.2, 9.0, 1.0)];
        pass(4.2, &mut loads);
        let used = loads.map(|load| (load.used * 1000.0).round());
        assert_eq!(used, [3000.0, 1000.0, 200.0]);
    }

    #[test]
    fn batch_work_does_what_is_queued_with_its_threads_and_keeps_the_rest() {
        let batch = Load { threads: 2.0, left: 500.0, weight: 1.0, right: 1.0, ..Load::default() };
        let mut alone = [batch];
        pass(4.0, &mut alone);
        assert_eq!((alone[0].used * 300.0, alone[0].left, alone[0].missed), (500.0, 0.0, 0));
        let mut beside = [batch, service(3.0, 3.0, 3.0)];
        pass(4.0, &mut beside);
        assert!((beside[0].used - 1.0).abs() < 1e-9 && (beside[0].left - 200.0).abs() < 1e-6);
        assert_eq!((beside[0].broken, beside[1].missed), (0, 0), "it had its right");
    }

    #[test]
    fn what_is_not_looked_at_second_by_second_would_have_been_the_same() {
        let noise = Noise::new();
        let load = |place| Load {
            block_spread: 0.15,
            second_spread: 0.3,
            place,
            ..service(0.3, 1.0, 1.0)
        };
        let mut disturbed = 0;
        for round in 0..200 {
            let loads: Vec<Load> = (0..20).map(|pod| load(round * 1000 + pod * 37)).collect();
            let sum = 6.0 + SURE * 0.3 * (20.0_f64 * (0.15 * 0.15 + 0.3 * 0.3)).sqrt();
            assert!(fits_surely(sum, &loads));
            let mut arena = Arena::new();
            arena.add_up(&noise, &mut loads.clone());
            disturbed += arena.total.iter().filter(|total| **total > sum).count();
        }
        assert!(disturbed < 10, "{disturbed} of 60000 seconds");
    }
}
