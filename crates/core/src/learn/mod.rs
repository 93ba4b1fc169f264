//! The bidder: how boldly a workload asks for CPU, learnt by Q-learning over 27 states and three
//! actions.
//!
//! The node keeps one [`QTable`] per family, asks it to [`QTable::choose`] before
//! a round, scores the round with [`reward`], and feeds the score back through [`QTable::update`].
//!
//! What always holds: every stored value is finite and at most [`VALUE_LIMIT`] in size, so a table
//! that was saved can be loaded again, bit for bit. Only addition, subtraction, multiplication,
//! division and comparison touch a float, so the same history gives the same table on every
//! machine. The generator is part of the table, and every choice draws the same number of times.

mod saved;

use core::fmt;

use crate::rng::Rng;
use crate::units::{Millicores, Ratio};

pub use saved::{SAVED_BYTES_MAX, TableNote};

/// The number of states: three levels each of usage, throttling and allocation.
pub const STATES: usize = 27;
/// The largest size of a stored value. Honest learning stays far below it.
pub const VALUE_LIMIT: f64 = 1e9;
/// The largest size of a reward that [`QTable::update`] takes at its word.
pub const REWARD_LIMIT: f64 = 1000.0;
/// The most the waste of one round can cost: half of what a violated objective does.
pub const WASTE_PENALTY_MAX: f64 = 50.0;

/// Above this price, bidding high is discouraged.
const PRICE_THRESHOLD: Ratio = Ratio::from_percent(30);
/// The least divisor of a term relative to usage, so that an idle workload has a finite reward.
const USAGE_DIVISOR_MIN: Millicores = Millicores::new(10);

/// What a workload looks like to its bidder: usage, throttling and allocation at three levels each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State(u8);

/// How a workload bids, from boldest to most modest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Ask for half as much again as is used, with a raised weight.
    Aggressive,
    /// Ask for a fifth more than is used, with the weight as it is.
    Normal,
    /// Ask for what is used, with a lowered weight.
    Conservative,
}

/// How fast a table learns and how much it explores. See [`LearnConfig::DEFAULT`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearnConfig {
    /// The share of each surprise that is learnt, from 0 to 1.
    pub learning_rate: f64,
    /// What a reward one round later is worth against one now, from 0 to below 1.
    pub discount: f64,
    /// The probability of a random action in a fresh table, from 0 to 1. A loaded table never
    /// explores more than this, so 0 turns exploration off.
    pub exploration_start: f64,
    /// The probability below which the decay does not go.
    pub exploration_floor: f64,
    /// The factor on the probability after each update.
    pub exploration_decay: f64,
}

/// What came of one round for one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The CPU the workload used.
    pub usage: Millicores,
    /// The share of periods in which it was throttled.
    pub throttling: Ratio,
    /// The CPU it was given.
    pub allocation: Millicores,
    /// The CPU it was given in the round before, if there was one.
    pub previous_allocation: Option<Millicores>,
    /// Whether its objective was violated.
    pub slo_violated: bool,
}

/// One step to learn from: in `state`, `action` earned `reward` and led to `next`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experience {
    /// The state the action was chosen in.
    pub state: State,
    /// The action that was chosen.
    pub action: Action,
    /// What it earned. A value that is not finite counts as 0, a larger one as [`REWARD_LIMIT`].
    pub reward: f64,
    /// The state afterwards.
    pub next: State,
}

/// What one family has learnt, and the generator its exploration draws from.
#[derive(Clone, Debug, PartialEq)]
pub struct QTable {
    values: [[f64; Action::ALL.len()]; STATES],
    epsilon: f64,
    generator: Rng,
    updates: u64,
}

