//! The predecessor, as its architecture document has it: the node is shared out completely by Nash
//! bargaining over learned bids, and every share is a hard cap.
//!
//! Slow loop, 15 s: bids are usage times 1.5, 1.2 or 1.0 with weights times 1.2, 1.0 or 0.8, chosen
//! by Q-learning in two passes with the price in between; each gets its min and a share of the rest
//! by weight; smoothed with 0.1 up and 0.8 down, changed beyond 5 %, the request 0.9 of the limit.
//! Fast loop, 2 s: a throttle ratio above 0.1 raises a limit by 20 to 40 %.
//!
//! It runs on the market's own node. Simplified: a bid, which only makes the price, is at least the
//! allocator document's need; the min is 50m and not 100m; no 10 % of the node is set aside, since
//! nothing else runs there.
//!
//! Best fair setting: the document's fast loop could not raise above the limit in force; here it
//! may raise each pod up to the whole node. It bypasses the solver, so nobody adds limits up for
//! it: with all shared out there would never be room, and half of the rule would be dead.

use walras_core::market::Fairness;
use walras_core::profile::Profile;
use walras_core::units::{Moment, Ratio};

use crate::policy::{Actuation, Market, Policy, Setting, View};
use crate::scenario::{NodeSpec, PodSpec};

/// Limits may add up to more than there will ever be pods for.
const NO_SUM: Ratio = Ratio::from_percent(10_000);

/// What can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MbcasSettings {
    /// The constants of the predecessor's documents.
    pub profile: Profile,
}

/// The predecessor.
#[derive(Clone, Debug)]
pub struct Mbcas {
    market: Market,
}

/// `mbcas`: everything shared out, as hard caps.
pub fn mbcas(node: &NodeSpec, pods: &[PodSpec]) -> Box<dyn Policy> {
    Box::new(Mbcas::new(MbcasSettings::DEFAULT, node, pods))
}

// === impl MbcasSettings ===

impl MbcasSettings {
    /// As documented: the allocator document's cap by need does not exist in the architecture one.
    pub const DEFAULT: Self = Self {
        profile: Profile {
            fairness: Fairness::Nash,
            demand_capped: false,
            overcommit: NO_SUM,
            ..Profile::SEED
        },
    };
}

// === impl Mbcas ===

impl Mbcas {
    /// The predecessor with these settings.
    #[must_use]
    pub fn new(settings: MbcasSettings, node: &NodeSpec, pods: &[PodSpec]) -> Self {
        Self { market: Market::new(settings.profile, Actuation::Api, node, pods) }
    }
}

impl Policy for Mbcas {
    fn pod_started(&mut self, place: usize, pod: &PodSpec, now: Moment) -> Setting {
        self.market.pod_started(place, pod, now)
    }

    fn pod_stopped(&mut self, place: usize, now: Moment) {
        self.market.pod_stopped(place, now);
    }

    fn period_passed(
        &mut self,
        now: Moment,
        view: &View<'_>,
        settings: &mut Vec<(usize, Setting)>,
    ) {
        self.market.period_passed(now, view, settings);
    }

    fn actuation(&self) -> Actuation {
        self.market.actuation()
    }

    fn price(&self) -> Option<f64> {
        self.market.price()
    }
}

#[cfg(test)]
mod tests {
    use super::super::hand::{Hand, Period};
    use super::*;

    const SECOND: u32 = 10;

    fn make(node: &NodeSpec, pods: &[PodSpec]) -> Mbcas {
        Mbcas::new(MbcasSettings::DEFAULT, node, pods)
    }

    #[test]
    fn the_node_is_shared_out_whatever_is_used() {
        let mut hand = Hand::with_limits(&[Some(2000), Some(2000)], make);
        hand.pass(3600 * SECOND, Period::using(0.2));
        // Exploring moves weights to and fro, and a fall is taken faster than a rise, so something
        // is always missing to the whole node.
        let total = hand.limit(0).zip(hand.limit(1)).map(|(first, second)| first + second);
        assert!((12_000..=16_000).contains(&total.expect("it always sets one")), "{total:?}");
    }

    #[test]
    fn a_rise_takes_a_tenth_of_the_way_and_the_request_is_nine_tenths_of_the_limit() {
        let mut hand = Hand::with_limits(&[Some(2000)], make);
        hand.pass(15 * SECOND, Period::using(0.2));
        // 2000 + (16000 - 2000) / 10.
        assert_eq!(hand.limit(0), Some(3400));
        assert_eq!(hand.request(0), 3060);
    }

    #[test]
    fn a_pod_with_more_than_its_share_loses_it_after_the_grace_of_its_start() {
        let mut hand = Hand::with_limits(&[Some(12_000), Some(1000)], make);
        hand.pass(44 * SECOND, Period::using(0.2));
        assert_eq!(hand.limit(0), Some(12_000));
        hand.pass(SECOND, Period::using(0.2));
        // Half of the node, and learned weights move that by a fifth of it at most.
        let fallen = hand.limit(0).expect("it always sets one");
        assert!((6_400..=9_600).contains(&fallen), "{fallen}");
    }

    #[test]
    fn a_throttled_pod_is_raised_by_the_fast_loop() {
        let mut hand = Hand::with_limits(&[Some(2000)], make);
        hand.pass(4 * SECOND, Period::held_back(2.0, 0.3));
        // 0.3 core throttled for 2.0 used: a ratio of 0.15, so 20 % and 0.15 of another 20 %.
        assert_eq!(hand.limit(0), Some(2460));
    }

    #[test]
    fn a_raise_is_not_stopped_by_what_the_others_have() {
        let mut hand = Hand::with_limits(&[Some(2000), Some(14_000)], make);
        hand.pass_each(4 * SECOND, &[Period::held_back(2.0, 0.3), Period::using(1.0)]);
        assert_eq!(hand.limit(0), Some(2460));
    }
}
