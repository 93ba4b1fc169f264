//! `walras logs` and `walras exec`: what a workload writes, and commands that are run in it.

use std::io::{Read as _, Write as _};

use tokio::sync::mpsc;
use walras_rpc::agent::{ExecRequest, GetLogsRequest};

use crate::failure::Failure;
use crate::run_cli::{ExecArgs, LogsArgs};
use crate::screen;

use super::{connect, failure};

/// So much of standard input is sent at once.
const INPUT_BYTES: usize = 32 << 10;

/// Prints what a workload wrote, and goes on.
pub(super) async fn logs(args: LogsArgs) -> Result<(), Failure> {
    let mut client = connect(&args.host).await?;
    let request = GetLogsRequest {
        id: args.id,
        tail: args.tail,
        follow: args.follow,
        service: args.service.unwrap_or_default(),
    };
    let mut pieces = client.logs(request).await.map_err(failure)?;
    let mut output = screen::output();
    while let Some(piece) = pieces.next().await.map_err(failure)? {
        output.write_all(&piece.text)?;
        output.flush()?;
    }
    Ok(())
}

/// Runs a command, and ends as it ends.
pub(super) async fn exec(args: ExecArgs) -> Result<(), Failure> {
    let mut client = connect(&args.host).await?;
    let (to, requests) = mpsc::channel(4);
    let first = ExecRequest {
        id: args.id.clone(),
        command: args.command,
        service: args.service.unwrap_or_default(),
        interactive: args.interactive,
        input: Vec::new(),
    };
    let gone = || Failure::Machine("the request was not sent".to_owned());
    to.send(first).await.map_err(|_| gone())?;
    if args.interactive {
        // A thread of its own: nobody can be woken from reading a terminal.
        std::thread::spawn(move || feed(&to));
    } else {
        drop(to);
    }
    let mut pieces = client.exec(requests).await.map_err(failure)?;
    let (mut output, mut errors) = (screen::output(), std::io::stderr());
    while let Some(piece) = pieces.next().await.map_err(failure)? {
        output.write_all(&piece.output)?;
        output.flush()?;
        errors.write_all(&piece.error)?;
        if piece.ended {
            let code = piece.exit_code;
            return match code {
                0 => Ok(()),
                _ => Err(Failure::Machine(format!("{}: the command ended with {code}", args.id))),
            };
        }
    }
    Err(Failure::Machine(format!("{}: how the command ended was not told", args.id)))
}

fn feed(to: &mpsc::Sender<ExecRequest>) {
    let mut input = std::io::stdin().lock();
    let mut bytes = vec![0; INPUT_BYTES];
    while let Ok(count @ 1..) = input.read(&mut bytes) {
        let message = ExecRequest { input: bytes[..count].to_vec(), ..Default::default() };
        if to.blocking_send(message).is_err() {
            return;
        }
    }
}
