//! Nodes at equal misses: what a policy could do with its best setting.
//!
//! More nodes and fewer misses can be had from any policy by a larger setting. So policies are
//! compared where they miss the same share of minutes, and between two settings that were tried a
//! straight line is drawn, by the logarithm of misses.

use super::contest::PackStanding;
use super::tally::PackFigures;

/// The share of minutes at which policies are compared, unless another is asked for: one of a
/// thousand, at which everybody in the built-in towns has a setting.
pub const LEVEL: f64 = 1e-3;
/// Fewer misses than this are as good as none.
const FEWEST: f64 = 1e-7;

/// How one policy compares with another.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The one that is compared.
    pub policy: &'static str,
    /// With whom.
    pub rival: &'static str,
    /// What part of the rival's nodes it does not need where it misses as much as the rival does by
    /// default.
    pub fewer_than_default: Option<f64>,
    /// The same where both have their best setting for [`LEVEL`].
    pub fewer_than_best: Option<f64>,
}

// === impl PackStanding ===

impl PackStanding {
    /// The nodes that are needed where this share of minutes is missed, if so few can be missed.
    #[must_use]
    pub fn nodes_at(&self, broken: f64) -> Option<f64> {
        let mut front: Vec<(f64, f64)> = Vec::new();
        let mut points: Vec<&PackFigures> =
            self.points.iter().map(|(_, figures)| figures).collect();
        points.sort_by(|one, other| one.nodes.total_cmp(&other.nodes));
        for figures in points {
            let point = (figures.nodes, figures.broken.max(FEWEST));
            if front.last().is_none_or(|last| point.1 < last.1) {
                front.push(point);
            }
        }
        let place = front.iter().position(|(_, misses)| *misses <= broken)?;
        let (nodes, misses) = front[place];
        let Some(&(fewer, more)) = place.checked_sub(1).and_then(|before| front.get(before)) else {
            return Some(nodes);
        };
        let way = libm::log(more / broken) / libm::log(more / misses);
        Some(fewer + (nodes - fewer) * way)
    }

    /// How it compares with another.
    #[must_use]
    pub fn against(&self, rival: &Self) -> Comparison {
        let fewer = |ours: f64, theirs: f64| 1.0 - ours / theirs;
        let usual = rival.by_default();
        let at_usual = usual.and_then(|it| Some(fewer(self.nodes_at(it.broken)?, it.nodes)));
        let at_best = self.nodes_at(LEVEL).zip(rival.nodes_at(LEVEL));
        Comparison {
            policy: self.policy,
            rival: rival.policy,
            fewer_than_default: at_usual,
            fewer_than_best: at_best.map(|(ours, theirs)| fewer(ours, theirs)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(points: &[(f64, f64)]) -> PackStanding {
        let figures = |(nodes, broken): &(f64, f64)| {
            (100, PackFigures { nodes: *nodes, broken: *broken, ..PackFigures::default() })
        };
        PackStanding { policy: "x", points: points.iter().map(figures).collect(), usual: 100 }
    }

    #[test]
    fn nodes_at_equal_misses_lie_between_settings_by_the_logarithm() {
        // The third is beaten by the second in both.
        let it = standing(&[(10.0, 1e-2), (20.0, 1e-4), (22.0, 1e-3)]);
        assert_eq!(it.nodes_at(1e-2), Some(10.0));
        assert!((it.nodes_at(1e-3).unwrap() - 15.0).abs() < 1e-9);
        assert_eq!(it.nodes_at(0.5), Some(10.0), "fewer than its fewest it does not need");
        assert_eq!(it.nodes_at(1e-5), None, "so few it cannot miss");
    }

    #[test]
    fn a_policy_is_compared_at_what_its_rival_misses() {
        let rival = standing(&[(20.0, 1e-2), (30.0, 1e-4)]);
        let ours = standing(&[(10.0, 1e-2), (20.0, 1e-4)]);
        let found = ours.against(&rival);
        assert_eq!(found.fewer_than_default, Some(0.5));
        assert!((found.fewer_than_best.unwrap() - 0.4).abs() < 1e-9);
    }
}
