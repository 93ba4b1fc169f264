//! `cargo xtask soak`: an hour of faults and hostile tenants on a real cluster.
//!
//! The tier `kube` has two minutes of the same test.

use std::process::ExitCode;

use anyhow::{Result, ensure};

use crate::tools::Places;
use crate::{facts, lease, run, tiers};

/// Runs it, and says how to repeat it.
pub(crate) fn run(minutes: u32, seed: Option<u64>) -> Result<ExitCode> {
    let places = Places::find()?;
    let _lease = lease::take(&places)?;
    let facts = facts::gather(places, 1)?;
    ensure!(
        !facts.without_kubernetes,
        "WALRAS_WITHOUT_KUBERNETES is set, and this needs a cluster"
    );
    let status = run::call(&tiers::soak(&facts, minutes, seed), &facts.places)?;
    if status.success() {
        println!("soak: nothing restarted, nothing lost, no pod outside its bounds");
        return Ok(ExitCode::SUCCESS);
    }
    println!("soak: failed; repeat it with the seed that it printed: cargo xtask soak --seed N");
    Ok(ExitCode::FAILURE)
}
