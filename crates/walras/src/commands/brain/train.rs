//! `walras brain train`: reads events, trains, judges, writes the model and tells.

use std::io::Write;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use walras_brain::data::Rows;
use walras_brain::file::{self, About, ModelFile, Source, TrainedOn};
use walras_brain::forest::TreeSettings;
use walras_brain::judge::{Judgement, judge};
use walras_brain::label::LabelSettings;
use walras_brain::mlp::{MlpSettings, Round};
use walras_brain::train::{TrainSettings, Trained, train};
use walras_sim::place::teach;

use super::args::TrainArgs;
use super::given::Given;
use super::{page, tell};
use crate::failure::Failure;
use crate::page::Target;
use crate::screen::{self, Look};

const SIMULATED: &str = "simulator-trained: by walras, on the interference of its simulator";
const BAR: &str = "{bar:32} {pos} of {len}, {eta} left  {msg}";

/// Trains.
pub(super) fn run(args: &TrainArgs) -> Result<(), Failure> {
    let out = Target::new(&args.out)?;
    let report = args.report.as_deref().map(Target::new).transpose()?;
    let settings = settings(args)?;
    settings.check().map_err(|error| Failure::Input(error.to_string()))?;
    let given = if args.simulated { Given::simulated()? } else { Given::read(&args.events)? };
    let name = name(args);
    let rows = given.rows(&settings.labels);
    let trained = learn(&rows, &settings)?;
    let judgement = judge(&trained.model, &rows.rows[trained.split.test.clone()], settings.seed);
    let about = About {
        name: name.clone(),
        source: Source::Walras,
        calibrated: true,
        trained: Some(TrainedOn {
            data_sha256: given.sha256.clone(),
            events: rows.events,
            rows: rows.rows.len(),
            settings,
        }),
    };
    let file = ModelFile { model: trained.model.clone(), about };
    let bytes = file::write(&file).map_err(|error| Failure::Machine(error.to_string()))?;
    out.write_bytes(&bytes)?;
    if let Some(report) = &report {
        let about = format!(
            "A model of the kind {}, trained on {} rows of {} events.",
            trained.model.kind(),
            trained.split.train.len(),
            rows.events
        );
        report.write(&page::page(&name, &about, &judgement, &trained.rounds))?;
    }
    print(args, &given, &rows, &trained, &judgement, bytes.len())
}

/// What the model is called: what it was trained on is part of the name.
fn name(args: &TrainArgs) -> String {
    let usual = if args.simulated { SIMULATED } else { "trained by walras" };
    args.name.clone().unwrap_or_else(|| usual.to_owned())
}

fn settings(args: &TrainArgs) -> Result<TrainSettings, Failure> {
    Ok(TrainSettings {
        kind: args.kind.into(),
        seed: args.seed,
        monotone: !args.not_monotone,
        labels: labels(args)?,
        mlp: MlpSettings { epochs: args.epochs, ..MlpSettings::default() },
        trees: TreeSettings { trees: args.trees, ..TreeSettings::default() },
    })
}

fn labels(args: &TrainArgs) -> Result<LabelSettings, Failure> {
    let mut labels = match &args.labels {
        None if args.simulated => teach::labels(),
        None => LabelSettings::default(),
        Some(path) => {
            let refused = |error: String| Failure::Input(format!("{}: {error}", path.display()));
            let text = std::fs::read(path).map_err(|error| refused(error.to_string()))?;
            serde_json::from_slice(&text).map_err(|error| refused(error.to_string()))?
        }
    };
    if let Some(trust) = args.trust {
        labels.outcome_trust = trust;
    }
    Ok(labels)
}

fn learn(rows: &Rows, settings: &TrainSettings) -> Result<Trained, Failure> {
    // Draws nothing where standard error is no terminal.
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(BAR);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let trained = train(rows, settings, &mut |round: Round| {
        bar.set_length(u64::from(round.of));
        bar.set_position(u64::from(round.round));
        bar.set_message(format!("error {:.1} points", round.validate.sqrt() * 100.0));
    });
    bar.finish_and_clear();
    trained.map_err(|error| Failure::Input(error.to_string()))
}

fn print(
    args: &TrainArgs,
    given: &Given,
    rows: &Rows,
    trained: &Trained,
    found: &Judgement,
    bytes: usize,
) -> Result<(), Failure> {
    let mut output = screen::output();
    let kind = trained.model.kind();
    if args.json {
        let all = json!({
            "out": args.out,
            "bytes": bytes,
            "kind": kind,
            "data_sha256": given.sha256,
            "events": rows.events,
            "rows": rows.rows.len(),
            "left_out": given.left_out_json(),
            "rounds": trained.rounds,
            "judgement": found,
        });
        writeln!(output, "{all:#}")?;
        return Ok(output.flush()?);
    }
    let look = Look::of_stdout();
    let out = args.out.display();
    writeln!(output, "{}", look.heading(&format!("{out}: {kind}, {bytes} bytes")))?;
    writeln!(
        output,
        "  trained on {} rows of {} events in {} rounds, validated by {} rows, judged by {}",
        trained.split.train.len(),
        rows.events,
        trained.rounds.len(),
        trained.split.validate.len(),
        found.rows
    )?;
    for line in given.left_out() {
        writeln!(output, "  {line}")?;
    }
    tell::judgement(&mut output, found, look)?;
    Ok(output.flush()?)
}
