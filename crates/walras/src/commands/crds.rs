//! `walras crds`: the definition of `PodAllocation`, as YAML for kubectl or as JSON.
//!
//! It is made from the types that the agent and the controller use, so that the three cannot
//! disagree. What is printed is a file of the checkout as well; a test holds them together.

use std::io::{self, Write};

use clap::Args;
use serde_json::Value;
use walras_kube::crd;

use crate::failure::Failure;
use crate::help::exit_codes;
use crate::screen;

/// What the YAML begins with: where it comes from.
const HEAD: &str = "# Printed by `walras crds`; change the types in crates/kube/src/crd instead.\n";

pub(crate) const CRDS_HELP: &str = concat!(
    "\
Examples:
  walras crds | kubectl apply --server-side -f -
  walras crds --json | jq '.spec.versions[].name'
  walras crds > deploy/crds/podallocations.yaml     in a checkout, after a change of the types

A PodAllocation says what one pod should have, and what became of it. Agents write its spec, the
controller writes its status; `kubectl get podallocations -A` lists them, or pa for short. The
manifests and the chart in deploy/ hold the same definition.
",
    exit_codes!("nothing is printed")
);

/// How to print the definition.
#[derive(Debug, Args)]
pub(crate) struct CrdsArgs {
    /// Print JSON for programs, not YAML
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints the definition.
pub(crate) fn run(args: &CrdsArgs) -> Result<(), Failure> {
    let definition = serde_json::to_value(crd::definition()).map_err(io::Error::from)?;
    let mut output = screen::output();
    if args.json {
        writeln!(output, "{definition:#}")?;
    } else {
        output.write_all(as_yaml(&definition)?.as_bytes())?;
    }
    Ok(output.flush()?)
}

fn as_yaml(definition: &Value) -> io::Result<String> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let yaml = serde_saphyr::to_string_with_options(definition, options);
    Ok(format!("{HEAD}{}", yaml.map_err(io::Error::other)?))
}
