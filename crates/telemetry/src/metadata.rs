//! What labels and settings say about a node, and how its zone stands beside the others.
//!
//! Settings beat labels. Labels are the well-known ones of Kubernetes and of cloud providers, and
//! ours. What nobody says is not known: a node without a label is not a node that is never taken
//! away. Only zone diversity is about the whole cluster.

use std::collections::BTreeMap;

use crate::metric::Metric;
use crate::reading::{Reading, Unavailable};
use crate::snapshot::{Place, Snapshot, Source};

/// Labels that name a zone, the first that is there counts.
const ZONE: [&str; 2] = ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"];
/// Labels that name a rack.
const RACK: [&str; 2] = ["topology.kubernetes.io/rack", "walras.dev/rack"];
/// Labels that say whether a node may be taken away, with the values that mean yes. Any other
/// value means no.
const SPOT: [(&str, &[&str]); 8] = [
    ("walras.dev/spot", &["true"]),
    ("karpenter.sh/capacity-type", &["spot"]),
    ("eks.amazonaws.com/capacityType", &["SPOT"]),
    ("cloud.google.com/gke-spot", &["true"]),
    ("cloud.google.com/gke-preemptible", &["true"]),
    ("cloud.google.com/gke-provisioning", &["spot", "preemptible"]),
    ("kubernetes.azure.com/scalesetpriority", &["spot"]),
    ("node.kubernetes.io/lifecycle", &["spot"]),
];
const COST_INDEX: &str = "walras.dev/cost-index";
const INTERRUPTION_RISK: &str = "walras.dev/interruption-risk";

/// What the settings say; labels say the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Said {
    /// Its cost beside the dearest node, 0 to 1.
    pub cost_index: Option<f64>,
    /// Whether it may be taken away.
    pub spot: Option<bool>,
    /// How likely that is, 0 to 1.
    pub interruption_risk: Option<f64>,
    /// Its zone.
    pub zone: Option<String>,
    /// Its rack.
    pub rack: Option<String>,
}

/// What is known of a node by what was said.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    cost_index: (Reading, Source),
    spot: (Reading, Source),
    interruption_risk: (Reading, Source),
    place: Place,
}

/// The cost of a node beside that of the dearest one, 0 to 1.
#[must_use]
pub fn cost_index(hourly: f64, dearest: f64) -> Reading {
    if dearest > 0.0 && hourly <= dearest {
        Reading::of(hourly / dearest)
    } else {
        Reading::Unavailable(Unavailable::NotFinite)
    }
}

/// How few nodes the zone of each node has beside the average zone: 1 less half of their ratio,
/// within 0 and 1. A zone of average size has a half. A node without a zone has none.
#[must_use]
pub fn zone_diversity(zones: &[Option<&str>]) -> Vec<Reading> {
    let mut sizes: BTreeMap<&str, u32> = BTreeMap::new();
    for zone in zones.iter().flatten() {
        *sizes.entry(zone).or_default() += 1;
    }
    let nodes: u32 = sizes.values().sum();
    let zones_found = u32::try_from(sizes.len()).unwrap_or(u32::MAX);
    let of = |zone: &Option<&str>| {
        let size = zone.and_then(|zone| sizes.get(zone));
        let Some(size) = size else {
            return Reading::Unavailable(Unavailable::NotSaid { what: "the zone" });
        };
        let average = f64::from(nodes) / f64::from(zones_found);
        Reading::of((1.0 - f64::from(*size) / (2.0 * average)).clamp(0.0, 1.0))
    };
    zones.iter().map(of).collect()
}

// === impl Metadata ===

impl Metadata {
    /// What `said` and `labels` say together.
    #[must_use]
    pub fn of(said: &Said, labels: &BTreeMap<String, String>) -> Self {
        let label = |name: &str| labels.get(name).map(String::as_str);
        let first = |names: &[&str]| names.iter().find_map(|name| label(name)).map(str::to_owned);
        let spot = match said.spot {
            Some(spot) => Some((spot, Source::Settings)),
            None => spot(label).map(|spot| (spot, Source::Labels)),
        };
        let risk = ratio(said.interruption_risk, label(INTERRUPTION_RISK), "interruption risk");
        Self {
            cost_index: ratio(said.cost_index, label(COST_INDEX), "cost index"),
            spot: spot.map_or_else(
                || (not_said("spot"), Source::Labels),
                |(spot, source)| (Reading::Measured(f64::from(u8::from(spot))), source),
            ),
            interruption_risk: match (risk, spot) {
                ((Reading::Unavailable(Unavailable::NotSaid { .. }), _), Some((false, source))) => {
                    // Nobody takes away what was bought to stay.
                    (Reading::Measured(0.0), source)
                }
                (risk, _) => risk,
            },
            place: Place {
                zone: said.zone.clone().or_else(|| first(&ZONE)),
                rack: said.rack.clone().or_else(|| first(&RACK)),
            },
        }
    }

