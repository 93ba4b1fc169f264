//! Asks hosts, and tells what that came to.

use std::fs;
use std::io::{Write as _, stdout};
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use walras_rpc::agent::workload_spec::Spec;
use walras_rpc::agent::{ApplyWorkloadRequest, ContainerSpec, DesiredState, WorkloadSpec};
use walras_rpc::certs::{Use, Wish, init, issue};
use walras_rpc::{Client, Target};

use crate::Outcome;
use crate::host::{Host, manager};

/// So many workloads a host has.
const WORKLOADS: usize = 5_000;
/// So many ask at once, each over a connection of its own.
const ASKING: usize = 8;
/// So many requests of each are under way at once.
const AT_ONCE: usize = 16;
/// So long each figure is taken, and so often in turn.
const TAKEN: Duration = Duration::from_secs(3);
const ROUNDS: usize = 4;
/// So many connections are held open and say nothing.
const IDLE: usize = 200;

pub(crate) fn measure() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    certificates(&folder.path().join("ca"))?;
    let asking = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    in_process(folder.path())?;
    asking.block_on(over_the_network(folder.path()))
}

fn certificates(folder: &Path) -> Outcome<()> {
    init(folder)?;
    for (name, usage) in [("localhost", Use::Server), ("alice", Use::Client)] {
        let (dns, ips) = (Vec::new(), Vec::new());
        let name = name.to_owned();
        issue(folder, &Wish { name, dns, ips, usage, from_s: -300, days: 1 })?;
    }
    Ok(fs::write(folder.join("localhost/clients"), "alice\n")?)
}

/// The same apply again and again, without a network.
fn in_process(folder: &Path) -> Outcome<()> {
    let state = folder.join("alone");
    let manager = manager(&state)?;
    let asked = || walras_run::request(request(0)).map_err(|error| error.to_string());
    let first = asked()?;
    manager.apply(&first.id, first.spec, first.desired, first.secrets, false, "bench")?;
    let (began, mut count) = (Instant::now(), 0_u64);
    while began.elapsed() < TAKEN {
        for _ in 0..100 {
            let again = asked()?;
            manager.apply(&again.id, again.spec, again.desired, again.secrets, false, "bench")?;
        }
        count += 100;
    }
    say(&format!("no-op applies in process, on one core: {:.0} a second", rate(count, began)))
}

async fn over_the_network(folder: &Path) -> Outcome<()> {
    let nothing = Host::start(folder, "nothing")?;
    let host = Host::start(folder, "manager")?;
    let empty = host.memory()?;
    let mut client = Client::connect(&host.target()).await?;
    let began = Instant::now();
    for number in 0..WORKLOADS {
        client.apply(request(number)).await?;
    }
    let took = began.elapsed().as_secs_f64();
    say(&format!("{WORKLOADS} new workloads, one after another, each saved: {took:.1} s"))?;
    until_all_run(&mut client).await?;
    let full = host.memory()?;
    say(&format!(
        "memory of its own: {:.1} MB empty, {:.1} MB with {WORKLOADS} workloads",
        mb(empty),
        mb(full)
    ))?;
    compare(&nothing, &host).await?;
    idle(&nothing).await?;
    let before = (host.cpu()?, Instant::now());
    tokio::time::sleep(Duration::from_secs(35)).await;
    let used = (host.cpu()? - before.0).as_secs_f64() / before.1.elapsed().as_secs_f64();
    say(&format!("nobody asks, everything looked at every 30 s: {:.2} % of a core", used * 100.0))?;
    let names: Vec<String> = (0..WORKLOADS).map(name).collect();
    drop(host);
    fs::write(folder.join("state/left"), names.join("\n"))?;
    let again = Host::start(folder, "manager")?;
    let listens = again.ready;
    let began = Instant::now();
    let mut client = Client::connect(&again.target()).await?;
    let found = client.list(Default::default()).await?.len();
    say(&format!(
        "after kill -9: listens after {} ms, and tells of {found} workloads {} ms later",
        listens.as_millis(),
        began.elapsed().as_millis()
    ))
}

