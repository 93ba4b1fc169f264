//! `walras brain eval`: how good a model is on events.

use std::io::Write;

use serde_json::json;
use walras_brain::file::ModelFile;
use walras_brain::judge::judge;
use walras_brain::label::LabelSettings;

use super::args::EvalArgs;
use super::given::{self, Given};
use super::{page, tell};
use crate::failure::Failure;
use crate::page::Target;
use crate::screen::{self, Look};

/// Judges.
pub(super) fn run(args: &EvalArgs) -> Result<(), Failure> {
    let report = args.report.as_deref().map(Target::new).transpose()?;
    let (file, _) = given::model(&args.model, args.feature_order.map(Into::into))?;
    let given = Given::read(&args.events)?;
    let rows = given.rows(&labels(&file));
    if rows.rows.is_empty() {
        let message = "there is nothing to judge by: no event has telemetry and an outcome";
        return Err(Failure::Input(message.to_owned()));
    }
    let learned_from = file.about.trained.as_ref().is_some_and(|on| on.data_sha256 == given.sha256);
    let split = rows.split().filter(|_| learned_from);
    let judged = split.map_or(0..rows.rows.len(), |split| split.test);
    let found = judge(&file.model, &rows.rows[judged], args.seed);
    let by = if learned_from {
        "the youngest events of those it was trained on, which it did not learn from"
    } else {
        "all events"
    };
    if let Some(report) = &report {
        let about = format!("A model of the kind {}, judged by {by}.", file.model.kind());
        report.write(&page::page(&file.about.name, &about, &found, &[]))?;
    }
    let mut output = screen::output();
    if args.json {
        let all = json!({
            "model": args.model,
            "kind": file.model.kind(),
            "judged_by": if learned_from { "test" } else { "all" },
            "left_out": given.left_out_json(),
            "judgement": found,
        });
        writeln!(output, "{all:#}")?;
        return Ok(output.flush()?);
    }
    let look = Look::of_stdout();
    let heading = format!("{}: {}", args.model.display(), file.model.kind());
    writeln!(output, "{}", look.heading(&heading))?;
    writeln!(output, "  judged by {} rows of {} events: {by}", found.rows, found.events)?;
    for line in given.left_out() {
        writeln!(output, "  {line}")?;
    }
    tell::judgement(&mut output, &found, look)?;
    Ok(output.flush()?)
}

/// The labels that the model was taught with.
fn labels(file: &ModelFile) -> LabelSettings {
    let trained = file.about.trained.as_ref();
    trained.map_or_else(LabelSettings::default, |on| on.settings.labels.clone())
}