    /// Writes it into a snapshot.
    pub fn put(&self, snapshot: &mut Snapshot) {
        for (metric, (reading, source)) in [
            (Metric::CostIndex, self.cost_index),
            (Metric::Spot, self.spot),
            (Metric::InterruptionRisk, self.interruption_risk),
        ] {
            snapshot.set(metric, reading, source);
        }
        snapshot.place.clone_from(&self.place);
    }
}

fn not_said(what: &'static str) -> Reading {
    Reading::Unavailable(Unavailable::NotSaid { what })
}

/// Whether the labels say that a node may be taken away. One that says yes is enough.
fn spot<'a>(label: impl Fn(&str) -> Option<&'a str>) -> Option<bool> {
    let found = SPOT.iter().filter_map(|(name, yes)| Some(yes.contains(&label(name)?)));
    found.reduce(|one, other| one || other)
}

/// A number from 0 to 1 by the settings, else by a label.
fn ratio(said: Option<f64>, label: Option<&str>, what: &'static str) -> (Reading, Source) {
    let (value, source) = match (said, label) {
        (Some(value), _) => (value, Source::Settings),
        (None, Some(text)) => (text.parse().unwrap_or(f64::NAN), Source::Labels),
        (None, None) => return (not_said(what), Source::Labels),
    };
    let reading = if (0.0..=1.0).contains(&value) {
        Reading::Measured(value)
    } else {
        Reading::Unavailable(Unavailable::Unreadable { what })
    };
    (reading, source)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cost, spot, risk and zone as text.
    fn told(said: &Said, labels: &[(&str, &str)]) -> String {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let metadata = Metadata::of(said, &labels.collect());
        let word = |(reading, source): (Reading, Source)| match reading {
            Reading::Measured(value) => format!("{value} by {source}"),
            Reading::Unavailable(why) => why.to_string(),
        };
        let Metadata { cost_index, spot, interruption_risk, place } = metadata;
        let zone = place.zone.unwrap_or_default();
        format!("{}, {}, {}, {zone}", word(cost_index), word(spot), word(interruption_risk))
    }

    #[test]
    fn labels_of_every_provider_are_known() {
        let said = Said::default();
        let unknown = "cost index is not set, spot is not set, interruption risk is not set, ";
        assert_eq!(told(&said, &[]), unknown);
        for (name, yes, no) in [
            ("karpenter.sh/capacity-type", "spot", "on-demand"),
            ("eks.amazonaws.com/capacityType", "SPOT", "ON_DEMAND"),
            ("cloud.google.com/gke-spot", "true", "false"),
            ("cloud.google.com/gke-provisioning", "preemptible", "standard"),
            ("kubernetes.azure.com/scalesetpriority", "spot", "regular"),
        ] {
            let words = told(&said, &[(name, yes), ("topology.kubernetes.io/zone", "b")]);
            let expected = "cost index is not set, 1 by labels, interruption risk is not set, b";
            assert_eq!(words, expected, "{name}");
            let words = told(&said, &[(name, no)]);
            assert_eq!(words, "cost index is not set, 0 by labels, 0 by labels, ", "{name}");
        }
    }

    #[test]
    fn settings_beat_labels_and_nonsense_is_told() {
        let labels = [
            ("walras.dev/cost-index", "0.25"),
            ("walras.dev/spot", "false"),
            ("walras.dev/interruption-risk", "2"),
            ("failure-domain.beta.kubernetes.io/zone", "old"),
        ];
        let words = "0.25 by labels, 0 by labels, interruption risk cannot be read, old";
        assert_eq!(told(&Said::default(), &labels), words);
        let said = Said {
            cost_index: Some(0.5),
            spot: Some(true),
            interruption_risk: Some(0.1),
            zone: Some("z".to_owned()),
            rack: None,
        };
        assert_eq!(told(&said, &labels), "0.5 by settings, 1 by settings, 0.1 by settings, z");
    }

    #[test]
    fn a_zone_with_few_nodes_is_diverse() {
        let values = |zones: &[Option<&str>]| -> Vec<Option<f64>> {
            zone_diversity(zones).into_iter().map(Reading::value).collect()
        };
        assert_eq!(values(&[]), []);
        assert_eq!(values(&[None]), [None]);
        assert_eq!(values(&[Some("a"), Some("b")]), [Some(0.5), Some(0.5)]);
        // Two zones of three and one: two on average.
        let three = [Some("a"), Some("a"), Some("a"), Some("b"), None];
        let expected = [Some(0.25), Some(0.25), Some(0.25), Some(0.75), None];
        assert_eq!(values(&three), expected);
        // Twice the average or more is nothing.
        let many: Vec<_> = [Some("a"); 9].into_iter().chain([Some("b"), Some("c")]).collect();
        assert_eq!(values(&many)[0], Some(0.0));
    }

    #[test]
    fn a_cost_is_a_part_of_the_dearest() {
        assert_eq!(cost_index(0.3, 1.2).value(), Some(0.25));
        for (hourly, dearest) in [(1.0, 0.0), (2.0, 1.0), (-1.0, 1.0), (f64::NAN, 1.0)] {
            assert_eq!(cost_index(hourly, dearest).value(), None);
        }
    }
}
