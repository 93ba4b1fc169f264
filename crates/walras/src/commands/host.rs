//! `walras host`: turns flags into what the daemon is asked for, and runs it.

use std::io::Write;
use std::path::PathBuf;

use walras_host::config::Overrides;
use walras_host::daemon::{self, HostError, Options};

use crate::cli::{HostArgs, VERSION};
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
    let HostCommand { host, run } = command;
    let running = if host.restore_only { None } else { workloads::start(&run)? };
    let done = run_daemon(host);
    if let Some(running) = running {
        running.stop();
    }
    done
}

/// Runs the daemon, or gives back what an earlier one changed.
#[cfg(not(feature = "run"))]
pub(crate) fn run(args: HostArgs) -> Result<(), Failure> {
    run_daemon(args)
}

fn run_daemon(args: HostArgs) -> Result<(), Failure> {
    let restore_only = args.restore_only;
    let options = options(args).map_err(Failure::Machine)?;
    if !restore_only {
        return daemon::run(&options).map_err(|error| failure(&error));
    }
    let restored = daemon::restore_only(&options).map_err(|error| failure(&error))?;
    let mut output = screen::output();
    writeln!(output, "{restored} workloads have back what they came with.")?;
    Ok(output.flush()?)
}

fn options(args: HostArgs) -> Result<Options, String> {
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
        | HostError::Signals(_) => Failure::Machine(error.to_string()),
    }
}
