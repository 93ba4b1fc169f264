//! A market as it is written, and what it means.
//!
//! Called by `market::read`. Pods are checked one by one as they arrive, so that a market of a
//! million pods is never held as JSON. A field with a problem is given a stand-in, which is never
//! used: the market is refused once everything wrong with it is known.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use walras_core::market::{Bid, Fairness, Mode, Terms};
use walras_core::need::{self, Bounds, SpecFacts};
use walras_core::units::{Millicores, PodUid, Ratio, Weight};

use super::Pod;
use crate::field::{Fields, Place, Problems};
use crate::kind::{BargainingWeight, Cpu, Demand, FairnessWord, Flag, ModeWord, SmallCount, Uid};
use crate::scalar::Object;

/// What there is to divide, how, and among whom.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ClearInput {
    /// What there is to divide, in thousandths of a core.
    #[schemars(with = "Cpu")]
    capacity_milli: Millicores,
    /// How a congested market shares what is left above the mins: in proportion to what the pods
    /// want above them, or by weight alone (nash). Default: proportional.
    #[schemars(with = "Option<FairnessWord>")]
    fairness: Option<Fairness>,
    /// Whether a pod gets at most what it needs. If not, everything is shared out up to the pods'
    /// max. Default: true.
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
    /// The least it gets, unless not even the mins fit.
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
    /// How often it still showed demand after an allocation, lately; each adds headroom.
    /// Default: 0.
    #[schemars(with = "Option<SmallCount>")]
    headroom_misses: Option<u32>,
}

/// The document, with its pods already checked one by one.
pub(super) struct Document {
    pub(super) head: Object,
    pub(super) pods: Option<Pods>,
}

/// The pods, one per pod of the input even where there are problems, so that places agree.
#[derive(Default)]
pub(super) struct Pods {
    pods: Vec<Pod>,
    problems: Problems,
}

struct DocumentVisitor;

struct PodsVisitor;

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
    pub(super) fn terms(&self) -> Terms {
        Terms {
            capacity: self.capacity_milli,
            fairness: self.fairness.unwrap_or(Fairness::Proportional),
            demand_capped: self.demand_capped.unwrap_or(true),
            previous_mode: self.previous_mode,
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
        let bounds = Bounds::new(self.min_milli, self.max_milli);
        let need = self.need_milli.unwrap_or_else(|| {
            let facts = SpecFacts {
                demand: self.demand,
                usage: self.usage_milli,
                headroom_misses: self.headroom_misses.unwrap_or(0),
            };
            need::spec(bounds, &facts)
        });
        Pod { uid: self.uid, bid: Bid::new(bounds, need, self.weight.unwrap_or_default()) }
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
        let place = Place::Pod(self.pods.len());
        let mut fields = Fields::new(place, object, &mut self.problems);
        let input = PodInput::read(&mut fields);
        fields.finish();
        self.pods.push(input.meaning());
    }
}

impl<'de> Deserialize<'de> for Pods {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(PodsVisitor)
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
            pods.add(object);
        }
        Ok(pods)
    }
}
