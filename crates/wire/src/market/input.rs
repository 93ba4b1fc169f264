//! A market as it is written, and what it means.
//!
//! Called by `market::read`. Pods are checked one by one as they arrive, so that a market of a
//! million pods is never held as JSON. A field with a problem is given a stand-in, which is never
//! used: the market is refused once everything wrong with it is known. Memory stays bounded: there
//! are at most [`PODS_MAX`] pods, and of a market with a problem only the first
//! [`KEPT_WITH_PROBLEMS`] are kept, to find uids that occur twice.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use walras_core::market::{Fairness, Mode, Terms};
use walras_core::need::{Bounds, SpecFacts};
use walras_core::profile::Profile;
use walras_core::units::{Millicores, PodUid, Ratio, Weight};

use super::Pod;
use crate::field::{Fields, Place, Problems};
use crate::kind::{BargainingWeight, Cpu, Demand, FairnessWord, Flag, ModeWord, SmallCount, Uid};
use crate::scalar::Object;

/// A market of more pods than this is refused. Read and cleared, so many take about 2 GB; no
/// document of the size that is accepted has room for many more.
pub const PODS_MAX: usize = 10_000_000;

/// So many pods are kept of a market that will be refused.
const KEPT_WITH_PROBLEMS: usize = 4096;

/// What there is to divide, how, and among whom.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ClearInput {
    /// What there is to divide, in thousandths of a core.
    #[schemars(with = "Cpu")]
    capacity_milli: Millicores,
    /// How a congested market shares what is left above the mins: in proportion to what the pods
    /// want above them, or by weight alone (nash). Default: the profile's; nash, except in seed.
    #[schemars(with = "Option<FairnessWord>")]
    fairness: Option<Fairness>,
    /// Whether a pod gets at most what it needs. If not, everything is shared out up to the pods'
    /// max. Default: the profile's; true.
    #[schemars(with = "Option<Flag>")]
    demand_capped: Option<bool>,
    /// How the market stood before; kept as the label while needs are within 5 % of capacity.
    #[schemars(with = "Option<ModeWord>")]
    previous_mode: Option<Mode>,
    /// The pods, in any order.
    #[schemars(with = "Vec<PodInput>")]
    pub(super) pods: Pods,
}

/// One pod.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct PodInput {
    /// The pod's name; no two pods share one.
    #[schemars(with = "Uid")]
    uid: PodUid,
    /// How urgently it wants more than its min, from 0 to 1; rounded to millionths.
    #[schemars(with = "Demand")]
    demand: Ratio,
    /// What it has a right to: the least it gets if it needs it, unless not even the rights fit. In
    /// the profiles tight and seed it gets that much even if it does not need it.
    #[schemars(with = "Cpu")]
    min_milli: Millicores,
    /// The most it gets; at least the min.
    #[schemars(with = "Cpu")]
    max_milli: Millicores,
    /// What its claim counts for; rounded to thousandths. Default: 1.
    #[schemars(with = "Option<BargainingWeight>")]
    weight: Option<Weight>,
    /// What it uses; its need is at least that, with headroom.
    #[schemars(with = "Option<Cpu>")]
    usage_milli: Option<Millicores>,
    /// What it needs, where that is known better than demand and usage tell.
    #[schemars(with = "Option<Cpu>")]
    need_milli: Option<Millicores>,
    /// How often it still showed demand after an allocation, lately; each adds headroom where
    /// there is demand.
    /// Default: 0.
    #[schemars(with = "Option<SmallCount>")]
    headroom_misses: Option<u32>,
}

/// The document, with its pods already checked one by one.
pub(super) struct Document {
    pub(super) head: Object,
    pub(super) pods: Option<Pods>,
}

/// The pods. Those that are kept are the first ones, one per pod of the input even where there are
/// problems, so that places agree.
#[derive(Default)]
pub(super) struct Pods {
    pods: Vec<Pod>,
    /// How many there were.
    count: usize,
    problems: Problems,
}

struct DocumentVisitor;

struct PodsVisitor {
    most: usize,
}

// === impl ClearInput ===

impl ClearInput {
    /// Takes the fields of the document.
    pub(super) fn read(fields: &mut Fields<'_>, pods: Option<Pods>) -> Self {
        let capacity_milli = fields.required::<Cpu>("capacity_milli");
        let fairness = fields.optional::<FairnessWord>("fairness");
        let demand_capped = fields.optional::<Flag>("demand_capped");
        let previous_mode = fields.optional::<ModeWord>("previous_mode");
        fields.know("pods");
        if pods.is_none() {
            fields.problem("pods", None, || "is missing; it must be a list of pods".to_owned());
        }
        Self {
            capacity_milli: capacity_milli.unwrap_or_default(),
            fairness,
            demand_capped,
            previous_mode,
            pods: pods.unwrap_or_default(),
        }
    }

    /// What holds for all pods.
    pub(super) fn terms(&self, profile: &Profile) -> Terms {
        Terms {
            capacity: self.capacity_milli,
            fairness: self.fairness.unwrap_or(profile.fairness),
            demand_capped: self.demand_capped.unwrap_or(profile.demand_capped),
            previous_mode: self.previous_mode,
            scarce: None,
            weight_unit: Weight::ONE,
        }
    }
}

