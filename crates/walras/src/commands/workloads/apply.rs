//! `walras apply`: sends workloads to a host, or to several, and waits for them where asked to.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use walras_rpc::agent::{
    ActualState, ApplyWorkloadRequest, ApplyWorkloadResponse, DesiredState, WorkloadStatus,
};
use walras_rpc::{Client, Code};

use crate::failure::Failure;
use crate::input::Source;
use crate::run_cli::{ApplyArgs, HostChoice};
use crate::screen;

use super::{ASK_EVERY, connect, document, failure, show};

/// More hosts than this belong on Kubernetes.
const HOSTS_MAX: usize = 200;

/// What came of it on one host.
#[derive(Default)]
pub(super) struct Outcome {
    /// Where, if there are several.
    pub(super) host: Option<String>,
    /// By the revision that was applied.
    pub(super) told: Vec<(String, ApplyWorkloadResponse)>,
    refused: Vec<String>,
    failed: Vec<String>,
}

/// Applies, and prints what came of it.
pub(super) async fn run(args: ApplyArgs) -> Result<(), Failure> {
    let source = Source::named(&args.file);
    let mut text = String::new();
    let mut input = source.open("walras apply -f web.yaml")?;
    let read = input.read_to_string(&mut text);
    read.map_err(|error| Failure::Input(format!("{source}: {error}")))?;
    let folder = args.file.parent().unwrap_or(Path::new("."));
    let requests = document::read(&text, folder, args.dry_run);
    let requests = requests.map_err(|words| Failure::Input(format!("{source}: {words}")))?;
    let outcomes = match &args.hosts {
        None => vec![on_host(&args, &args.host, &requests, None).await?],
        Some(file) => on_hosts(&args, &hosts(file)?, &requests).await,
    };
    let mut output = screen::output();
    show::applied(&mut output, &outcomes, args.json)?;
    output.flush()?;
    let all = |of: fn(&Outcome) -> &Vec<String>| -> Vec<String> {
        let named = outcomes.iter().flat_map(|outcome| {
            let host = outcome.host.as_ref().map(|host| format!("{host}: ")).unwrap_or_default();
            of(outcome).iter().map(move |words| format!("{host}{words}"))
        });
        named.collect()
    };
    let (refused, failed) = (all(|it| &it.refused), all(|it| &it.failed));
    if !refused.is_empty() {
        return Err(Failure::Input([refused, failed].concat().join("\nerror: ")));
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::Machine(failed.join("\nerror: "))) }
}

/// The hosts of a file, one a line.
fn hosts(file: &Path) -> Result<Vec<String>, Failure> {
    let input = |words: String| Failure::Input(format!("{}: {words}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| input(error.to_string()))?;
    let lines = text.lines().map(str::trim);
    let hosts: Vec<String> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect();
    if hosts.is_empty() {
        return Err(input("there is no host in it; write one NAME:PORT a line".to_owned()));
    }
    if hosts.len() > HOSTS_MAX {
        let count = hosts.len();
        return Err(input(format!("it has {count} hosts of at most {HOSTS_MAX}; use Kubernetes")));
    }
    Ok(hosts)
}

/// All hosts at once. One that cannot be reached keeps no other from its workloads.
async fn on_hosts(
    args: &ApplyArgs,
    hosts: &[String],
    requests: &[ApplyWorkloadRequest],
) -> Vec<Outcome> {
    let asked = hosts.iter().map(|address| async move {
        let choice = HostChoice { address: Some(address.clone()), ..args.host.clone() };
        let outcome = on_host(args, &choice, requests, Some(address.clone())).await;
        outcome.unwrap_or_else(|failure| Outcome {
            host: Some(address.clone()),
            failed: vec![words(failure)],
            ..Outcome::default()
        })
    });
    futures_util::future::join_all(asked).await
}

fn words(failure: Failure) -> String {
    match failure {
        Failure::Input(words) | Failure::Machine(words) => words,
        Failure::Output(error) => error.to_string(),
        Failure::Interrupted => "it was interrupted".to_owned(),
    }
}

async fn on_host(
    args: &ApplyArgs,
    choice: &HostChoice,
    requests: &[ApplyWorkloadRequest],
    host: Option<String>,
) -> Result<Outcome, Failure> {
    let mut client = connect(choice).await?;
    let mut outcome = Outcome { host, ..Outcome::default() };
    for request in requests {
        let (id, revision) = (request.id.clone(), request.revision_id.clone());
        match client.apply(request.clone()).await {
            Ok(response) => outcome.told.push((revision, response)),
            Err(error) if error.code == Code::Unreachable => return Err(failure(error)),
            Err(error) => outcome.refused.push(format!("{id}: {error}")),
        }
    }
    if args.wait {
        let deadline = Instant::now() + Duration::from_secs(args.timeout);
        let mut progress = Progress::default();
        for (revision, response) in &mut outcome.told {
            if let Some(status) = response.status.take() {
                let waited = settled(&mut client, status, revision, deadline, &mut progress);
                let (status, failed) = waited.await?;
                response.status = Some(status);
                outcome.failed.extend(failed);
            }
        }
    }
    Ok(outcome)
}

/// Says on a terminal what is waited for.
#[derive(Default)]
struct Progress {
    last: String,
}

impl Progress {
    fn tell(&mut self, status: &WorkloadStatus) {
        let words = format!("{}: {}", status.id, status.message);
        if words != self.last && std::io::IsTerminal::is_terminal(&std::io::stderr()) {
            // Whoever cannot be told waits without knowing for what.
            writeln!(std::io::stderr(), "{words}").ok();
            self.last = words;
        }
    }
}

/// Waits until a workload is what was wanted. Gives its last state, and why it is not that.
async fn settled(
    client: &mut Client,
    mut status: WorkloadStatus,
    revision: &str,
    deadline: Instant,
    progress: &mut Progress,
) -> Result<(WorkloadStatus, Option<String>), Failure> {
    loop {
        let wanted = match status.desired_state() {
            DesiredState::Stopped => ActualState::Stopped,
            DesiredState::Running | DesiredState::Unspecified => ActualState::Running,
        };
        let words = format!("{}: {}", status.id, status.message);
        if status.metadata.get("failed_revision").is_some_and(|failed| failed == revision)
            || status.actual_state() == ActualState::Failed
        {
            return Ok((status, Some(words)));
        }
        // What ran once and ended well has done what was wanted.
        let completed = status.message.starts_with("completed");
        if status.revision_id == revision && (status.actual_state() == wanted || completed) {
            return Ok((status, None));
        }
        if Instant::now() >= deadline {
            return Ok((status, Some(format!("time ran out; {words}"))));
        }
        progress.tell(&status);
        tokio::time::sleep(ASK_EVERY).await;
        status = client.status(&status.id).await.map_err(failure)?;
    }
}
