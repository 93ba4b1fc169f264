//! Writes the man pages by asking the program itself for them.
//!
//! The pages come from the same definition that parses the command line, through the hidden
//! command `walras man --out DIR`, so they cannot disagree with it and this crate need not depend
//! on the product.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::lease;
use crate::run;
use crate::tiers;
use crate::tools::{self, Places};

/// Writes the pages to `out`, or to `man` in the target folder.
pub(crate) fn write(out: Option<PathBuf>) -> Result<ExitCode> {
    let places = Places::find()?;
    let _lease = lease::take(&places)?;
    let folder = std::path::absolute(out.unwrap_or_else(|| places.target.join("man")))?;
    tools::make_folder(&folder)?;
    let call = tiers::man_pages(&folder.display().to_string());
    let status = run::call(&call, &places)?;
    ensure!(status.success(), "`walras man` ended with {status}");
    let pages = fs::read_dir(&folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "1"))
        .count();
    ensure!(folder.join("walras.1").is_file(), "`walras man` wrote no walras.1");
    println!("{pages} man pages in {}", folder.display());
    Ok(ExitCode::SUCCESS)
}