/// Both sides in turn, so that a busy machine disturbs both alike.
async fn compare(nothing: &Host, host: &Host) -> Outcome<()> {
    let (mut bare, mut real, mut status) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bare.push(applied(&nothing.target()).await?);
        real.push(applied(&host.target()).await?);
        status.push(told(&host.target()).await?);
    }
    let [bare, real, status] = [bare, real, status].map(middle);
    say(&format!(
        "over TLS, {ASKING} connections with {AT_ONCE} at once: {bare:.0} applies a second by a \
         handler that does nothing, {real:.0} that change nothing ({:.0} %), {status:.0} statuses",
        real / bare * 100.0
    ))
}

/// How many applies a second are answered that change nothing.
async fn applied(target: &Target) -> Outcome<f64> {
    asked(target, |mut client, number| async move {
        client.apply(request(number % WORKLOADS)).await.is_ok()
    })
    .await
}

/// How many statuses a second are told.
async fn told(target: &Target) -> Outcome<f64> {
    asked(target, |mut client, number| async move {
        client.status(&name(number % WORKLOADS)).await.is_ok()
    })
    .await
}

async fn asked<F>(
    target: &Target,
    ask: impl Fn(Client, usize) -> F + Clone + Send + 'static,
) -> Outcome<f64>
where
    F: Future<Output = bool> + Send,
{
    let began = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for connection in 0..ASKING {
        let client = Client::connect(target).await?;
        for lane in 0..AT_ONCE {
            let (client, ask) = (client.clone(), ask.clone());
            tasks.spawn(async move {
                let mut count = 0_u64;
                while began.elapsed() < TAKEN {
                    let number = connection * 601 + lane * 37 + usize::try_from(count).unwrap_or(0);
                    if !ask(client.clone(), number).await {
                        return None;
                    }
                    count += 1;
                }
                Some(count)
            });
        }
    }
    let counts = tasks.join_all().await;
    let all: Option<u64> = counts.into_iter().sum();
    Ok(rate(all.ok_or("a request was refused")?, began))
}

/// What a connection costs that says nothing.
async fn idle(host: &Host) -> Outcome<()> {
    let before = host.memory()?;
    let mut held = Vec::new();
    for _ in 0..IDLE {
        let mut client = Client::connect(&host.target()).await?;
        client.health().await?;
        held.push(client);
    }
    let each = host.memory()?.saturating_sub(before) / IDLE as u64;
    say(&format!(
        "{} connections that were used once: {:.0} KB each",
        held.len(),
        precise(each) / 1e3
    ))
}

async fn until_all_run(client: &mut Client) -> Outcome<()> {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let all = client.list(Default::default()).await?;
        let running = all.iter().filter(|one| one.message == "it runs").count();
        if running == WORKLOADS {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("only {running} of {WORKLOADS} run").into());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn name(number: usize) -> String {
    format!("w{number:05}")
}

fn request(number: usize) -> ApplyWorkloadRequest {
    let container = ContainerSpec {
        image: "nginx:1.27".to_owned(),
        command: ["/bin/sh", "-c", "exec nginx"].map(str::to_owned).to_vec(),
        env: [("MODE".to_owned(), "production".to_owned())].into(),
        ..Default::default()
    };
    ApplyWorkloadRequest {
        id: name(number),
        revision_id: "1".to_owned(),
        desired_state: DesiredState::Running.into(),
        spec: Some(WorkloadSpec { spec: Some(Spec::Container(container)), ..Default::default() }),
        ..Default::default()
    }
}

fn rate(count: u64, began: Instant) -> f64 {
    precise(count) / began.elapsed().as_secs_f64()
}

fn middle(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn mb(bytes: u64) -> f64 {
    precise(bytes) / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "printed with a few digits")]
fn precise(number: u64) -> f64 {
    number as f64
}

fn say(words: &str) -> Outcome<()> {
    Ok(writeln!(stdout(), "{words}")?)
}
