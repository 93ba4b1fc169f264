//! How empty a node's zone is beside the others: the one feature that takes all nodes to compute.

use std::collections::BTreeMap;

use crate::number::count;

/// The zone diversity of each node: 1 less half its zone's nodes over the average of a zone's, in
/// 0..1; so 0.5 where all zones are equal. `None` for a node without a zone.
#[must_use]
pub fn zone_diversity(zones: &[Option<&str>]) -> Vec<Option<f64>> {
    let mut nodes: BTreeMap<&str, usize> = BTreeMap::new();
    for zone in zones.iter().flatten() {
        *nodes.entry(zone).or_default() += 1;
    }
    let all: usize = nodes.values().sum();
    let average = count(all) / count(nodes.len().max(1));
    let score = |zone: &str| {
        let here = nodes.get(zone).copied().unwrap_or_default();
        (1.0 - count(here) / (2.0 * average)).clamp(0.0, 1.0)
    };
    zones.iter().map(|zone| zone.map(score)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_zones_are_in_the_middle_and_crowded_ones_below() {
        assert_eq!(zone_diversity(&[Some("a"), Some("b")]), [Some(0.5), Some(0.5)]);
        let crowded = zone_diversity(&[Some("a"), Some("a"), Some("a"), Some("b"), None]);
        assert_eq!(crowded, [Some(0.25), Some(0.25), Some(0.25), Some(0.75), None]);
        assert_eq!(zone_diversity(&[None]), [None]);
        let lonely: Vec<_> = std::iter::repeat_n(Some("a"), 9).chain([Some("b")]).collect();
        assert!(zone_diversity(&lonely)[0].unwrap() < 0.11);
    }
}
