//! `walras crds`: the definition of `PodAllocation`, as YAML for kubectl or as JSON.
//!
//! It is made from the types that the agent and the controller use, so that the three cannot
//! disagree. What is printed is a file of the checkout as well; a test holds them together.

use std::io::{self, Write};

use serde_json::Value;
use walras_kube::crd;

use crate::cli::CrdsArgs;
use crate::failure::Failure;
use crate::screen;

/// What the YAML begins with: where it comes from.
const HEAD: &str = "# Printed by `walras crds`; change the types in crates/kube/src/crd instead.\n";

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
