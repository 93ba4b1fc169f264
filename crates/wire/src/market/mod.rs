//! One clearing as a message: a market as JSON in, who gets what as JSON out.
//!
//! `walras clear` reads with [`read`], which takes the profile by which needs are estimated, clears
//! with [`Market::clear`] and writes a [`ClearOutput`].
//! Grants come in the order of the input, while the core is asked in uid order: who gets the last
//! millicore does not depend on how the input was sorted.

mod input;
mod output;

use std::io::Read;

use serde_json::{Value, json};
use walras_core::market::{self, Bid, Clearing, Grant, Terms};
use walras_core::need::{self, Bounds, Estimate, SpecFacts};
use walras_core::profile::{CapRule, Profile, ProfileName};
use walras_core::units::{Millicores, Weight, WorkloadUid};

use self::input::{ClearInput, Document};
use crate::field::{FieldError, Fields, Place, Problems};
use crate::json::{self, ReadError};
use crate::scalar::quote;
use crate::schema;

pub use self::input::WORKLOADS_MAX;
pub use self::output::ClearOutput;

/// A market, ready to be cleared.
#[derive(Clone, Debug)]
pub struct Market {
    /// What holds for all workloads.
    pub terms: Terms,
    /// By which rules needs are estimated and rights count.
    profile: Profile,
    workloads: Vec<Workload>,
    /// Places in `workloads`, in uid order.
    by_uid: Vec<usize>,
}

/// One workload of a market.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name.
    pub uid: WorkloadUid,
    /// What it has a right to, and the most it may have.
    pub bounds: Bounds,
    /// What its claim counts for.
    pub weight: Weight,
    /// What it needs, where the input says so.
    pub given: Option<Millicores>,
    /// What its need is estimated from otherwise.
    pub facts: SpecFacts,
}

/// Reads a market, of which a daemon with this profile would think as the result does.
///
/// # Errors
/// Whatever is wrong with the bytes, the JSON or the market in it; all mistakes of a market at
/// once, except that in a large one with other mistakes only the first workloads are searched for
/// uids that occur twice.
pub fn read(reader: impl Read, profile: &Profile) -> Result<Market, ReadError> {
    let Document { head, workloads } = json::document(reader)?;
    let mut problems = Problems::default();
    let mut fields = Fields::new(Place::Root, head, &mut problems);
    let input = ClearInput::read(&mut fields, workloads);
    fields.finish();
    let mut terms = input.terms(profile);
    let workloads = input.workloads.into_workloads(&mut problems);
    let by_uid = sort_by_uid(&workloads, &mut problems);
    if problems.is_empty() {
        // As on a node; the documents' own price knows no unit.
        if profile.name != ProfileName::Seed {
            terms.weight_unit =
                market::mean_weight(workloads.iter().map(|workload| workload.weight));
        }
        Ok(Market { terms, profile: profile.clone(), workloads, by_uid })
    } else {
        Err(ReadError::Invalid(problems))
    }
}