/// What a round was worth. Finite for every outcome.
///
/// The terms, in the order they are added:
/// - 10 if the allocation covered the usage, else -20 times the missing share of the usage;
/// - -30 times the throttle ratio, and -100 if the objective was violated;
/// - -5 times what exceeds twice the usage, relative to it, at most [`WASTE_PENALTY_MAX`];
/// - 5 if there was practically no throttling (below 0.01);
/// - against the previous allocation, if that was not zero: -10 times the relative change beyond
///   0.2, or 2 if it was below 0.05.
///
/// Usage counts as at least 10m where it divides. Waste is capped so that one idle workload with a
/// huge allocation does not drown everything else the table knows.
#[must_use]
pub fn reward(outcome: &Outcome) -> f64 {
    let Outcome { usage, throttling, allocation, previous_allocation, slo_violated } = *outcome;
    let divisor = to_f64(usage.max(USAGE_DIVISOR_MIN));

    let mut total = if allocation >= usage {
        10.0
    } else {
        -20.0 * (to_f64(usage.saturating_sub(allocation)) / divisor)
    };
    total -= 30.0 * throttling.to_f64();
    if slo_violated {
        total -= 100.0;
    }
    let waste = allocation.saturating_sub(usage + usage);
    total -= (5.0 * (to_f64(waste) / divisor)).min(WASTE_PENALTY_MAX);
    if throttling < Ratio::from_percent(1) {
        total += 5.0;
    }
    if let Some(previous) = previous_allocation.filter(|previous| *previous > Millicores::ZERO) {
        let change = to_f64(allocation.abs_diff(previous)) / to_f64(previous);
        if change > 0.2 {
            total -= 10.0 * (change - 0.2);
        } else if change < 0.05 {
            total += 2.0;
        }
    }
    total
}

/// What a workload asks for by `action`, before the price: its usage times the action's factor.
/// Throttling hides what it would use, so above a twentieth of it the answer grows with it, up to
/// three times.
#[must_use]
pub fn asked(usage: Millicores, throttling: Ratio, action: Action) -> Millicores {
    const COUNTS_ABOVE: Ratio = Ratio::from_percent(5);
    const MOST: Ratio = Ratio::from_percent(300);
    let asked = usage.scale_floor(action.demand_factor());
    if throttling <= COUNTS_ABOVE {
        return asked;
    }
    asked.scale_floor((Ratio::ONE + throttling + throttling).min(MOST))
}

/// What the price does to demand: `max(0.5, 1 - price / 2)` above a price of 0.3, else one. Rounded
/// up to a millionth.
#[must_use]
pub fn price_demand_factor(price: Ratio) -> Ratio {
    const HALF: Ratio = Ratio::from_percent(50);
    if price > PRICE_THRESHOLD {
        price.times_floor(HALF).complement().max(HALF)
    } else {
        Ratio::ONE
    }
}

#[expect(clippy::cast_precision_loss, reason = "scores only; exact up to nine trillion cores")]
fn to_f64(cpu: Millicores) -> f64 {
    cpu.get() as f64
}

/// Between 0 and 1; 0 for what is not a number.
fn probability(number: f64) -> f64 {
    if number > 0.0 { number.min(1.0) } else { 0.0 }
}

// === impl State ===

impl State {
    /// The state of a workload that used `usage` of its `allocation`.
    #[must_use]
    pub fn observe(usage: Millicores, throttling: Ratio, allocation: Millicores) -> Self {
        let usage_level = if usage > Millicores::new(1000) {
            2
        } else if usage > Millicores::new(500) {
            1
        } else {
            0
        };
        let throttle_level = if throttling > Ratio::from_percent(30) {
            2
        } else if throttling > Ratio::from_percent(10) {
            1
        } else {
            0
        };
        let allocation_level = if allocation < usage {
            0
        } else if allocation > usage + usage {
            2
        } else {
            1
        };
        Self(usage_level * 9 + throttle_level * 3 + allocation_level)
    }

    /// The state with this number, if there is one.
    #[must_use]
    pub fn from_index(index: u8) -> Option<Self> {
        (usize::from(index) < STATES).then_some(Self(index))
    }

