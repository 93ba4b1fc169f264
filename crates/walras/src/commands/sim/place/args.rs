//! What can be asked of `walras sim place`, and the help that teaches it.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use crate::cli::threads;

const HELP: &str = "\
Examples:
  walras sim place                                   all towns, 20 seeds, every rule
  walras sim place shop --seeds 5 --report placement.html
  walras sim place data --policy load-variation,mlp,oracle --json | jq .towns[0].comparisons
  walras sim place shop --model brain.safetensors    your own model beside the others
  walras sim place --events events.jsonl             what models learn from, and no contest

All rules place the same pods onto the same nodes. A pod's slowdown is how many times longer its
work takes than alone on the node, by a model of interference that is fitted to measurements on a
real machine; of pods that somebody waits for, it is that of the 99th percentile of requests. The
slowdowns of every minute of every pod are counted, after an hour that fills the nodes. Intervals
are 95 % over seeds.

Rules: least-allocated, most-allocated, balanced and kube-default are kube-scheduler's;
target-load and load-variation are Trimaran's; mlp and trees are the models that are built in, and
oracle knows what nobody can measure. No model has learned from a town that judges it.

Exit codes:
  0  fine
  1  something else went wrong, such as output that cannot be written
  2  bad input or usage; standard error says what and where";

/// What to place, and by which rules.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct PlaceArgs {
    /// The towns; all that judge where none is named
    #[arg(value_name = "TOWN")]
    pub(super) towns: Vec<String>,
    /// The rules that take part, or all
    #[arg(long = "policy", value_name = "NAMES", value_delimiter = ',')]
    pub(super) policies: Vec<String>,
    /// One more model that takes part, as the rule model
    #[arg(long, value_name = "FILE")]
    pub(super) model: Option<PathBuf>,
    /// How many seeds
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(super) seeds: u32,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(0..1_000_000))]
    pub(super) seed: u64,
    /// How many nodes
    #[arg(long, value_name = "N", default_value_t = 30,
          value_parser = clap::value_parser!(u32).range(2..=2000))]
    pub(super) nodes: u32,
    /// How many hours count, after one that fills the nodes
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=168))]
    pub(super) hours: u32,
    /// How many threads; as many as the machine can run where it is not said
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(super) threads: Option<NonZeroUsize>,
    /// Print JSON for programs, not tables for people
    #[arg(long)]
    pub(super) json: bool,
    /// Write a page with tables and pictures as well
    #[arg(long, value_name = "FILE.html")]
    pub(super) report: Option<PathBuf>,
    /// Write what becomes of pods in the towns that models learn from, as events, and end
    #[arg(long, value_name = "FILE.jsonl", conflicts_with_all = ["towns", "report", "policies"])]
    pub(super) events: Option<PathBuf>,
}
