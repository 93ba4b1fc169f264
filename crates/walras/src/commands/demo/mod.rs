//! `walras demo`: the same workloads under static limits and under the market, side by side.
//!
//! `cast` says who plays; `load` is one of them as a process; `ground` has the cgroups; `phase`
//! runs and measures, with the daemon's loop in `market`; `simulate` does the same in the simulator
//! where no cgroup can be written. `outcome` is what a phase came to; `table`, `json` and `page`
//! tell it. `run` shows workloads that are run instead. Whatever happens, nothing is left behind:
//! no process, no cgroup.

mod cast;
mod ground;
mod json;
mod load;
mod market;
mod outcome;
mod page;
mod phase;
mod progress;
#[cfg(feature = "run")]
mod run;
mod simulate;
mod table;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use walras_core::units::Millicores;
use walras_node::drive::cpus_online;
use walras_sim::scenario::Scenario;

use self::ground::Ground;
use self::outcome::Phase;
use self::phase::Ended;
use self::progress::{Progress, tell};
use crate::cli::DemoArgs;
use crate::failure::Failure;
use crate::page::Target;
use crate::screen::{self, Look};

pub(crate) use self::load::run as run_load;

/// Under which policies the workloads run, one after the other.
const POLICIES: [&str; 2] = ["static", "walras"];
/// More cores than this show nothing more, and others may want them.
const CORES_MAX: u32 = 8;

/// What was seen.
#[derive(Debug)]
pub(super) struct Trial {
    scenario: Scenario,
    before: Phase,
    after: Phase,
    /// Whether it was simulated, and why, where that was not asked for.
    simulated: bool,
    because: Option<String>,
    summary: String,
}

/// Runs both phases and tells what they came to.
pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .map_err(|error| Failure::Machine(format!("signals cannot be heard: {error}")))?;
    }
    #[cfg(feature = "run")]
    if args.running.run {
        return run::run(&args.running, &interrupted);
    }
    let target = Target::new(&args.report)?;
    let scenario = cast::scenario(capacity(), args.seconds);
    let trial = if args.simulate {
        simulated(scenario, None)?
    } else {
        match Ground::prepare() {
            Ok(ground) => measured(scenario, &ground, &interrupted)?,
            Err(error) => {
                tell(&format!(
                    "Simulated, because the workloads cannot have control groups here: {error}."
                ));
                simulated(scenario, Some(error.to_string()))?
            }
        }
    };
    let path = std::path::absolute(&args.report).unwrap_or_else(|_| args.report.clone());
    let path = path.display().to_string();
    // What was found comes first: the report may not be possible any more.
    let mut output = screen::output();
    if args.json {
        print_json(&mut output, &trial, &path)?;
    } else {
        print_text(&mut output, &trial)?;
    }
    output.flush()?;
    target.write(&page::html(&trial))?;
    if !args.json {
        writeln!(output, "Report: {path}")?;
    }
    Ok(output.flush()?)
}

fn measured(
    scenario: Scenario,
    ground: &Ground,
    interrupted: &Arc<AtomicBool>,
) -> Result<Trial, Failure> {
    tell(&format!(
        "Five workloads on {} cores, {} s under static limits and {} s under the market.",
        cast::cores(scenario.node.capacity),
        scenario.duration_s,
        scenario.duration_s,
    ));
    let mut progress = Progress::new(scenario.duration_s);
    let mut play = |policy| {
        let played = phase::play(ground, &scenario, policy, &mut progress, interrupted);
        played.map_err(|ended| {
            progress.end();
            match ended {
                // Ctrl-C reaches the workloads as well, so that they may be gone first.
                Ended::Broken(_) if interrupted.load(Ordering::Relaxed) => Failure::Interrupted,
                Ended::Interrupted => Failure::Interrupted,
                Ended::Broken(message) => Failure::Machine(message),
            }
        })
    };
    let [before, after] = [play(POLICIES[0])?, play(POLICIES[1])?];
    progress.end();
    Ok(Trial::new(scenario, before, after, false, None))
}

fn simulated(scenario: Scenario, because: Option<String>) -> Result<Trial, Failure> {
    let [before, after] = POLICIES.map(|policy| simulate::play(&scenario, policy));
    let (Some(before), Some(after)) = (before, after) else {
        return Err(Failure::Machine("the simulator does not know the policies".to_owned()));
    };
    Ok(Trial::new(scenario, before, after, true, because))
}

fn print_json(output: &mut impl Write, trial: &Trial, report: &str) -> Result<(), Failure> {
    let document = json::Document {
        simulated: trial.simulated,
        because: trial.because.as_deref(),
        cores: cast::cores(trial.scenario.node.capacity),
        seconds_per_phase: trial.scenario.duration_s,
        summary: &trial.summary,
        report,
        phases: [&trial.before, &trial.after].map(json::phase).into(),
    };
    json::print(output, &document)
}

fn print_text(output: &mut impl Write, trial: &Trial) -> Result<(), Failure> {
    let look = Look::of_stdout();
    if trial.simulated {
        writeln!(output, "{}\n", look.heading("Simulated, not measured."))?;
    }
    table::print(output, &table::rows(&trial.before, &trial.after), look)?;
    Ok(writeln!(output, "\n{}", trial.summary)?)
}

/// What there is to divide: the CPUs that this process may use, up to a few.
fn capacity() -> Millicores {
    let usable = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let usable = u32::try_from(usable).unwrap_or(CORES_MAX).min(CORES_MAX);
    cpus_online().min(Millicores::from_cores(usable))
}

// === impl Trial ===

impl Trial {
    fn new(
        scenario: Scenario,
        before: Phase,
        after: Phase,
        simulated: bool,
        because: Option<String>,
    ) -> Self {
        let summary = table::sentence(&before.figures(), &after.figures());
        Self { scenario, before, after, simulated, because, summary }
    }
}