    /// The number of the state, below [`STATES`].
    #[must_use]
    pub const fn index(self) -> u8 {
        self.0
    }

    /// Every state, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=u8::MAX).map_while(Self::from_index)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = |names: [&'static str; 3], unit: u8| names[usize::from(self.0 / unit % 3)];
        let usage = level(["low", "medium", "high"], 9);
        let throttling = level(["none", "some", "high"], 3);
        let allocation = level(["low", "adequate", "excess"], 1);
        write!(f, "{usage}:{throttling}:{allocation}")
    }
}

// === impl Action ===

impl Action {
    /// Every action, in the order a saved table lists their values.
    pub const ALL: [Self; 3] = [Self::Aggressive, Self::Normal, Self::Conservative];

    /// What the action multiplies demand by.
    #[must_use]
    pub const fn demand_factor(self) -> Ratio {
        match self {
            Self::Aggressive => Ratio::from_percent(150),
            Self::Normal => Ratio::from_percent(120),
            Self::Conservative => Ratio::ONE,
        }
    }

    /// What the action multiplies the bargaining weight by.
    #[must_use]
    pub const fn weight_factor(self) -> Ratio {
        match self {
            Self::Aggressive => Ratio::from_percent(120),
            Self::Normal => Ratio::ONE,
            Self::Conservative => Ratio::from_percent(80),
        }
    }

    /// What a price adds to the value of the action while one is chosen.
    fn price_adjustment(self, price: Ratio) -> f64 {
        if price <= PRICE_THRESHOLD {
            return 0.0;
        }
        match self {
            Self::Aggressive => -5.0 * price.to_f64(),
            Self::Normal => 0.0,
            Self::Conservative => 2.0 * price.to_f64(),
        }
    }

    const fn column(self) -> usize {
        match self {
            Self::Aggressive => 0,
            Self::Normal => 1,
            Self::Conservative => 2,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Aggressive => "aggressive",
            Self::Normal => "normal",
            Self::Conservative => "conservative",
        })
    }
}

// === impl LearnConfig ===

impl LearnConfig {
    /// A learning rate of 0.1, a discount of 0.9, and exploration from 0.2 down to 0.01, a
    /// thousandth less after each update.
    pub const DEFAULT: Self = Self {
        learning_rate: 0.1,
        discount: 0.9,
        exploration_start: 0.2,
        exploration_floor: 0.01,
        exploration_decay: 0.999,
    };
}

impl Default for LearnConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

// === impl QTable ===

impl QTable {
    /// A table that has learnt nothing, exploring with the generator `seed` starts.
    #[must_use]
    pub fn new(seed: u64, config: &LearnConfig) -> Self {
        Self {
            values: [[0.0; Action::ALL.len()]; STATES],
            epsilon: probability(config.exploration_start),
            generator: Rng::from_seed(seed),
            updates: 0,
        }
    }

    /// What to bid in `state` at `price`: with the probability [`QTable::epsilon`] any action, else
    /// the best one.
    ///
    /// Draws from the generator exactly twice, whatever is decided: first whether to explore, then
    /// which action that would be. With an epsilon of 0 neither draw decides anything.
    pub fn choose(&mut self, state: State, price: Ratio) -> Action {
        let explores = self.generator.unit() < self.epsilon;
        let explored = match self.generator.below(3) {
            0 => Action::Aggressive,
            1 => Action::Normal,
            _ => Action::Conservative,
        };
        if explores { explored } else { self.best(state, price) }
    }

    /// The action of the highest value in `state`. Above a price of 0.3, five times the price
    /// counts against aggressive and twice the price for conservative; the table is unchanged.
    ///
    /// Ties prefer normal, then conservative: a table that has learnt nothing bids normally.
    #[must_use]
    pub fn best(&self, state: State, price: Ratio) -> Action {
        let worth = |action: Action| self.value(state, action) + action.price_adjustment(price);
        let mut best = Action::Normal;
        for action in [Action::Conservative, Action::Aggressive] {
            if worth(action) > worth(best) {
                best = action;
            }
        }
        best
    }

