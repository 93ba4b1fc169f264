//! A market as it is written, and what it means.
//!
//! Called by `market::read`. Workloads are checked one by one as they arrive, so that a market of a
//! million workloads is never held as JSON. A field with a problem is given a stand-in, which is
//! never used: the market is refused once everything wrong with it is known. Memory stays bounded:
//! there are at most [`WORKLOADS_MAX`] workloads, and of a market with a problem only the first
//! [`KEPT_WITH_PROBLEMS`] are kept, to find uids that occur twice.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use walras_core::market::{Fairness, Mode, Terms};
use walras_core::need::{Bounds, SpecFacts};
use walras_core::profile::Profile;
use walras_core::units::{Millicores, Ratio, Weight, WorkloadUid};

use super::Workload;
use crate::field::{Fields, Place, Problems};
use crate::kind::{BargainingWeight, Cpu, Demand, FairnessWord, Flag, ModeWord, SmallCount, Uid};
use crate::scalar::Object;

/// A market of more workloads than this is refused. Read and cleared, so many take about 2 GB; no
/// document of the size that is accepted has room for many more.
pub const WORKLOADS_MAX: usize = 10_000_000;

/// So many workloads are kept of a market that will be refused.
const KEPT_WITH_PROBLEMS: usize = 4096;

/// What there is to divide, how, and among whom.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct ClearInput {
    /// What there is to divide, in thousandths of a core.
    #[schemars(with = "Cpu")]
    capacity_milli: Millicores,
    /// How a congested market shares what is left above the mins: in proportion to what the
    /// workloads want above them, or by weight alone (nash). Default: the profile's; nash, except
    /// in seed.
    #[schemars(with = "Option<FairnessWord>")]
    fairness: Option<Fairness>,
    /// Whether a workload gets at most what it needs. If not, everything is shared out up to the
    /// workloads' max. Default: the profile's; true.
    #[schemars(with = "Option<Flag>")]
    demand_capped: Option<bool>,
    /// How the market stood before; kept as the label while needs are within 5 % of capacity.
    #[schemars(with = "Option<ModeWord>")]
    previous_mode: Option<Mode>,
    /// The workloads, in any order.
    #[schemars(rename = "pods", with = "Vec<WorkloadInput>")]
    pub(super) workloads: Workloads,
}

/// One workload.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct WorkloadInput {
    /// The workload's name; no two workloads share one.
    #[schemars(with = "Uid")]
    uid: WorkloadUid,
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

/// The document, with its workloads already checked one by one.
pub(super) struct Document {
    pub(super) head: Object,
    pub(super) workloads: Option<Workloads>,
}

/// The workloads. Those that are kept are the first ones, one per workload of the input even where
/// there are problems, so that places agree.
#[derive(Default)]
pub(super) struct Workloads {
    workloads: Vec<Workload>,
    /// How many there were.
    count: usize,
    problems: Problems,
}

struct DocumentVisitor;

struct WorkloadsVisitor {
    most: usize,
}

// === impl ClearInput ===

impl ClearInput {
    /// Takes the fields of the document.
    pub(super) fn read(fields: &mut Fields<'_>, workloads: Option<Workloads>) -> Self {
        let capacity_milli = fields.required::<Cpu>("capacity_milli");
        let fairness = fields.optional::<FairnessWord>("fairness");
        let demand_capped = fields.optional::<Flag>("demand_capped");
        let previous_mode = fields.optional::<ModeWord>("previous_mode");
        fields.know("pods");
        if workloads.is_none() {
            fields.problem("pods", None, || "is missing; it must be a list of pods".to_owned());
        }
        Self {
            capacity_milli: capacity_milli.unwrap_or_default(),
            fairness,
            demand_capped,
            previous_mode,
            workloads: workloads.unwrap_or_default(),
        }
    }

