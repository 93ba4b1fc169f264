//! `walras vm`: what would be decided over a virtual machine, offline.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use walras_core::units::Resources;
use walras_core::vm::{Goal, GoalFrom, GoalRule};
use walras_wire::vm::goal::{self, GoalOutput, Question};

use crate::failure::Failure;
use crate::help::{VM_GOAL_HELP, VM_HELP};
use crate::input::Source;
use crate::screen;

/// What to decide.
#[derive(Debug, Args)]
#[command(after_help = VM_HELP)]
pub(crate) struct VmArgs {
    #[command(subcommand)]
    command: VmCommand,
}

/// What to decide.
#[derive(Debug, Subcommand)]
pub(crate) enum VmCommand {
    /// Compute how large a virtual machine should be, and say why
    #[command(after_help = VM_GOAL_HELP)]
    Goal(VmGoalArgs),
}

/// Of which machine.
#[derive(Debug, Args)]
pub(crate) struct VmGoalArgs {
    /// What is known of the machine as JSON; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// Print JSON for programs, not text for people
    #[arg(long)]
    json: bool,
}

/// Decides, and prints.
pub(crate) fn run(args: &VmArgs) -> Result<(), Failure> {
    match &args.command {
        VmCommand::Goal(args) => run_goal(args),
    }
}

fn run_goal(args: &VmGoalArgs) -> Result<(), Failure> {
    let source = Source::named(&args.file);
    let input = source.open("walras vm goal examples/vm.json")?;
    let question = goal::read(input).map_err(|error| source.refused(&error))?;
    let rule = GoalRule::DEFAULT;
    let mut output = screen::output();
    if args.json {
        serde_json::to_writer_pretty(&mut output, &GoalOutput::new(&question, &rule))
            .map_err(|error| Failure::Output(error.into()))?;
        output.write_all(b"\n")?;
    } else {
        output.write_all(explained(&question, &rule).as_bytes())?;
    }
    Ok(output.flush()?)
}

/// The goal in a sentence, and a line for each part of it.
fn explained(question: &Question, rule: &GoalRule) -> String {
    let goal = question.goal(rule);
    let mut text = format!("{}\n", what_and_why(question, &goal));
    let load = question.load(rule).map_or_else(String::new, |load| format!(" ({load})"));
    let parts = [
        (goal.parts.cpu, format!("by load average{load}")),
        (goal.parts.memory, "by memory in use".to_owned()),
        (goal.parts.memory_total, "by memory in use and the cache that is worked with".to_owned()),
        (goal.parts.working_set, "by the working set of the cache".to_owned()),
        (goal.parts.requested, "asked for by the guest".to_owned()),
    ];
    for (units, words) in parts {
        if let Some(units) = units {
            text += &format!("  {} {words}\n", count(units));
        }
    }
    text
}

fn what_and_why(question: &Question, goal: &Goal) -> String {
    let Goal { amount, units, from, bounded, refused, .. } = goal;
    let why = match from {
        GoalFrom::Cpu => "its load",
        GoalFrom::Memory => "its memory in use",
        GoalFrom::MemoryTotal => "its memory in use with the cache that is worked with",
        GoalFrom::WorkingSet => "its working set",
        GoalFrom::Requested => "what the guest asked for",
        GoalFrom::NoMetrics => "what it has, since nothing is known of it",
    };
    let one = question.unit.one();
    let wanted = match from {
        GoalFrom::NoMetrics => why.to_owned(),
        GoalFrom::Cpu
        | GoalFrom::Memory
        | GoalFrom::MemoryTotal
        | GoalFrom::WorkingSet
        | GoalFrom::Requested => format!("{} of {one} for {why}", count(*units)),
    };
    let bounds = if *bounded {
        format!(", brought within {} to {}", question.bounds.min(), question.bounds.max())
    } else {
        String::new()
    };
    let held = if *refused { ", held up by what the guest refused to give up" } else { "" };
    let verb = verb(question.using, *amount);
    format!("It should {verb} {amount}: {wanted}{bounds}{held}.")
}

/// What that means for a machine that has `using`.
fn verb(using: Resources, goal: Resources) -> &'static str {
    match (using.fits(goal), goal.fits(using)) {
        (true, true) => "stay at",
        (true, false) => "grow to",
        (false, true) => "shrink to",
        (false, false) => "change to",
    }
}

fn count(units: u64) -> String {
    if units == 1 { "1 unit".to_owned() } else { format!("{units} units") }
}
