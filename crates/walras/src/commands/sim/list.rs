//! `walras sim list`: the built-in scenarios and the policies.

use std::io::Write;

use serde::Serialize;
use walras_sim::contest::CONTESTANTS;
use walras_sim::report::number::trimmed;
use walras_sim::scenario::{Builtin, Scenario, Suite, builtin};

use super::table::columns;
use crate::cli::SimListArgs;
use crate::failure::Failure;
use crate::screen::{self, Look};

#[derive(Serialize)]
struct Document {
    scenarios: Vec<ScenarioOut>,
    policies: Vec<PolicyOut>,
}

#[derive(Serialize)]
struct ScenarioOut {
    name: String,
    suite: &'static str,
    pods: usize,
    hours: f64,
    about: String,
}

#[derive(Serialize)]
struct PolicyOut {
    name: &'static str,
    about: &'static str,
}

/// Prints what there is.
pub(super) fn run(args: &SimListArgs) -> Result<(), Failure> {
    let scenarios = builtin().iter().map(Builtin::scenario).map(|scenario| scenario_out(&scenario));
    let policies = CONTESTANTS
        .iter()
        .map(|contestant| PolicyOut { name: contestant.name, about: contestant.about });
    let document = Document { scenarios: scenarios.collect(), policies: policies.collect() };
    let mut output = screen::output();
    if args.json {
        serde_json::to_writer_pretty(&mut output, &document)
            .map_err(|error| Failure::Output(error.into()))?;
        output.write_all(b"\n")?;
    } else {
        print_text(&mut output, &document, Look::of_stdout())?;
    }
    Ok(output.flush()?)
}

fn print_text(output: &mut impl Write, document: &Document, look: Look) -> Result<(), Failure> {
    let scenarios = document.scenarios.iter().map(|scenario| {
        [
            scenario.name.clone(),
            scenario.suite.to_owned(),
            scenario.pods.to_string(),
            trimmed(scenario.hours, 2),
            scenario.about.clone(),
        ]
    });
    let headings = ["scenario", "suite", "pods", "hours", "about"];
    columns(output, &headings, scenarios, &[2, 3], look)?;
    writeln!(output)?;
    let policies =
        document.policies.iter().map(|policy| [policy.name.to_owned(), policy.about.to_owned()]);
    columns(output, &["policy", "about"], policies, &[], look)?;
    Ok(())
}

fn scenario_out(scenario: &Scenario) -> ScenarioOut {
    ScenarioOut {
        name: scenario.name.clone(),
        suite: match scenario.suite {
            Suite::Train => "train",
            Suite::Test => "test",
            Suite::Other => "other",
        },
        pods: scenario.pods.len(),
        hours: f64::from(scenario.duration_s) / 3600.0,
        about: scenario.about.clone(),
    }
}
