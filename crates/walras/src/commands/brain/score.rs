//! `walras brain score`: scores nodes for one pod, from a question in JSON.

use std::io::{Read, Write};
use std::path::Path;

use serde_json::{Value, json};
use walras_brain::events::{Event, read_line};
use walras_brain::features::NodeFacts;
use walras_brain::reason::reason;
use walras_brain::slot::Slot;
use walras_brain::verdict::{Scale, Verdict};

use super::args::ScoreArgs;
use super::given;
use crate::failure::Failure;
use crate::input::Source;
use crate::screen::{self, Look};

/// More than any cluster has to say.
const LONGEST: u64 = 64 << 20;

/// Scores.
pub(super) fn run(args: &ScoreArgs) -> Result<(), Failure> {
    let slot = Slot::empty();
    if args.model != Path::new("none") {
        let (file, _) = given::model(&args.model, args.feature_order.map(Into::into))?;
        slot.swap(Some(file));
    }
    let question = question(args)?;
    let (names, nodes): (Vec<&String>, Vec<NodeFacts>) =
        question.nodes.iter().map(|(name, node)| (name, *node)).unzip();
    let mut verdicts = vec![Verdict::NO_MODEL; nodes.len()];
    let scale = if args.stretch { Scale::Batch } else { Scale::Absolute };
    slot.score(&question.pod, &nodes, scale, &mut verdicts);
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by(|a, b| verdicts[*b].score.total_cmp(&verdicts[*a].score));
    let mut output = screen::output();
    if args.json {
        let scores: Vec<Value> = order
            .iter()
            .map(|&place| {
                let verdict = &verdicts[place];
                json!({
                    "node_name": names[place],
                    "score": verdict.points_floor(),
                    "exact": verdict.score,
                    "confidence": verdict.confidence,
                    "reasoning": reason(names[place], &nodes[place], verdict),
                })
            })
            .collect();
        writeln!(output, "{:#}", json!({ "scores": scores }))?;
    } else {
        writeln!(output, "{}", Look::of_stdout().heading("score  confidence  why"))?;
        for place in order {
            let verdict = &verdicts[place];
            let why = reason(names[place], &nodes[place], verdict);
            writeln!(output, "{:>5}  {:>10.2}  {why}", verdict.points_floor(), verdict.confidence)?;
        }
    }
    Ok(output.flush()?)
}

/// An event that has not happened yet.
fn question(args: &ScoreArgs) -> Result<Event, Failure> {
    let source = Source::named(&args.file);
    let refused = |what: String| Failure::Input(format!("{source}: {what}"));
    let mut text = Vec::new();
    let from = source.open("walras brain score --model brain.safetensors question.json")?;
    from.take(LONGEST).read_to_end(&mut text).map_err(|error| refused(error.to_string()))?;
    let mut asked: Value =
        serde_json::from_slice(&text).map_err(|error| refused(error.to_string()))?;
    let object = asked.as_object_mut().ok_or_else(|| refused("it is no JSON object".to_owned()))?;
    // What only an event that happened has.
    object.insert("timestamp".to_owned(), json!(0));
    object.insert("chosen_node".to_owned(), json!(""));
    object.remove("outcome");
    read_line(asked.to_string().as_bytes()).map_err(|error| refused(error.to_string()))
}