    /// Learns from one step, then explores a little less.
    ///
    /// Decay never raises epsilon: a table that starts below the floor stays there.
    pub fn update(&mut self, experience: &Experience, config: &LearnConfig) {
        let Experience { state, action, reward, next } = *experience;
        let reward =
            if reward.is_finite() { reward.clamp(-REWARD_LIMIT, REWARD_LIMIT) } else { 0.0 };
        let [first, second, third] = self.values[usize::from(next.0)];
        let future = first.max(second).max(third);

        let value = &mut self.values[usize::from(state.0)][action.column()];
        let learnt = *value + config.learning_rate * (reward + config.discount * future - *value);
        // Only a configuration out of its documented range can get here with something else.
        if learnt.is_finite() {
            *value = learnt.clamp(-VALUE_LIMIT, VALUE_LIMIT);
        }

        let decayed = (self.epsilon * config.exploration_decay).max(config.exploration_floor);
        self.epsilon = self.epsilon.min(probability(decayed));
        self.updates = self.updates.saturating_add(1);
    }

    /// What `action` in `state` is believed to be worth.
    #[must_use]
    pub fn value(&self, state: State, action: Action) -> f64 {
        self.values[usize::from(state.0)][action.column()]
    }

    /// The probability that the next choice is random.
    #[must_use]
    pub const fn epsilon(&self) -> f64 {
        self.epsilon
    }

