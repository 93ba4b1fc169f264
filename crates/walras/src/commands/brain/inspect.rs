//! `walras brain inspect`: what a model file is, what it expects, and where it comes from.

use std::io::Write;

use serde_json::{Value, json};
use walras_brain::Kernel;
use walras_brain::file::ModelFile;
use walras_brain::mlp::PARAMETERS;
use walras_brain::model::Learned;

use super::args::InspectArgs;
use super::given;
use crate::failure::Failure;
use crate::screen::{self, Look};

/// Inspects.
pub(super) fn run(args: &InspectArgs) -> Result<(), Failure> {
    let (file, bytes) = given::model(&args.model, args.feature_order.map(Into::into))?;
    let mut output = screen::output();
    if args.json {
        writeln!(output, "{:#}", as_json(&file, bytes))?;
    } else {
        let heading = format!("{}: {}", args.model.display(), file.about.name);
        writeln!(output, "{}", Look::of_stdout().heading(&heading))?;
        for (name, value) in lines(&file, bytes) {
            writeln!(output, "  {name:<12} {value}")?;
        }
    }
    Ok(output.flush()?)
}

/// What it is, in words.
pub(super) fn lines(file: &ModelFile, bytes: usize) -> Vec<(&'static str, String)> {
    let model = &file.model;
    let size = match &model.learned {
        Learned::Mlp(_) => format!("mlp: 26-64-32 units, {PARAMETERS} parameters"),
        Learned::Trees(trees) => {
            let forest = &trees.forest;
            let depth = forest.trees().iter().map(walras_brain::forest::Tree::depth).max();
            let way = if forest.is_packed() { "packed" } else { "walked" };
            let (trees, depth) = (forest.trees().len(), depth.unwrap_or(0));
            format!("trees: {trees} of up to {depth} levels, {way}")
        }
    };
    let confidence = match (&model.learned, file.about.calibrated) {
        (_, true) => "calibrated on events that it did not learn from",
        (Learned::Mlp(_), false) => "not calibrated: nobody compared it with what happened",
        (Learned::Trees(_), false) => "none: always 0.5",
    };
    let mut told = vec![
        ("kind", size),
        ("size", format!("{bytes} bytes")),
        ("source", format!("{:?}", file.about.source).to_lowercase()),
        ("features", format!("26, in the order {}", model.order.name())),
        ("confidence", confidence.to_owned()),
        ("kernel here", Kernel::best().name().to_owned()),
    ];
    if let Some(on) = &file.about.trained {
        told.push(("trained on", format!("{} rows of {} events", on.rows, on.events)));
        told.push(("data sha256", on.data_sha256.clone()));
        let monotone = if on.settings.monotone { "never" } else { "may" };
        told.push(("seed", on.settings.seed.to_string()));
        told.push(("more load", format!("{monotone} scores higher")));
    }
    told
}

/// What it is, for programs.
pub(super) fn as_json(file: &ModelFile, bytes: usize) -> Value {
    json!({
        "name": file.about.name,
        "kind": file.model.kind(),
        "bytes": bytes,
        "source": file.about.source,
        "calibrated": file.about.calibrated,
        "order": file.model.order,
        "missing": file.model.filler,
        "features": file.model.order.features(),
        "trained": file.about.trained,
    })
}
