//! `cargo xtask testbed`: passes its arguments on to the command of `crates/testbed`; and
//! `cargo xtask image`, which is written there as well.
//!
//! That crate is built when it is needed and not before, so that the build tool stays small. Only
//! `test` is ours: it is the tier of the ladder.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::lease;
use crate::run;
use crate::tier::Tier;
use crate::tiers;
use crate::tools::{self, Need, Places};

/// Runs `args` as the testbed's command line, and ends as it ends.
pub(crate) fn call(args: &[String]) -> Result<ExitCode> {
    if args == ["test"] {
        return run::test(&[Tier::Kube], 1);
    }
    let places = Places::find()?;
    let _lease = lease::take(&places)?;
    if ["up", "prepare"].iter().any(|builds| args.first().is_some_and(|first| first == builds)) {
        tools::meet(&Need::Go, &places)?;
    }
    let call = args.iter().fold(tiers::testbed(), |call, arg| call.arg(arg));
    let status = run::quiet_call(&call, &places)?;
    // A program that was ended by a signal has no code.
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Writes an image of Walras to `out`, or to the target folder.
pub(crate) fn image(out: Option<PathBuf>) -> Result<ExitCode> {
    let mut args = vec!["image".to_owned()];
    if let Some(out) = out {
        args.extend(["--out".to_owned(), std::path::absolute(out)?.display().to_string()]);
    }
    call(&args)
}