// === impl PodInput ===

impl PodInput {
    fn read(fields: &mut Fields<'_>) -> Self {
        let input = Self {
            uid: fields.required::<Uid>("uid").unwrap_or_else(|| PodUid::new("")),
            demand: fields.required::<Demand>("demand").unwrap_or_default(),
            min_milli: fields.required::<Cpu>("min_milli").unwrap_or_default(),
            max_milli: fields.required::<Cpu>("max_milli").unwrap_or(Millicores::LIMIT),
            weight: fields.optional::<BargainingWeight>("weight"),
            usage_milli: fields.optional::<Cpu>("usage_milli"),
            need_milli: fields.optional::<Cpu>("need_milli"),
            headroom_misses: fields.optional::<SmallCount>("headroom_misses"),
        };
        fields.ordered(("min_milli", input.min_milli), ("max_milli", input.max_milli));
        input
    }

    fn meaning(self) -> Pod {
        let facts = SpecFacts {
            demand: self.demand,
            usage: self.usage_milli,
            headroom_misses: self.headroom_misses.unwrap_or(0),
        };
        Pod {
            uid: self.uid,
            bounds: Bounds::new(self.min_milli, self.max_milli),
            weight: self.weight.unwrap_or_default(),
            given: self.need_milli,
            facts,
        }
    }
}

// === impl Document ===

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DocumentVisitor)
    }
}

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with capacity_milli and pods")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
        let mut document = Document { head: Object::default(), pods: None };
        while let Some(key) = map.next_key::<Box<str>>()? {
            if *key != *"pods" {
                document.head.add(key, &mut map)?;
            } else if document.pods.is_none() {
                document.pods = Some(map.next_value()?);
            } else {
                return Err(A::Error::custom("pods is given a second time; give it once"));
            }
        }
        Ok(document)
    }
}

// === impl Pods ===

impl Pods {
    /// The pods, once it is known what else is wrong.
    pub(super) fn into_pods(self, problems: &mut Problems) -> Vec<Pod> {
        problems.append(self.problems);
        self.pods
    }

    fn add(&mut self, object: Object) {
        let mut fields = Fields::new(Place::Pod(self.count), object, &mut self.problems);
        let input = PodInput::read(&mut fields);
        fields.finish();
        self.count += 1;
        if self.problems.is_empty() || self.count <= KEPT_WITH_PROBLEMS {
            self.pods.push(input.meaning());
        } else if self.pods.len() > KEPT_WITH_PROBLEMS {
            self.pods.truncate(KEPT_WITH_PROBLEMS);
            self.pods.shrink_to_fit();
        }
    }
}

impl<'de> Deserialize<'de> for Pods {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(PodsVisitor { most: PODS_MAX })
    }
}

impl<'de> Visitor<'de> for PodsVisitor {
    type Value = Pods;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of pods")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Pods, A::Error> {
        let mut pods = Pods::default();
        while let Some(object) = list.next_element::<Object>()? {
            if pods.count == self.most {
                return Err(A::Error::custom(format_args!("more than {} pods", self.most)));
            }
            pods.add(object);
        }
        Ok(pods)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"uid": "a", "demand": 0, "min_milli": 1, "max_milli": 2}"#;

    /// Adds so many good pods and then so many bad ones; tells what is kept of them.
    fn check(good: usize, bad: usize) -> (usize, u64) {
        let mut pods = Pods::default();
        for json in [GOOD].repeat(good).into_iter().chain(["{}"].repeat(bad)) {
            pods.add(serde_json::from_str(json).unwrap());
        }
        assert_eq!(pods.count, good + bad);
        let mut problems = Problems::default();
        (pods.into_pods(&mut problems).len(), problems.count())
    }

    #[test]
    fn all_pods_of_a_good_market_are_kept() {
        assert_eq!(check(10_000, 0), (10_000, 0));
    }

    #[test]
    fn few_pods_of_a_bad_market_are_kept_and_all_problems_counted() {
        assert_eq!(check(0, 50_000), (KEPT_WITH_PROBLEMS, 200_000));
        assert_eq!(check(10_000, 1), (KEPT_WITH_PROBLEMS, 4));
        assert_eq!(check(10_000, 10_000), (KEPT_WITH_PROBLEMS, 40_000));
        assert_eq!(check(10, 10), (20, 40));
    }

    #[test]
    fn a_market_of_too_many_pods_is_refused_however_good_they_are() {
        let read = |pods: usize| {
            let json = format!("[{}]", [GOOD].repeat(pods).join(","));
            let mut json = serde_json::Deserializer::from_str(&json);
            let pods = json.deserialize_seq(PodsVisitor { most: 3 });
            pods.map(|pods| pods.count).map_err(|error| error.to_string())
        };
        assert_eq!(read(3), Ok(3));
        let told = read(4).unwrap_err();
        assert!(told.starts_with("more than 3 pods at line 1"), "{told}");
    }
}