    /// How many steps the table has learnt from.
    #[must_use]
    pub const fn updates(&self) -> u64 {
        self.updates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    const CHEAP: Ratio = Ratio::ZERO;

    /// The value of every indented `input => output` line, against what `answer` gives.
    fn check(fixture: &str, answer: impl Fn(&[&str]) -> String) {
        let cases: Vec<&str> = fixture.lines().filter(|line| line.starts_with("    ")).collect();
        assert!(cases.len() > 10, "the fixture lost its cases");
        for case in cases {
            let (input, expected) = case.trim().split_once(" => ").expect("a case has an arrow");
            let words: Vec<&str> = input.split(' ').collect();
            assert_eq!(answer(&words), expected, "{case}");
        }
    }

    fn cpu(text: &str) -> Millicores {
        Millicores::new(text.strip_suffix('m').unwrap().parse().unwrap())
    }

    #[expect(clippy::cast_possible_truncation, reason = "fixtures hold small ratios")]
    #[expect(clippy::cast_sign_loss, reason = "fixtures hold positive ratios")]
    fn ratio(text: &str) -> Ratio {
        Ratio::from_millionths((text.parse::<f64>().unwrap() * 1e6 + 0.5) as u64)
    }

    fn state(name: &str) -> State {
        State::all().find(|state| state.to_string() == name).expect(name)
    }

    fn step(from: &str, action: Action, reward: f64, to: &str) -> Experience {
        Experience { state: state(from), action, reward, next: state(to) }
    }

    fn fresh() -> QTable {
        QTable::new(1, &LearnConfig::DEFAULT)
    }

    #[test]
    fn a_state_is_three_levels() {
        check(include_str!("../../testdata/learn/state.txt"), |words| match words {
            ["usage", usage, "throttling", throttling, "allocation", allocation] => {
                State::observe(cpu(usage), ratio(throttling), cpu(allocation)).to_string()
            }
            other => panic!("not a case: {other:?}"),
        });
    }

    #[test]
    fn every_state_is_reachable_and_has_its_own_name() {
        let mut reached = BTreeSet::new();
        for usage in [300, 700, 1500] {
            for throttling in [5, 20, 50] {
                for allocation in [usage - 1, usage, 2 * usage + 1] {
                    reached.insert(State::observe(
                        Millicores::new(usage),
                        Ratio::from_percent(throttling),
                        Millicores::new(allocation),
                    ));
                }
            }
        }
        assert_eq!(reached.len(), STATES);
        assert!(reached.into_iter().eq(State::all()));
        let names: BTreeSet<String> = State::all().map(|state| state.to_string()).collect();
        assert_eq!(names.len(), STATES);
        assert_eq!(State::from_index(26).map(State::index), Some(26));
        assert_eq!(State::from_index(27), None);
    }

    #[test]
    fn rewards_are_what_a_hand_works_out() {
        check(include_str!("../../testdata/learn/reward.txt"), |words| match words {
            [
                "usage",
                usage,
                "throttling",
                throttling,
                "allocation",
                allocation,
                "previous",
                previous,
                "slo",
                slo @ ("kept" | "violated"),
            ] => {
                let outcome = Outcome {
                    usage: cpu(usage),
                    throttling: ratio(throttling),
                    allocation: cpu(allocation),
                    previous_allocation: (*previous != "-").then(|| cpu(previous)),
                    slo_violated: *slo == "violated",
                };
                // Six decimals are more than any worked value has; the last bits are not by hand.
                let digits = alloc::format!("{:.6}", reward(&outcome));
                digits.trim_end_matches('0').trim_end_matches('.').to_string()
            }
            other => panic!("not a case: {other:?}"),
        });
    }

    #[test]
    fn a_reward_is_finite_at_the_edge_of_every_unit() {
        let edges = [Millicores::ZERO, Millicores::new(1), Millicores::new(u64::MAX)];
        for usage in edges {
            for allocation in edges {
                for previous_allocation in edges.map(Some) {
                    for throttling in [Ratio::ZERO, Ratio::MAX] {
                        let outcome = Outcome {
                            usage,
                            throttling,
                            allocation,
                            previous_allocation,
                            slo_violated: true,
                        };
                        assert!(reward(&outcome).is_finite(), "{outcome:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_untrained_table_is_normal() {
        for state in State::all() {
            assert_eq!(fresh().best(state, CHEAP), Action::Normal);
            assert_eq!(fresh().best(state, Ratio::from_percent(30)), Action::Normal);
        }
    }

    #[test]
    fn a_tie_without_normal_is_conservative() {
        let mut table = fresh();
        for action in [Action::Aggressive, Action::Conservative] {
            table.update(&step("low:none:low", action, 10.0, "high:high:low"), &Default::default());
        }
        assert_eq!(table.best(state("low:none:low"), CHEAP), Action::Conservative);
    }

    #[test]
    fn a_price_flips_the_choice_and_leaves_the_table_alone() {
        let mut table = fresh();
        let here = "low:none:low";
        table.update(&step(here, Action::Aggressive, 20.0, "high:high:low"), &Default::default());
        let before = table.clone();
        // Aggressive is worth 2. At a price of 0.3 nothing is adjusted; just above it, aggressive
        // counts 2 - 5 x 0.3 = 0.5 and conservative 2 x 0.3 = 0.6.
        assert_eq!(table.best(state(here), Ratio::from_percent(30)), Action::Aggressive);
        assert_eq!(table.best(state(here), Ratio::from_millionths(300_001)), Action::Conservative);
        assert_eq!(table.best(state(here), Ratio::MAX), Action::Conservative);
        assert_eq!(table, before);
        // Normal at 1.3 beats aggressive at 2 - 5 x 0.4 = 0 and conservative at 2 x 0.4 = 0.8.
        table.update(&step(here, Action::Normal, 13.0, "high:high:low"), &Default::default());
        assert_eq!(table.best(state(here), Ratio::from_percent(40)), Action::Normal);
    }

    #[test]
    fn a_price_lowers_demand_down_to_a_half() {
        let factor = |millionths| price_demand_factor(Ratio::from_millionths(millionths));
        assert_eq!(factor(0), Ratio::ONE);
        assert_eq!(factor(300_000), Ratio::ONE);
        assert_eq!(factor(300_001), Ratio::from_millionths(850_000));
        assert_eq!(factor(600_000), Ratio::from_percent(70));
        assert_eq!(factor(1_000_000), Ratio::from_percent(50));
        assert_eq!(factor(u64::MAX), Ratio::from_percent(50));
    }

    #[test]
    fn an_action_scales_what_is_asked_for_in_both_directions() {
        let check = |throttled_percent| {
            let throttling = Ratio::from_percent(throttled_percent);
            Action::ALL.map(|action| asked(Millicores::new(1000), throttling, action).get())
        };
        assert_eq!(check(0), [1500, 1200, 1000]);
        // A twentieth is noise; above it every hundredth asks for two more.
        assert_eq!(check(5), [1500, 1200, 1000]);
        assert_eq!(check(50), [3000, 2400, 2000]);
        assert_eq!(check(100), [4500, 3600, 3000]);
        assert_eq!(check(1000), [4500, 3600, 3000]);
    }

    #[test]
    fn actions_scale_demand_and_weight() {
        let factors = Action::ALL.map(|action| {
            (action.demand_factor().millionths(), action.weight_factor().millionths())
        });
        assert_eq!(factors, [(1_500_000, 1_200_000), (1_200_000, 1_000_000), (1_000_000, 800_000)]);
        assert_eq!(
            Action::ALL.map(|action| action.to_string()),
            ["aggressive", "normal", "conservative"]
        );
    }

    #[test]
    fn every_choice_draws_twice() {
        for epsilon in [0.0, 0.2, 1.0] {
            let config = LearnConfig { exploration_start: epsilon, ..LearnConfig::DEFAULT };
            let mut table = QTable::new(9, &config);
            let mut twin = Rng::from_seed(9);
            for _ in 0..50 {
                table.choose(state("low:none:low"), CHEAP);
                twin.next_u64();
                twin.next_u64();
                assert_eq!(table.generator, twin);
            }
        }
    }

    #[test]
    fn nothing_is_random_without_exploration() {
        let config = LearnConfig { exploration_start: 0.0, ..LearnConfig::DEFAULT };
        let mut table = QTable::new(3, &config);
        for _ in 0..1000 {
            assert_eq!(table.choose(state("low:none:low"), CHEAP), Action::Normal);
            table.update(&step("low:none:low", Action::Normal, 1.0, "low:none:low"), &config);
        }
        assert_eq!(table.epsilon(), 0.0);
    }

    #[test]
    fn full_exploration_takes_every_action_about_equally_often() {
        let config = LearnConfig { exploration_start: 1.0, ..LearnConfig::DEFAULT };
        let mut table = QTable::new(3, &config);
        let mut counts = [0; 3];
        for _ in 0..3000 {
            counts[table.choose(state("low:none:low"), CHEAP).column()] += 1;
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
    }

    #[test]
    fn an_update_moves_a_tenth_of_the_way() {
        let mut table = fresh();
        let config = LearnConfig::DEFAULT;
        let (here, next) = ("low:none:low", "high:high:low");
        table.update(&step(here, Action::Normal, 10.0, next), &config);
        assert_eq!(table.value(state(here), Action::Normal), 1.0);
        // 1 + 0.1 x (10 + 0.9 x 0 - 1)
        table.update(&step(here, Action::Normal, 10.0, next), &config);
        assert_eq!(table.value(state(here), Action::Normal), 1.9);
        assert_eq!(table.updates(), 2);
    }

    #[test]
    fn a_bleak_future_counts_as_bleak() {
        let mut table = fresh();
        let config = LearnConfig::DEFAULT;
        let (here, bleak, elsewhere) = ("low:none:low", "high:high:low", "low:none:excess");
        for (action, reward) in Action::ALL.into_iter().zip([-30.0, -20.0, -10.0]) {
            table.update(&step(bleak, action, reward, elsewhere), &config);
        }
        // The best of -3, -2 and -1 is -1: 0.1 x 0.9 x -1.
        table.update(&step(here, Action::Normal, 0.0, bleak), &config);
        assert_eq!(table.value(state(here), Action::Normal), -0.09000000000000001);
    }

    #[test]
    fn a_reward_that_is_not_finite_counts_as_nothing_and_a_huge_one_is_capped() {
        let config = LearnConfig::DEFAULT;
        for (reward, learnt) in [
            (f64::NAN, 0.0),
            (f64::INFINITY, 0.0),
            (f64::NEG_INFINITY, 0.0),
            (1e300, 100.0),
            (-1e300, -100.0),
        ] {
            let mut table = fresh();
            table.update(&step("low:none:low", Action::Normal, reward, "low:none:low"), &config);
            assert_eq!(table.value(state("low:none:low"), Action::Normal), learnt);
        }
    }

    #[test]
    fn no_configuration_makes_a_table_that_cannot_be_loaded() {
        for odd in [f64::NAN, f64::INFINITY, -1e300, 1e300, -1.0, 0.0, 1.0, 2.0] {
            let config = LearnConfig {
                learning_rate: odd,
                discount: odd,
                exploration_start: odd,
                exploration_floor: odd,
                exploration_decay: odd,
            };
            let mut table = QTable::new(5, &config);
            for _ in 0..100 {
                let action = table.choose(state("low:none:low"), CHEAP);
                table.update(&step("low:none:low", action, 7.0, "low:none:low"), &config);
            }
            assert_eq!(QTable::load(table.save().as_bytes(), 5, &config), (table, None), "{odd}");
        }
    }

    #[test]
    fn epsilon_decays_to_its_floor() {
        let mut table = fresh();
        let config = LearnConfig::DEFAULT;
        let learn = step("low:none:low", Action::Normal, 0.0, "low:none:low");
        assert_eq!(table.epsilon(), 0.2);
        table.update(&learn, &config);
        assert_eq!(table.epsilon(), 0.2 * 0.999);
        // 0.2 x 0.999^n first falls below 0.01 at n = 2995.
        (1..2994).for_each(|_| table.update(&learn, &config));
        assert!(table.epsilon() > 0.01);
        table.update(&learn, &config);
        assert_eq!(table.epsilon(), 0.01);
        table.update(&learn, &config);
        assert_eq!(table.epsilon(), 0.01);
    }

    #[test]
    fn learning_finds_the_longer_way_to_more() {
        // Staying in the first state earns 1 a round. Being bold there earns nothing at once but
        // leads to the second state, where modesty earns 10 a round, for ever.
        let (poor, rich) = ("low:high:low", "low:none:adequate");
        let config = LearnConfig { exploration_floor: 0.2, ..LearnConfig::DEFAULT };
        for seed in 0..20 {
            let mut table = QTable::new(seed, &config);
            let mut here = poor;
            for _ in 0..20_000 {
                let action = table.choose(state(here), CHEAP);
                let (reward, next) = match (here == poor, action) {
                    (true, Action::Aggressive) => (0.0, rich),
                    (true, Action::Normal | Action::Conservative) => (1.0, poor),
                    (false, Action::Conservative) => (10.0, rich),
                    (false, Action::Aggressive | Action::Normal) => (0.0, poor),
                };
                table.update(&step(here, action, reward, next), &config);
                here = next;
            }
            assert_eq!(table.best(state(poor), CHEAP), Action::Aggressive, "seed {seed}");
            assert_eq!(table.best(state(rich), CHEAP), Action::Conservative, "seed {seed}");
            // 10 / (1 - 0.9), and one discounted step before it.
            let value = table.value(state(rich), Action::Conservative);
            assert!((value - 100.0).abs() < 0.5, "seed {seed}: {value}");
            let value = table.value(state(poor), Action::Aggressive);
            assert!((value - 90.0).abs() < 0.5, "seed {seed}: {value}");
        }
    }
}
