//! Climbs the ladder: carries out each tier's plan, times it, and sums up.
//!
//! Output of the programs passes through as it comes. A failed tier does not stop the ladder, so
//! that the summary is complete, except that tiers which could only repeat a failed build are left
//! out. Programs stay in our process group and signals are left alone, so Ctrl-C ends everything.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use owo_colors::OwoColorize as _;

use crate::facts;
use crate::guest;
use crate::lease;
use crate::tier::Tier;
use crate::tiers::{self, Call, Plan, Step};
use crate::toolchain;
use crate::tools::{self, Places};

/// What is said of a tier that took too long. It is not failed: the machine may be slow.
const OVER_BUDGET: &str = ", over its budget";

/// What came of one tier.
#[derive(Debug)]
struct Record {
    tier: Tier,
    outcome: Outcome,
    took: Duration,
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed(String),
    /// Failed, because the product does not build.
    NoBuild(String),
    NotRun(String),
}

/// Prints the tiers and what each proves.
pub(crate) fn list() -> Result<ExitCode> {
    for tier in Tier::value_variants() {
        println!("{:<9} {}", tier.name(), tier.proves());
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `chosen` tiers, or all where none is chosen, in the order of the ladder.
pub(crate) fn test(chosen: &[Tier], fuzz_seconds: u32) -> Result<ExitCode> {
    let start = Instant::now();
    let places = Places::find()?;
    let _lease = lease::take(&places)?;
    let facts = facts::gather(places, fuzz_seconds)?;
    let everything = if chosen.is_empty() { Tier::value_variants() } else { chosen };
    let tiers: BTreeSet<Tier> = everything.iter().copied().collect();
    let mut records: Vec<Record> = Vec::new();
    for tier in tiers {
        println!("\n==> {}: {}", tier.name(), tier.proves());
        let begun = Instant::now();
        let no_build = records.iter().find(|record| matches!(record.outcome, Outcome::NoBuild(_)));
        let outcome = match no_build {
            Some(failed) if tier.repeats_a_broken_build() => {
                Outcome::NotRun(format!("the build failed in {}", failed.tier.name()))
            }
            Some(_) | None => carry_out(tiers::plan(tier, &facts), &facts.places),
        };
        println!("==> {}: {}", tier.name(), outcome.words());
        records.push(Record { tier, outcome, took: begun.elapsed() });
    }
    anstream::print!("\n{}", coloured(&summary(&records, start.elapsed())));
    let failed = records.iter().any(|record| record.outcome.is_failure());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs a program from the root of the checkout, with its output passed through.
pub(crate) fn call(call: &Call, places: &Places) -> Result<ExitStatus> {
    prepare(call, places).status().with_context(|| format!("cannot start {}", call.program))
}

/// The same, without saying so: standard output is the program's alone.
pub(crate) fn quiet_call(call: &Call, places: &Places) -> Result<ExitStatus> {
    silent(call, places).status().with_context(|| format!("cannot start {}", call.program))
}

/// A program that starts from the root of the checkout. Says what it is.
pub(crate) fn prepare(call: &Call, places: &Places) -> Command {
    println!("    {call}");
    silent(call, places)
}

fn silent(call: &Call, places: &Places) -> Command {
    let mut command = Command::new(&call.program);
    for name in told_by_cargo() {
        command.env_remove(name);
    }
    command.args(&call.args).current_dir(&places.root).env("CARGO_TARGET_DIR", &places.target);
    if let Some(programs) = toolchain::fetched_programs(places) {
        let path = tools::variable("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", programs.display()));
    }
    command.envs(call.env.iter().map(|(name, value)| (name, value)));
    if let Some(name) = call.without {
        command.env_remove(name);
    }
    command
}

fn carry_out(plan: Plan, places: &Places) -> Outcome {
    let (needs, steps, note) = match plan {
        Plan::Run { needs, steps, note } => (needs, steps, note),
        Plan::NotRun(reason) => return Outcome::NotRun(reason),
        Plan::Broken(reason) => return Outcome::Failed(reason),
    };
    for need in &needs {
        if let Err(error) = tools::meet(need, places) {
            return Outcome::Failed(format!("{error:#}"));
        }
    }
    for step in &steps {
        if let Err(error) = take(step, places) {
            let reason = format!("{error:#}");
            let build = matches!(step, Step::Build(_));
            return if build { Outcome::NoBuild(reason) } else { Outcome::Failed(reason) };
        }
    }
    if let Some(note) = note {
        println!("    note: {note}");
    }
    Outcome::Passed
}

fn take(step: &Step, places: &Places) -> Result<()> {
    match step {
        Step::Run(program) | Step::Build(program) => succeeded(program, call(program, places)?),
        Step::Prints(program, text) => {
            // Standard error still passes through; what it prints is for a machine to read.
            let mut command = prepare(program, places);
            let output = command.stderr(std::process::Stdio::inherit()).output();
            let output = output.with_context(|| format!("cannot start {}", program.program))?;
            succeeded(program, output.status)?;
            let printed = String::from_utf8_lossy(&output.stdout);
            anyhow::ensure!(printed.contains(text), "`{program}` did not print `{text}`");
            Ok(())
        }
        Step::Guest(build) => guest::run(build, places),
        Step::Beside(first, others) => beside(first, others, places),
        Step::Exists(path) => {
            anyhow::ensure!(path.exists(), "{} is missing", path.display());
            Ok(())
        }
    }
}

/// Runs `first` with its output passed through, and meanwhile the others, whose output follows.
fn beside(first: &Call, others: &[Call], places: &Places) -> Result<()> {
    std::thread::scope(|scope| {
        let aside = scope.spawn(|| others.iter().map(|one| aside(one, places)).collect::<Vec<_>>());
        let first = call(first, places).and_then(|status| succeeded(first, status));
        let aside = aside.join().map_err(|_| anyhow::anyhow!("a thread of the ladder ended"))?;
        for (told, _) in aside.iter().flatten() {
            print!("{told}");
        }
        first?;
        for (one, result) in others.iter().zip(aside) {
            succeeded(one, result?.1)?;
        }
        Ok(())
    })
}

/// What a program printed, and how it ended.
fn aside(call: &Call, places: &Places) -> Result<(String, ExitStatus)> {
    let mut command = silent(call, places);
    let (mut reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    command.stdout(writer.try_clone().context("cannot use a pipe twice")?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", call.program))?;
    // The command holds the end that is written to, and nothing would end otherwise.
    drop(command);
    let mut told = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut told).context("cannot read what it prints")?;
    let status = child.wait().context("cannot wait for it")?;
    Ok((format!("    {call}\n{}", String::from_utf8_lossy(&told)), status))
}

fn succeeded(call: &Call, status: ExitStatus) -> Result<()> {
    let program = call.program.rsplit('/').next().unwrap_or_default();
    let verb = call.args.first().map(String::as_str).unwrap_or_default();
    anyhow::ensure!(status.success(), "`{program} {verb}` ended with {status}");
    Ok(())
}

fn summary(records: &[Record], total: Duration) -> String {
    let mut text = String::new();
    let mut line = |args: std::fmt::Arguments<'_>| {
        text.write_fmt(args).expect("writing to a string cannot fail");
        text.push('\n');
    };
    line(format_args!("{:<9} {:>8} {:>7}  result", "tier", "seconds", "budget"));
    for Record { tier, outcome, took } in records {
        let (seconds, budget) = (took.as_secs_f64(), tier.budget_s());
        let over = if seconds > f64::from(budget) { OVER_BUDGET } else { "" };
        let words = outcome.words();
        line(format_args!("{:<9} {seconds:>8.1} {budget:>7}  {words}{over}", tier.name()));
    }
    line(format_args!("{:<9} {:>8.1}", "total", total.as_secs_f64()));
    let count = |wanted: fn(&Outcome) -> bool| {
        records.iter().filter(|record| wanted(&record.outcome)).count()
    };
    let passed = count(|outcome| *outcome == Outcome::Passed);
    let failed = count(Outcome::is_failure);
    match records.len() - passed - failed {
        0 => line(format_args!("{passed} passed, {failed} failed")),
        skipped => line(format_args!("{passed} passed, {failed} failed, {skipped} skipped")),
    }
    text
}

/// The summary with everything in red that did not pass, for a terminal.
fn coloured(summary: &str) -> String {
    let red = |line: &str| {
        line.contains("FAILED: ") || line.contains("not run: ") || line.ends_with(OVER_BUDGET)
    };
    let lines = summary.lines().map(|line| {
        if red(line) { format!("{}\n", line.red().bold()) } else { format!("{line}\n") }
    });
    lines.collect()
}

// === impl Outcome ===

impl Outcome {
    fn words(&self) -> String {
        match self {
            Self::Passed => "passed".to_owned(),
            Self::Failed(reason) | Self::NoBuild(reason) => format!("FAILED: {reason}"),
            Self::NotRun(reason) => format!("not run: {reason}"),
        }
    }

    fn is_failure(&self) -> bool {
        match self {
            Self::Failed(_) | Self::NoBuild(_) => true,
            Self::Passed | Self::NotRun(_) => false,
        }
    }
}

/// What cargo told this program of itself. Passed on, it would make cargo build some packages anew.
fn told_by_cargo() -> impl Iterator<Item = std::ffi::OsString> {
    let starts = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "OUT_DIR"];
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(move |name| {
        name.to_str().is_some_and(|name| starts.iter().any(|start| name.starts_with(start)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(outcomes: Vec<(Tier, Outcome)>) -> String {
        let took = Duration::from_millis(1260);
        let records = outcomes.into_iter().map(|(tier, outcome)| Record { tier, outcome, took });
        summary(&records.collect::<Vec<_>>(), Duration::from_secs(75))
    }

    fn places() -> Places {
        let here = std::env::current_dir().unwrap();
        Places {
            root: here.clone(),
            cache: here.clone(),
            target: here.clone(),
            fuzz_target: here,
            shared: false,
        }
    }

    fn shell(script: &str) -> Call {
        let args = vec!["-c".to_owned(), script.to_owned()];
        Call { program: "sh".to_owned(), args, env: Vec::new(), without: None }
    }

    fn carry_out_steps(steps: Vec<Step>) -> Outcome {
        carry_out(Plan::Run { needs: Vec::new(), steps, note: None }, &places())
    }

    #[test]
    fn the_summary_ends_with_the_count() {
        let two = vec![(Tier::Format, Outcome::Passed), (Tier::Lints, Outcome::Passed)];
        assert_eq!(
            check(two),
            "tier       seconds  budget  result\n\
             format         1.3       5  passed\n\
             lints          1.3     180  passed\n\
             total         75.0\n\
             2 passed, 0 failed\n"
        );
    }

    #[test]
    fn what_was_not_run_is_neither_passed_nor_failed() {
        let mixed = vec![
            (Tier::Unit, Outcome::NoBuild("no".to_owned())),
            (Tier::Doc, Outcome::Failed("also no".to_owned())),
            (Tier::Fuzz, Outcome::NotRun("no nightly toolchain".to_owned())),
        ];
        let text = check(mixed);
        assert!(
            text.contains("fuzz           1.3     200  not run: no nightly toolchain\n"),
            "{text}"
        );
        assert!(text.contains("doc            1.3      45  FAILED: also no\n"), "{text}");
        assert!(text.ends_with("\n0 passed, 2 failed, 1 skipped\n"), "{text}");
    }

    #[test]
    fn a_tier_that_takes_too_long_is_told_in_red() {
        let record =
            Record { tier: Tier::Format, outcome: Outcome::Passed, took: Duration::from_secs(6) };
        let text = summary(&[record], Duration::from_secs(6));
        assert!(text.contains("format         6.0       5  passed, over its budget\n"), "{text}");
        let line = coloured(&text).lines().nth(1).unwrap().to_owned();
        assert!(line.contains("\u{1b}[31m"), "{line}");
        assert!(text.ends_with("1 passed, 0 failed\n"), "{text}");
    }

    #[test]
    fn what_did_not_pass_is_red_and_still_says_so_in_words() {
        let text = coloured("unit 1  passed\nkube 1  not run: why\ndoc 1  FAILED: no\n");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "unit 1  passed");
        for (line, words) in [(lines[1], "kube 1  not run: why"), (lines[2], "doc 1  FAILED: no")] {
            assert!(line.contains("\u{1b}[31m") && line.contains(words), "{line}");
        }
    }

    #[test]
    fn the_first_step_that_fails_decides() {
        let failing = || Step::Run(shell("exit 3"));
        let missing = Step::Exists("no such file".into());
        let exit = Outcome::Failed("`sh -c` ended with exit status: 3".to_owned());
        assert_eq!(carry_out_steps(vec![Step::Run(shell("true"))]), Outcome::Passed);
        assert_eq!(carry_out_steps(vec![Step::Run(shell("true")), failing(), missing]), exit);
        let build = carry_out_steps(vec![Step::Build(shell("exit 3"))]);
        assert_eq!(build, Outcome::NoBuild("`sh -c` ended with exit status: 3".to_owned()));
    }

    #[test]
    fn what_runs_beside_another_has_to_succeed_as_well() {
        // Each waits for what the other does, so they cannot run one after the other.
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let meet = |mine: &std::path::Path, other: &std::path::Path| {
            let (mine, other) = (mine.display(), other.display());
            shell(&format!("touch {mine}; until test -e {other}; do sleep 0.01; done"))
        };
        let step = Step::Beside(meet(&one, &two), vec![meet(&two, &one)]);
        assert_eq!(carry_out_steps(vec![step]), Outcome::Passed);
        let failed = Outcome::Failed("`sh -c` ended with exit status: 3".to_owned());
        let first = Step::Beside(shell("exit 3"), vec![shell("true")]);
        assert_eq!(carry_out_steps(vec![first]), failed);
        let other = Step::Beside(shell("true"), vec![shell("true"), shell("exit 3")]);
        assert_eq!(carry_out_steps(vec![other]), failed);
    }

    #[test]
    fn a_missing_file_program_or_text_fails() {
        let text = |text| carry_out_steps(vec![Step::Prints(shell("echo abc"), text)]);
        assert_eq!(text("b"), Outcome::Passed);
        assert_eq!(text("x"), Outcome::Failed("`sh -c 'echo abc'` did not print `x`".to_owned()));
        let file = carry_out_steps(vec![Step::Exists("no such file".into())]);
        assert_eq!(file, Outcome::Failed("no such file is missing".to_owned()));
        let unknown = Call { program: "no-such-program".to_owned(), ..shell("") };
        let Outcome::Failed(reason) = carry_out_steps(vec![Step::Run(unknown)]) else {
            panic!("a program that does not exist ran");
        };
        assert!(reason.starts_with("cannot start no-such-program"), "{reason}");
    }

    #[test]
    fn a_plan_that_is_broken_fails_and_one_that_cannot_run_does_not() {
        let why = || "why".to_owned();
        assert_eq!(carry_out(Plan::Broken(why()), &places()), Outcome::Failed(why()));
        assert_eq!(carry_out(Plan::NotRun(why()), &places()), Outcome::NotRun(why()));
    }
}
