//! `walras apply`, `delete`, `status`, `list`, `actions`, `logs`, `exec`, `health`, `drain` and
//! `certs`: what a person asks of a host that runs workloads. Reads, asks, prints.

mod apply;
mod certs;
mod document;
mod show;
mod start;
mod talk;
mod vm;

use std::io::Write as _;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use walras_rpc::agent::{ListActionsRequest, SnapshotAction, SnapshotRequest};
use walras_rpc::{CallError, Client, Code, Refused, Target, TlsFolder};

use crate::failure::Failure;
use crate::run_cli::{
    ActionsArgs, DeleteArgs, DrainArgs, HostChoice, ListArgs, RunCommand, SnapshotArgs, StatusArgs,
};
use crate::screen;

pub(crate) use start::{options, start};

/// How often a state is asked for while the user waits.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// Runs one command.
pub(crate) fn run(command: RunCommand) -> Result<(), Failure> {
    let asking = Builder::new_current_thread().enable_all().build();
    let asking = asking.map_err(|error| Failure::Machine(error.to_string()))?;
    match command {
        RunCommand::Apply(args) => asking.block_on(apply::run(args)),
        RunCommand::Delete(args) => asking.block_on(delete(args)),
        RunCommand::Status(args) => asking.block_on(status(args)),
        RunCommand::List(args) => asking.block_on(list(args)),
        RunCommand::Actions(args) => asking.block_on(actions(args)),
        RunCommand::Logs(args) => asking.block_on(talk::logs(args)),
        RunCommand::Exec(args) => asking.block_on(talk::exec(args)),
        RunCommand::Snapshot(args) => asking.block_on(snapshot(args)),
        RunCommand::Health(args) => asking.block_on(health(args)),
        RunCommand::Drain(args) => asking.block_on(drain(args)),
        RunCommand::Certs(args) => certs::run(args.command),
    }
}

async fn delete(args: DeleteArgs) -> Result<(), Failure> {
    let mut client = connect(&args.host).await?;
    for id in &args.ids {
        client.delete(id).await.map_err(failure)?;
    }
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    for id in args.ids.iter().filter(|_| args.wait) {
        loop {
            match client.status(id).await {
                Err(error) if error.code == Code::NotFound => break,
                Err(error) => return Err(failure(error)),
                Ok(status) if Instant::now() >= deadline => {
                    let words = format!("{id}: time ran out; {}", status.message);
                    return Err(Failure::Machine(words));
                }
                Ok(_) => tokio::time::sleep(ASK_EVERY).await,
            }
        }
    }
    let mut output = screen::output();
    let words = if args.wait { "is gone" } else { "is being deleted" };
    for id in &args.ids {
        writeln!(output, "{id} {words}.")?;
    }
    Ok(output.flush()?)
}

async fn status(args: StatusArgs) -> Result<(), Failure> {
    let mut client = connect(&args.host).await?;
    let mut told = Vec::new();
    loop {
        let mut found = Vec::new();
        for id in &args.ids {
            found.push(client.status(id).await.map_err(failure)?);
        }
        // When the runtime last answered is another time at every look.
        let now: Vec<_> = found
            .iter()
            .map(|it| (it.actual_state, it.message.clone(), it.revision_id.clone()))
            .collect();
        if now != told {
            let mut output = screen::output();
            show::statuses(&mut output, &found, args.json)?;
            output.flush()?;
        }
        if !args.watch {
            return Ok(());
        }
        told = now;
        tokio::time::sleep(ASK_EVERY).await;
    }
}

async fn list(args: ListArgs) -> Result<(), Failure> {
    let mut client = connect(&args.host).await?;
    let found = client.list(Default::default()).await.map_err(failure)?;
    let mut output = screen::output();
    show::list(&mut output, &found, args.json)?;
    Ok(output.flush()?)
}

async fn actions(args: ActionsArgs) -> Result<(), Failure> {
    let mut client = connect(&args.host).await?;
    let request = ListActionsRequest {
        workload_id: args.id.unwrap_or_default(),
        action_type: String::new(),
        status: if args.failed { "failed".to_owned() } else { String::new() },
        limit: args.limit,
        newest_first: true,
    };
    let found = client.actions(request).await.map_err(failure)?;
    let mut output = screen::output();
    show::actions(&mut output, &found, args.json)?;
    Ok(output.flush()?)
}

async fn snapshot(args: SnapshotArgs) -> Result<(), Failure> {
    let mut client = connect(&args.host).await?;
    let wishes = [
        (SnapshotAction::Take, args.take),
        (SnapshotAction::Revert, args.revert),
        (SnapshotAction::Drop, args.drop),
    ];
    let wish = wishes.into_iter().find_map(|(action, name)| Some((action, name?)));
    let (action, name) = wish.unwrap_or((SnapshotAction::Unspecified, String::new()));
    let request = SnapshotRequest { id: args.id, action: action.into(), name };
    let there = client.snapshot(request).await.map_err(failure)?;
    let mut output = screen::output();
    show::snapshots(&mut output, &there, args.json)?;
    Ok(output.flush()?)
}

async fn health(args: ListArgs) -> Result<(), Failure> {
    let mut client = connect(&args.host).await?;
    let health = client.health().await.map_err(failure)?;
    let mut output = screen::output();
    show::health(&mut output, &health, args.json)?;
    output.flush()?;
    if health.healthy { Ok(()) } else { Err(Failure::Machine("the host is not well".to_owned())) }
}

async fn drain(args: DrainArgs) -> Result<(), Failure> {
    let mut client = connect(&args.host).await?;
    let drained = client.drain(!args.undo).await.map_err(failure)?;
    let mut output = screen::output();
    let words = if drained { "drained: its workloads are being stopped" } else { "not drained" };
    writeln!(output, "The host is {words}.")?;
    Ok(output.flush()?)
}

async fn connect(choice: &HostChoice) -> Result<Client, Failure> {
    let target = match (&choice.address, &choice.tls) {
        (None, _) => Target::Unix { path: choice.socket.clone() },
        (Some(address), Some(tls)) => {
            Target::Tls { address: address.clone(), folder: TlsFolder::new(tls) }
        }
        (Some(address), None) if choice.plain => {
            let address = address.parse().map_err(|_| {
                let words = "is no address with a port, such as 127.0.0.1:50051";
                Failure::Input(format!("--address: `{address}` {words}"))
            })?;
            Target::Plain { address }
        }
        (Some(address), None) => {
            let words = format!("{address}: say --tls DIR with your certificates, or --plain");
            return Err(Failure::Input(words));
        }
    };
    Client::connect(&target).await.map_err(|error| match error {
        CallError::Refused(refused) => failure(refused),
        CallError::Address(_) | CallError::Tls(_) => Failure::Input(error.to_string()),
    })
}

fn failure(refused: Refused) -> Failure {
    match refused.code {
        Code::Invalid | Code::NotFound | Code::NoRoom | Code::Unsupported | Code::Busy => {
            Failure::Input(refused.message)
        }
        Code::Forbidden | Code::Failed | Code::Unreachable => Failure::Machine(refused.message),
    }
}
