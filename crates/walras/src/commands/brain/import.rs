//! `walras brain import`: makes a model file of one that another program wrote.

use std::io::Write;

use walras_brain::file;

use super::args::ImportArgs;
use super::{given, inspect};
use crate::failure::Failure;
use crate::page::Target;
use crate::screen::{self, Look};

/// Imports.
pub(super) fn run(args: &ImportArgs) -> Result<(), Failure> {
    let out = Target::new(&args.out)?;
    let (mut file, _) = given::model(&args.file, args.feature_order.map(Into::into))?;
    if let Some(name) = &args.name {
        file.about.name.clone_from(name);
    }
    let bytes = file::write(&file)
        .map_err(|error| Failure::Input(format!("{}: {error}", args.file.display())))?;
    out.write_bytes(&bytes)?;
    let mut output = screen::output();
    if args.json {
        writeln!(output, "{:#}", inspect::as_json(&file, bytes.len()))?;
    } else {
        let heading = format!("{}: {}", args.out.display(), file.about.name);
        writeln!(output, "{}", Look::of_stdout().heading(&heading))?;
        for (name, value) in inspect::lines(&file, bytes.len()) {
            writeln!(output, "  {name:<12} {value}")?;
        }
    }
    Ok(output.flush()?)
}