/// The JSON Schema of what [`read`] accepts and of what is written about it.
#[must_use]
pub fn schema() -> Value {
    json!({ "input": schema::of::<ClearInput>(), "output": schema::of::<ClearOutput<'_>>() })
}

/// Sorts places by uid, and notes uids that occur twice.
fn sort_by_uid(workloads: &[Workload], problems: &mut Problems) -> Vec<usize> {
    let uid = |place: usize| workloads[place].uid.as_str();
    let mut by_uid: Vec<usize> = (0..workloads.len()).collect();
    by_uid.sort_unstable_by(|&a, &b| uid(a).cmp(uid(b)).then(a.cmp(&b)));
    let mut repeats: Vec<(usize, usize)> = Vec::new();
    let mut first = 0;
    for rank in 1..by_uid.len() {
        let place = by_uid[rank];
        if uid(place) != uid(by_uid[first]) {
            first = rank;
        } else if !uid(place).is_empty() {
            // That a workload has no name at all was noted when it was read.
            repeats.push((place, by_uid[first]));
        }
    }
    repeats.sort_unstable();
    for (place, first) in repeats {
        problems.add(|| FieldError {
            path: Place::Workload(place).path("uid"),
            value: Some(quote(uid(place))),
            problem: format!("is already the uid of pods[{first}]"),
        });
    }
    by_uid
}

// === impl Market ===

impl Market {
    /// The workloads, in the order of the input.
    #[must_use]
    pub fn workloads(&self) -> &[Workload] {
        &self.workloads
    }

    /// Divides the capacity. The grants are in the order of the input.
    #[must_use]
    pub fn clear(&self) -> Clearing {
        let bids: Vec<Bid> =
            self.by_uid.iter().map(|&place| self.bid(&self.workloads[place])).collect();
        let mut clearing = market::clear(&self.terms, &bids);
        let mut grants = clearing.grants.clone();
        for (&place, grant) in self.by_uid.iter().zip(&clearing.grants) {
            grants[place] = *grant;
        }
        clearing.grants = grants;
        clearing
    }

    /// What a workload needs, and what that was made of.
    #[must_use]
    pub fn estimate(&self, workload: &Workload) -> Estimate {
        let Some(given) = workload.given else {
            return need::at_a_look(&self.profile, workload.bounds, &workload.facts);
        };
        let least = if self.lends() { Millicores::ZERO } else { workload.bounds.min() };
        Estimate::given(Bounds::new(least, workload.bounds.max()), given)
    }

    /// What a workload brings to the market.
    #[must_use]
    pub fn bid(&self, workload: &Workload) -> Bid {
        let need = self.estimate(workload).need;
        Bid::by_right(self.profile.cap_rule, workload.bounds, need, workload.weight)
    }

    /// How much of its right a workload does not need, and others may use meanwhile.
    #[must_use]
    pub fn lent(&self, workload: &Workload) -> Millicores {
        workload.bounds.min().saturating_sub(self.bid(workload).need())
    }

    /// Whether a right that is not needed is lent to others.
    #[must_use]
    pub fn lends(&self) -> bool {
        self.profile.cap_rule == CapRule::Loose
    }

    /// The workloads with what they got in `clearing`, in the order of the input.
    pub fn granted<'a>(
        &'a self,
        clearing: &'a Clearing,
    ) -> impl Iterator<Item = (&'a Workload, &'a Grant)> {
        self.workloads.iter().zip(&clearing.grants)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;

    /// Reads a market and writes its clearing, or what is wrong with it.
    fn check(json: &str) -> String {
        match read(json.as_bytes(), &Profile::SEED) {
            Ok(market) => {
                let clearing = market.clear();
                let workloads = market.granted(&clearing);
                let workloads = workloads
                    .map(|(workload, grant)| format!(" {}={}", workload.uid, grant.amount));
                format!("{}:{}", clearing.mode, workloads.collect::<String>())
            }
            Err(error) => error.to_string(),
        }
    }

    fn check_workloads(workloads: &str) -> String {
        check(&format!("{{\"capacity_milli\": 1000, \"pods\": [{workloads}]}}"))
    }

    #[test]
    fn workloads_come_back_in_the_order_of_the_input() {
        let workload = |uid: &str| {
            format!(r#"{{"uid": "{uid}", "demand": 1, "min_milli": 0, "max_milli": 1000}}"#)
        };
        // Three equal claims to 1000m: the odd millicore goes to the first in uid order.
        let workloads = [workload("c"), workload("a"), workload("b")].join(",");
        assert_eq!(check_workloads(&workloads), "congested: c=333m a=334m b=333m");
    }

    #[test]
    fn an_empty_market_is_a_market() {
        assert_eq!(check(r#"{"capacity_milli": 0, "pods": []}"#), "uncongested:");
    }

    #[test]
    fn a_need_that_is_given_is_brought_within_the_bounds() {
        let workload = r#"{"uid": "a", "demand": 0, "min_milli": 100, "max_milli": 400,"#;
        assert_eq!(
            check_workloads(&format!("{workload} \"need_milli\": 250}}")),
            "uncongested: a=250m"
        );
        assert_eq!(
            check_workloads(&format!("{workload} \"need_milli\": 9999}}")),
            "uncongested: a=400m"
        );
        assert_eq!(
            check_workloads(&format!("{workload} \"need_milli\": null}}")),
            "uncongested: a=110m"
        );
        assert_eq!(
            check_workloads(&format!("{workload} \"usage_milli\": 200}}")),
            "uncongested: a=260m"
        );
    }

    #[test]
    fn what_holds_for_all_workloads_is_read() {
        let market = read(
            &br#"{"capacity_milli": 7, "fairness": "nash", "demand_capped": false,
                 "previous_mode": "congested", "pods": []}"#[..],
            &Profile::DIRECT,
        );
        let terms = format!("{:?}", market.unwrap().terms);
        assert_eq!(
            terms,
            "Terms { capacity: Millicores(7), fairness: Nash, demand_capped: false, \
             previous_mode: Some(Congested), scarce: None, weight_unit: Weight(1000) }"
        );
    }

    #[test]
    fn everything_wrong_with_a_market_is_told_at_once() {
        let told = check(
            r#"{"fairness": "equal", "pods": [
                {"uid": "a", "demand": 1.5, "min_milli": 100, "max_milli": 400},
                {"uid": "b", "demand": 0, "min_milli": 500, "max_milli": 400, "weight": 0},
                {"uid": "a", "demand": 0, "min_milli": 1, "max_milli": 400, "wait": 1, "wieght": 2}
            ], "capacity": 100}"#,
        );
        assert_eq!(
            told,
            "9 problems\n  \
             capacity_milli: is missing; it must be a whole number of millicores from 0 to \
             1000000000\n  \
             fairness: \"equal\" is not \"proportional\" or \"nash\"\n  \
             capacity: 100 is given to an unknown field; did you mean capacity_milli?\n  \
             pods[0].demand: 1.5 is not a number from 0 to 1\n  \
             pods[1].weight: 0 is not a number from 0.001 to 1000000\n  \
             pods[1].min_milli: 500 is more than max_milli, which is 400\n  \
             pods[2].wait: 1 is given to an unknown field; did you mean weight?\n  \
             pods[2].wieght: 2 is given to an unknown field; did you mean weight?\n  \
             pods[2].uid: \"a\" is already the uid of pods[0]"
        );
    }

    #[test]
    fn a_document_of_another_shape_is_refused_where_it_differs() {
        assert_eq!(
            check("[]"),
            "expected an object with capacity_milli and pods, found a list, near `[]` \
             (line 1, column 1)"
        );
        assert_eq!(
            check(r#"{"pods": {}}"#),
            "pods: expected a list of pods, found an object, near `{\"pods\": {}}` \
             (line 1, column 10)"
        );
        assert_eq!(
            check(r#"{"pods": [7]}"#),
            "pods[0]: expected an object, found integer `7`, near `{\"pods\": [7]}` \
             (line 1, column 12)"
        );
        assert_eq!(check("{}").lines().count(), 3);
    }

    #[test]
    fn three_workloads_of_one_name_are_two_problems() {
        let workload = r#"{"uid": "a", "demand": 0, "min_milli": 1, "max_milli": 2}"#;
        let told = check_workloads(&[workload, workload, workload].join(","));
        assert_eq!(
            told,
            "2 problems\n  \
             pods[1].uid: \"a\" is already the uid of pods[0]\n  \
             pods[2].uid: \"a\" is already the uid of pods[0]"
        );
    }

    /// Checks that each field of `schema` is known where `document` puts it, and needed only if the
    /// schema says so.
    fn check_fields(schema: &Value, document: impl Fn(&Map<String, Value>) -> Value) {
        let example = |name: &str| match name {
            "uid" => json!("a"),
            "fairness" => json!("nash"),
            "previous_mode" => json!("congested"),
            "demand_capped" => json!(true),
            "pods" => json!([]),
            _ => json!(1),
        };
        let names = schema["properties"].as_object().unwrap().keys();
        let full: Map<String, Value> = names.map(|name| (name.clone(), example(name))).collect();
        let read = |fields: &Map<String, Value>| {
            read(document(fields).to_string().as_bytes(), &Profile::DIRECT)
        };
        read(&full).unwrap();
        for name in full.keys() {
            let mut without = full.clone();
            without.remove(name);
            let required = schema["required"].as_array().unwrap().contains(&json!(name));
            assert_eq!(read(&without).is_err(), required, "{name}");
        }
        let mut more = full;
        more.insert("colour".to_owned(), json!("red"));
        let error = read(&more).unwrap_err().to_string();
        assert!(error.contains("colour: \"red\" is given to an unknown field"), "{error}");
    }

    #[test]
    fn the_schema_and_the_reader_know_the_same_fields() {
        let schema = &schema()["input"];
        check_fields(schema, |fields| Value::Object(fields.clone()));
        let workload = &schema["$defs"]["WorkloadInput"];
        check_fields(workload, |fields| json!({ "capacity_milli": 1, "pods": [fields] }));
    }
}
