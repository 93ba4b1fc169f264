//! From needs to bids: where learning is on, each workload's table picks how hard to bid, in two
//! passes with the price in between.
//!
//! Where it is off, a bid is the need and the workload's own weight, and the market is cleared
//! once.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::workload::{Lesson, Workload};
use super::{Node, TABLES_MAX};
use crate::learn::{self, Action, Experience, LearnConfig, QTable, State};
use crate::market::{self, Bid, Clearing, SURVIVAL_FLOOR, Terms};
use crate::profile::{CapRule, Estimator, Profile};
use crate::units::{FamilyKey, Millicores, Ratio};

impl Node {
    /// Clears the market with the workloads' bids.
    pub(super) fn clear_with_bids(&mut self) -> Clearing {
        let measured = self.profile.cap_rule == CapRule::Loose;
        let terms = Terms {
            capacity: if measured { self.divisible() } else { self.capacity },
            fairness: self.profile.fairness,
            demand_capped: self.profile.demand_capped,
            previous_mode: self.cleared.then_some(self.mode),
            scarce: if measured { self.machine.is_scarce() } else { None },
            weight_unit: market::mean_weight(self.workloads.iter().map(|workload| workload.weight)),
        };
        if !self.profile.learning {
            let profile = &self.profile;
            let bids: Vec<Bid> =
                self.workloads.iter().map(|workload| plain_bid(workload, profile)).collect();
            return market::clear(&terms, &bids);
        }
        self.learn_from_last_clearing();
        // First pass: what everyone would bid if nothing were scarce makes the price.
        let first: Vec<Bid> = self
            .workloads
            .iter()
            .map(|workload| {
                let action = self.table(workload).best(observe(workload), Ratio::ZERO);
                learned_bid(workload, action, Ratio::ZERO, &self.profile)
            })
            .collect();
        let price = market::clear(&terms, &first).price;
        let second: Vec<Bid> =
            (0..self.workloads.len()).map(|place| self.bid_at(place, price)).collect();
        market::clear(&terms, &second)
    }

    /// Second pass: the price may change the action, and lowers what is asked for.
    fn bid_at(&mut self, place: usize, price: Ratio) -> Bid {
        let workload = &mut self.workloads[place];
        let state = observe(workload);
        let table =
            self.tables.get_mut(&workload.family).expect("every workload was given a table");
        let action = table.choose(state, price);
        workload.lesson =
            Some(Lesson { state, action, allocation_before: workload.in_force.limit });
        workload.target_factor = target_factor(action);
        learned_bid(workload, action, price, &self.profile)
    }

    /// Rewards what was done at the last clearing, now that its outcome is known.
    fn learn_from_last_clearing(&mut self) {
        let config = self.learn_config();
        self.forget_unused_tables();
        for place in 0..self.workloads.len() {
            let family = self.workloads[place].family.clone();
            if !self.tables.contains_key(&family) {
                let table = QTable::new(self.table_seed(&family), &config);
                self.tables.insert(family.clone(), table);
            }
            let workload = &self.workloads[place];
            let (Some(lesson), Some(signal)) = (workload.lesson, workload.signal) else {
                continue;
            };
            // What was not done teaches nothing.
            if workload.held_below {
                continue;
            }
            let reward = learn::reward(&learn::Outcome {
                usage: signal.usage,
                throttling: signal.throttle_ratio,
                allocation: workload.in_force.limit,
                previous_allocation: Some(lesson.allocation_before),
                slo_violated: workload.latency_missed,
            });
            let experience = Experience {
                state: lesson.state,
                action: lesson.action,
                reward,
                next: observe(workload),
            };
            if let Some(table) = self.tables.get_mut(&family) {
                table.update(&experience, &config);
            }
        }
    }

    fn table(&self, workload: &Workload) -> &QTable {
        self.tables.get(&workload.family).expect("every workload was given a table")
    }

    /// Forgets the tables of families without a workload, if there are too many.
    fn forget_unused_tables(&mut self) {
        if self.tables.len() <= TABLES_MAX {
            return;
        }
        let used: BTreeSet<&FamilyKey> =
            self.workloads.iter().map(|workload| &workload.family).collect();
        self.tables.retain(|family, _| used.contains(family));
    }

    pub(super) fn learn_config(&self) -> LearnConfig {
        LearnConfig {
            learning_rate: self.profile.learning_rate.to_f64(),
            discount: self.profile.learning_discount.to_f64(),
            exploration_start: self.profile.exploration_start.to_f64(),
            exploration_floor: self.profile.exploration_floor.to_f64(),
            ..LearnConfig::DEFAULT
        }
    }

    /// A seed of its own for each family (FNV-1a of its name), so that not all explore alike.
    pub(super) fn table_seed(&self, family: &FamilyKey) -> u64 {
        let start = 0xCBF2_9CE4_8422_2325 ^ u64::from(self.profile.exploration_seed);
        family
            .as_str()
            .bytes()
            .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3))
    }
}

fn plain_bid(workload: &Workload, profile: &Profile) -> Bid {
    let need = workload.need.unwrap_or(workload.bounds.min());
    Bid::by_right(profile.cap_rule, workload.bounds, need, workload.weight)
}

/// A bid by a learned action: the weight is scaled, and with the documents' estimator so is what is
/// asked for; the window estimator is steered by its throttle target instead.
fn learned_bid(workload: &Workload, action: Action, price: Ratio, profile: &Profile) -> Bid {
    let need = workload.need.unwrap_or(workload.bounds.min());
    let asked = match (profile.estimator, workload.signal) {
        (Estimator::Spec, Some(signal)) => {
            learn::asked(signal.usage.max(SURVIVAL_FLOOR), signal.throttle_ratio, action)
        }
        // A workload of which nothing is known yet asks for what was estimated.
        (Estimator::Spec, None) | (Estimator::Window, _) => need,
    };
    let asked = asked.scale_floor(learn::price_demand_factor(price));
    let weight = workload.weight.scale_nearest(action.weight_factor());
    Bid::by_right(profile.cap_rule, workload.bounds, asked, weight)
}

/// How much throttling a learned action tolerates, against the profile's target.
const fn target_factor(action: Action) -> Ratio {
    match action {
        Action::Aggressive => Ratio::from_percent(50),
        Action::Normal => Ratio::ONE,
        Action::Conservative => Ratio::from_percent(200),
    }
}

fn observe(workload: &Workload) -> State {
    let throttling = workload.signal.map_or(Ratio::ZERO, |signal| signal.throttle_ratio);
    State::observe(usage(workload), throttling, workload.in_force.limit)
}

fn usage(workload: &Workload) -> Millicores {
    workload.signal.map_or(SURVIVAL_FLOOR, |signal| signal.usage.max(SURVIVAL_FLOOR))
}