    /// What holds for all workloads.
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

// === impl WorkloadInput ===

impl WorkloadInput {
    fn read(fields: &mut Fields<'_>) -> Self {
        let input = Self {
            uid: fields.required::<Uid>("uid").unwrap_or_else(|| WorkloadUid::new("")),
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

    fn meaning(self) -> Workload {
        let facts = SpecFacts {
            demand: self.demand,
            usage: self.usage_milli,
            headroom_misses: self.headroom_misses.unwrap_or(0),
        };
        Workload {
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
        let mut document = Document { head: Object::default(), workloads: None };
        while let Some(key) = map.next_key::<Box<str>>()? {
            if *key != *"pods" {
                document.head.add(key, &mut map)?;
            } else if document.workloads.is_none() {
                document.workloads = Some(map.next_value()?);
            } else {
                return Err(A::Error::custom("pods is given a second time; give it once"));
            }
        }
        Ok(document)
    }
}

// === impl Workloads ===

impl Workloads {
    /// The workloads, once it is known what else is wrong.
    pub(super) fn into_workloads(self, problems: &mut Problems) -> Vec<Workload> {
        problems.append(self.problems);
        self.workloads
    }

    fn add(&mut self, object: Object) {
        let mut fields = Fields::new(Place::Workload(self.count), object, &mut self.problems);
        let input = WorkloadInput::read(&mut fields);
        fields.finish();
        self.count += 1;
        if self.problems.is_empty() || self.count <= KEPT_WITH_PROBLEMS {
            self.workloads.push(input.meaning());
        } else if self.workloads.len() > KEPT_WITH_PROBLEMS {
            self.workloads.truncate(KEPT_WITH_PROBLEMS);
            self.workloads.shrink_to_fit();
        }
    }
}

impl<'de> Deserialize<'de> for Workloads {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(WorkloadsVisitor { most: WORKLOADS_MAX })
    }
}

impl<'de> Visitor<'de> for WorkloadsVisitor {
    type Value = Workloads;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of pods")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Workloads, A::Error> {
        let mut workloads = Workloads::default();
        while let Some(object) = list.next_element::<Object>()? {
            if workloads.count == self.most {
                return Err(A::Error::custom(format_args!("more than {} pods", self.most)));
            }
            workloads.add(object);
        }
        Ok(workloads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"uid": "a", "demand": 0, "min_milli": 1, "max_milli": 2}"#;

    /// Adds so many good workloads and then so many bad ones; tells what is kept of them.
    fn check(good: usize, bad: usize) -> (usize, u64) {
        let mut workloads = Workloads::default();
        for json in [GOOD].repeat(good).into_iter().chain(["{}"].repeat(bad)) {
            workloads.add(serde_json::from_str(json).unwrap());
        }
        assert_eq!(workloads.count, good + bad);
        let mut problems = Problems::default();
        (workloads.into_workloads(&mut problems).len(), problems.count())
    }

    #[test]
    fn all_workloads_of_a_good_market_are_kept() {
        assert_eq!(check(10_000, 0), (10_000, 0));
    }

    #[test]
    fn few_workloads_of_a_bad_market_are_kept_and_all_problems_counted() {
        assert_eq!(check(0, 50_000), (KEPT_WITH_PROBLEMS, 200_000));
        assert_eq!(check(10_000, 1), (KEPT_WITH_PROBLEMS, 4));
        assert_eq!(check(10_000, 10_000), (KEPT_WITH_PROBLEMS, 40_000));
        assert_eq!(check(10, 10), (20, 40));
    }

    #[test]
    fn a_market_of_too_many_workloads_is_refused_however_good_they_are() {
        let read = |workloads: usize| {
            let json = format!("[{}]", [GOOD].repeat(workloads).join(","));
            let mut json = serde_json::Deserializer::from_str(&json);
            let workloads = json.deserialize_seq(WorkloadsVisitor { most: 3 });
            workloads.map(|workloads| workloads.count).map_err(|error| error.to_string())
        };
        assert_eq!(read(3), Ok(3));
        let told = read(4).unwrap_err();
        assert!(told.starts_with("more than 3 pods at line 1"), "{told}");
    }
}
