//! What a search came to, for programs. Names and order of the keys are a promise.

use std::io::Write;

use serde::Serialize;
use serde_json::{Map, Value as Json};
use walras_core::profile::{Profile, Value};
use walras_sim::contest::Standing;
use walras_sim::measure::Figures;
use walras_sim::tune::Change;

use super::asked::Asked;
use super::{Found, Judged, OnScenario};
use crate::failure::Failure;

#[derive(Serialize)]
struct Document<'a> {
    profile: &'static str,
    seed: u64,
    evaluations: u32,
    constants: Vec<ConstantOut>,
    train: JudgedOut<'a>,
    test: JudgedOut<'a>,
    config: Map<String, Json>,
}

#[derive(Serialize)]
struct ConstantOut {
    key: &'static str,
    unit: &'static str,
    from: Json,
    to: Json,
    saved_core_hours: f64,
}

#[derive(Serialize)]
struct JudgedOut<'a> {
    cost_before: f64,
    cost_after: f64,
    scenarios: Vec<ScenarioOut<'a>>,
}

#[derive(Serialize)]
struct ScenarioOut<'a> {
    name: &'a str,
    seed: u64,
    policies: Vec<PolicyOut<'a>>,
}

#[derive(Serialize)]
struct PolicyOut<'a> {
    policy: &'static str,
    setting: Option<&'a str>,
    core_hours: f64,
    slo_violation_minutes: f64,
    resizes_per_pod_hour: f64,
}

/// Prints all of it as one document.
pub(super) fn print(output: &mut impl Write, asked: &Asked, found: &Found) -> Result<(), Failure> {
    let document = Document {
        profile: asked.profile.name(),
        seed: asked.seed,
        evaluations: found.evaluations,
        constants: found.changes.iter().map(constant).collect(),
        train: judged(&found.train),
        test: judged(&found.test),
        config: config(asked, found),
    };
    serde_json::to_writer_pretty(&mut *output, &document)
        .map_err(|error| Failure::Output(error.into()))?;
    Ok(output.write_all(b"\n")?)
}

/// The keys of a config line that stand for what was found.
pub(super) fn config(asked: &Asked, found: &Found) -> Map<String, Json> {
    let profile = ("profile".to_owned(), Json::from(asked.profile.name()));
    let changes = found.changes.iter().map(|change| (change.key.to_owned(), json(&change.to)));
    std::iter::once(profile).chain(changes).collect()
}

fn constant(change: &Change) -> ConstantOut {
    let known = Profile::CONSTANTS.iter().find(|constant| constant.key == change.key);
    ConstantOut {
        key: change.key,
        unit: known.map_or("", |constant| constant.unit),
        from: json(&change.from),
        to: json(&change.to),
        saved_core_hours: change.saved_core_hours,
    }
}

fn judged(judged: &Judged) -> JudgedOut<'_> {
    JudgedOut {
        cost_before: judged.cost_before,
        cost_after: judged.cost_after,
        scenarios: judged.scenarios.iter().map(scenario).collect(),
    }
}

fn scenario<'a>(on: &'a OnScenario) -> ScenarioOut<'a> {
    let ours = [("before", &on.before), ("after", &on.after)];
    let ours = ours.map(|(name, figures)| policy(name, None, figures));
    let rival = |standing: &'a Standing| {
        policy(standing.policy, standing.setting.as_deref(), &standing.figures)
    };
    ScenarioOut {
        name: &on.name,
        seed: on.seed,
        policies: ours.into_iter().chain(on.rivals.iter().map(rival)).collect(),
    }
}

fn policy<'a>(name: &'static str, setting: Option<&'a str>, figures: &Figures) -> PolicyOut<'a> {
    PolicyOut {
        policy: name,
        setting,
        core_hours: figures.core_hours,
        slo_violation_minutes: figures.slo_violation_minutes,
        resizes_per_pod_hour: figures.resizes_per_pod_hour,
    }
}

/// The core writes values as JSON does: true, 15000, 0.05, "nash".
fn json(value: &Value) -> Json {
    serde_json::from_str(&value.to_string()).unwrap_or(Json::Null)
}
