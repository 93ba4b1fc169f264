//! What can be asked of `walras brain`, and the help that teaches it.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use walras_brain::features::Order;
use walras_brain::train::Kind;

const EXIT_CODES: &str = "\nExit codes:\n  0  fine\n  \
    1  something else went wrong, such as output that cannot be written\n  \
    2  bad input or usage; standard error says what and where";

fn help(examples: &str) -> String {
    format!("{examples}{EXIT_CODES}")
}

const BRAIN: &str = "\
Examples:
  walras brain train events.jsonl --out brain.safetensors --report training.html
  walras brain eval brain.safetensors younger.jsonl
  walras brain inspect brain.safetensors
  walras brain score --model brain.safetensors question.json
  walras brain serve --socket /run/walras/brain.sock
  walras brain import model.pt --feature-order kubeattention --out brain.safetensors
";

const TRAIN: &str = "\
Examples:
  walras brain train events.jsonl --out brain.safetensors
  walras brain train events-1.jsonl events-2.jsonl --kind trees --out trees.safetensors
  walras brain train events.jsonl --out brain.safetensors --json | jq .judgement.rmse
  walras brain train --simulated --out brain.safetensors      the model that is built in

Events are JSON lines, one for each pod that was placed (broken here):
  {\"timestamp\":\"2026-11-17T08:30:00Z\",\"event_id\":\"e1\",\"cpu_request_milli\":500,
   \"memory_request_bytes\":1073741824,\"workload_type\":\"cpu-bound\",\"criticality\":\"high\",
   \"node_telemetry\":{\"node-1\":{\"cpu_utilization\":0.3,\"memory_utilization\":0.5}},
   \"chosen_node\":\"node-1\",\"outcome\":\"running\"}

The oldest 70 % of events are learned from, the next 15 % say when to stop and what confidence is
worth, and the youngest 15 % judge. The same files, seed and settings give the same model, byte for
byte. Lines that are no events are told and left out, unless they are more than half.

--labels changes how labels are made; what it does not say stays as it is:
  {\"cpu\":0.5,\"memory\":0.3,\"cache\":0.2,\"outcome_trust\":0.6,\"outcome_window_s\":300}
An \"outcomes\" in it replaces the whole table: {\"running\":{\"score\":1,\"weight\":1}, ...}.
";

const EVAL: &str = "\
Examples:
  walras brain eval brain.safetensors younger.jsonl
  walras brain eval brain.safetensors younger.jsonl --report judged.html
  walras brain eval model.ubj events.jsonl --feature-order kubeattention --json

A model that was trained on exactly these files is judged by the part that it did not learn from,
any other by all events. Importance is how many points the error grows when a feature's values are
dealt out anew.
";

const INSPECT: &str = "\
Examples:
  walras brain inspect                              the model that is built in
  walras brain inspect brain.safetensors
  walras brain inspect model.ubj --feature-order kubeattention
  walras brain inspect brain.safetensors --json | jq .trained.settings
";

const IMPORT: &str = "\
Examples:
  walras brain import model.pt --feature-order kubeattention --out brain.safetensors
  walras brain import model.json --out trees.safetensors

Reads safetensors, PyTorch's .pt of 26-64-32 units, and XGBoost's JSON and UBJSON. Nothing in a .pt
is run: it is read as data, and refused if it names anything but tensors. A file that does not name
its features needs --feature-order.
";

const SCORE: &str = "\
Examples:
  walras brain score question.json                  by the model that is built in
  walras brain score --model brain.safetensors question.json
  walras brain score --model none - < question.json

A question is a JSON object like an event, without its outcome:
  {\"cpu_request_milli\":500,\"workload_type\":\"cpu-bound\",
   \"node_telemetry\":{\"node-1\":{\"cpu_utilization\":0.3},\"node-2\":{\"cpu_utilization\":0.9}}}
";

/// What to do with models.
#[derive(Debug, Args)]
#[command(after_help = help(BRAIN), subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct BrainArgs {
    #[command(subcommand)]
    pub(super) command: BrainCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum BrainCommand {
    /// Train a model on what became of placed pods
    #[command(after_help = help(TRAIN))]
    Train(TrainArgs),
    /// Judge a model by events: accuracy, ranks, calibration, importance of features
    #[command(after_help = help(EVAL))]
    Eval(EvalArgs),
    /// Say what a model file is, what it expects, and where it comes from
    #[command(after_help = help(INSPECT))]
    Inspect(InspectArgs),
    /// Make a model file of one that PyTorch or XGBoost wrote
    #[command(after_help = help(IMPORT))]
    Import(ImportArgs),
    /// Score nodes for one pod, offline
    #[command(after_help = help(SCORE))]
    Score(ScoreArgs),
    /// Score nodes for schedulers, over gRPC
    #[cfg(feature = "run")]
    #[command(after_help = help(super::serve::SERVE))]
    Serve(super::serve::ServeArgs),
}

#[derive(Debug, Args)]
pub(super) struct TrainArgs {
    /// Files of events, as JSON lines, the older ones first
    #[arg(value_name = "EVENTS.jsonl", required_unless_present = "simulated")]
    pub(super) events: Vec<PathBuf>,
    /// Learn from what becomes of pods in the simulator, as the model that is built in did
    #[arg(long, conflicts_with = "events")]
    pub(super) simulated: bool,
    /// Where to write the model
    #[arg(long, value_name = "FILE")]
    pub(super) out: PathBuf,
    /// Which kind of model
    #[arg(long, value_enum, default_value_t = KindChoice::Mlp)]
    pub(super) kind: KindChoice,
    /// Where randomness starts
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub(super) seed: u64,
    /// How often a perceptron sees all rows at most
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(super) epochs: u32,
    /// How many trees at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(super) trees: u32,
    /// How much of a chosen node's label is the outcome, from 0 to 1; 0.7 where nothing says so
    #[arg(long, value_name = "SHARE")]
    pub(super) trust: Option<f64>,
    /// How labels are made, as JSON: weights, trust, and what outcomes are worth
    #[arg(long, value_name = "FILE.json")]
    pub(super) labels: Option<PathBuf>,
    /// Let scores rise with load where the data say so
    #[arg(long)]
    pub(super) not_monotone: bool,
    /// What the model is called; how it was trained where it is not said
    #[arg(long, value_name = "TEXT")]
    pub(super) name: Option<String>,
    /// Write a page with plots as well
    #[arg(long, value_name = "FILE.html")]
    pub(super) report: Option<PathBuf>,
    /// Print JSON for programs, not text for people
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct EvalArgs {
    /// The model; embedded and embedded-trees are those that are built in
    #[arg(value_name = "MODEL")]
    pub(super) model: PathBuf,
    /// Files of events, as JSON lines, the older ones first
    #[arg(value_name = "EVENTS.jsonl", required = true)]
    pub(super) events: Vec<PathBuf>,
    /// The order of features, for a file that does not name them
    #[arg(long, value_enum)]
    pub(super) feature_order: Option<OrderChoice>,
    /// Where dealing out for the importance of features starts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Write a page with plots as well
    #[arg(long, value_name = "FILE.html")]
    pub(super) report: Option<PathBuf>,
    /// Print JSON for programs, not text for people
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct InspectArgs {
    /// The model; embedded and embedded-trees are those that are built in
    #[arg(value_name = "MODEL", default_value = "embedded")]
    pub(super) model: PathBuf,
    /// The order of features, for a file that does not name them
    #[arg(long, value_enum)]
    pub(super) feature_order: Option<OrderChoice>,
    /// Print JSON for programs, not text for people
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The file that PyTorch or XGBoost wrote
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// Where to write the model
    #[arg(long, value_name = "FILE")]
    pub(super) out: PathBuf,
    /// The order of features, for a file that does not name them
    #[arg(long, value_enum)]
    pub(super) feature_order: Option<OrderChoice>,
    /// What the model is called; what it was imported from where it is not said
    #[arg(long, value_name = "TEXT")]
    pub(super) name: Option<String>,
    /// Print JSON for programs, not text for people
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ScoreArgs {
    /// The question as JSON; - is standard input
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// The model; embedded and embedded-trees are those that are built in, none is neutral
    #[arg(long, value_name = "FILE|none", env = "MODEL_PATH", default_value = "embedded")]
    pub(super) model: PathBuf,
    /// The order of features, for a file that does not name them
    #[arg(long, value_enum)]
    pub(super) feature_order: Option<OrderChoice>,
    /// Stretch the scores so that the worst node has 0 and the best 100
    #[arg(long)]
    pub(super) stretch: bool,
    /// Print JSON for programs, not a table for people
    #[arg(long)]
    pub(super) json: bool,
}

/// A kind of model by its name on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum KindChoice {
    /// A perceptron of 26-64-32 units
    Mlp,
    /// Boosted trees of up to six levels
    Trees,
}

/// An order of features by its name on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum OrderChoice {
    /// Cost, spot, risk, zone at the end, as in KubeAttention's document
    Document,
    /// Cost, zone, risk, spot at the end, as in KubeAttention's code
    Kubeattention,
}

impl From<KindChoice> for Kind {
    fn from(choice: KindChoice) -> Self {
        match choice {
            KindChoice::Mlp => Self::Mlp,
            KindChoice::Trees => Self::Trees,
        }
    }
}

impl From<OrderChoice> for Order {
    fn from(choice: OrderChoice) -> Self {
        match choice {
            OrderChoice::Document => Self::Document,
            OrderChoice::Kubeattention => Self::Kubeattention,
        }
    }
}
