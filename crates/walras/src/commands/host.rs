//! `walras host`: turns flags into what the daemon is asked for, and runs it.

mod check;

#[cfg(feature = "telemetry")]
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use walras_host::config::Overrides;
use walras_host::daemon::{self, Around, End, HostError, Options};
use walras_node::board::Board;

use crate::cli::{HostArgs, VERSION};
#[cfg(feature = "telemetry")]
use crate::commands::telemetry::daemon as telemetry;
#[cfg(feature = "run")]
use crate::commands::workloads;
use crate::failure::Failure;
#[cfg(feature = "run")]
use crate::run_cli::HostCommand;
use crate::screen;

/// Runs the daemon, or gives back what an earlier one changed.
///
/// Workloads are run beside the daemon, in threads of their own: what its loop does takes
/// microseconds, and what they do may take minutes.
#[cfg(feature = "run")]
pub(crate) fn run(command: HostCommand) -> Result<(), Failure> {
    let HostCommand { host, run, control, sizing } = command;
    let telemetry = said(&host);
    let options = workloads::options(&run, &control, &sizing)?;
    // Whoever runs containers there wants them to be sized.
    let docker_socket = options.is_some().then(|| run.run_docker.clone());
    run_daemon(host, docker_socket, |around| {
        let looking = look(&telemetry, &around.board)?;
        let end = workloads::start(options.as_ref(), around)?;
        Ok(Box::new(move || {
            drop(looking);
            end();
        }))
    })
}

/// Runs the daemon, or gives back what an earlier one changed.
#[cfg(not(feature = "run"))]
pub(crate) fn run(args: HostArgs) -> Result<(), Failure> {
    let telemetry = said(&args);
    run_daemon(args, None, |around| {
        let looking = look(&telemetry, &around.board)?;
        Ok(Box::new(move || drop(looking)))
    })
}

/// What is said about telemetry, where it is part of the program.
#[cfg(feature = "telemetry")]
type Telemetry = telemetry::TelemetryFlags;
#[cfg(not(feature = "telemetry"))]
struct Telemetry;

#[cfg(feature = "telemetry")]
fn said(args: &HostArgs) -> Telemetry {
    args.telemetry.clone()
}

#[cfg(not(feature = "telemetry"))]
fn said(_args: &HostArgs) -> Telemetry {
    Telemetry
}

/// Looks at this machine, for as long as what this returns is kept.
#[cfg(feature = "telemetry")]
fn look(flags: &Telemetry, board: &Arc<Board>) -> Result<telemetry::Looking, String> {
    let daemon = telemetry::Daemon {
        board: Arc::clone(board),
        layout: None,
        own_network: false,
        labels: Box::new(BTreeMap::new),
    };
    telemetry::start(flags, daemon)
}

/// Nothing looks at the machine in a program without telemetry.
#[cfg(not(feature = "telemetry"))]
struct NotLooking;

#[cfg(not(feature = "telemetry"))]
fn look(_flags: &Telemetry, _board: &Arc<Board>) -> Result<NotLooking, String> {
    Ok(NotLooking)
}

fn run_daemon(
    args: HostArgs,
    docker_socket: Option<PathBuf>,
    beside: impl FnOnce(&Around) -> Result<End, String>,
) -> Result<(), Failure> {
    let (restore_only, check, json) = (args.restore_only, args.check, args.json);
    let options = options(args, docker_socket).map_err(Failure::Machine)?;
    if check {
        let found = daemon::check(&options).map_err(|error| failure(&error))?;
        return check::print(&found, json);
    }
    if !restore_only {
        return daemon::run(&options, beside).map_err(|error| failure(&error));
    }
    let restored = daemon::restore_only(&options).map_err(|error| failure(&error))?;
    let mut output = screen::output();
    writeln!(output, "{restored} workloads have back what they came with.")?;
    Ok(output.flush()?)
}

fn options(args: HostArgs, docker_socket: Option<PathBuf>) -> Result<Options, String> {
    let said = |flag: bool| flag.then_some(true);
    let whole = |path: Option<PathBuf>| path.map(absolute).transpose();
    Ok(Options {
        config: args.config,
        overrides: Overrides {
            act: if args.dry_run { Some(false) } else { said(args.act) },
            restore: args.restore,
            listen: args.listen,
            state_dir: whole(args.state_dir)?,
            run_dir: whole(args.run_dir)?,
            log_level: args.log_level.map(Into::into),
            log_format: args.log_format.map(Into::into),
            record: whole(args.record)?,
            record_max_mib: args.record_max_mib,
            profile: args.profile.map(Into::into),
            docker_socket,
        },
        version: VERSION.to_owned(),
    })
}

fn absolute(path: PathBuf) -> Result<PathBuf, String> {
    std::path::absolute(&path).map_err(|error| format!("{}: {error}", path.display()))
}

fn failure(error: &HostError) -> Failure {
    match error {
        HostError::Config(_) => Failure::Input(error.to_string()),
        HostError::Lock(_)
        | HostError::Layout(_)
        | HostError::Store(_)
        | HostError::Serve(_)
        | HostError::Record(_)
        | HostError::Signals(_)
        | HostError::Beside(_) => Failure::Machine(error.to_string()),
    }
}
