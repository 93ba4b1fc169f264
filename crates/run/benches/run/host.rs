//! The host as a process of its own: the real manager, store and server, or a handler that does
//! nothing in the place of the manager.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::mpsc;
use walras_core::run::{Capacity, WorkloadId};
use walras_core::units::{Bytes, Millicores};
use walras_rpc::agent::{
    ApplyWorkloadRequest, ApplyWorkloadResponse, DeleteWorkloadRequest, DeleteWorkloadResponse,
    ExecRequest, ExecResponse, GetLogsRequest, GetLogsResponse, GetWorkloadStatusRequest,
    GetWorkloadStatusResponse, HealthCheckRequest, HealthCheckResponse, ListActionsRequest,
    ListActionsResponse, ListWorkloadsRequest, ListWorkloadsResponse, SetDrainRequest,
    SetDrainResponse, SnapshotRequest, SnapshotResponse,
};
use walras_rpc::{Agent, Answers, Limits, Listen, Peer, Refused, Server, Target, TlsFolder};
use walras_run::{Manager, ManagerOptions, RedbStore, Runtimes};

use crate::Outcome;
use crate::played::Played;

/// How this program is told to be a host.
pub(crate) const FLAG: &str = "--be-a-host";

/// A host at work. It is killed with this value.
pub(crate) struct Host {
    process: Child,
    port: u16,
    folder: PathBuf,
    /// How long it took until it listened.
    pub(crate) ready: Duration,
}

impl Host {
    /// Starts one of a kind, `manager` or `nothing`, with what is in `folder`.
    pub(crate) fn start(folder: &Path, kind: &str) -> Outcome<Self> {
        let began = Instant::now();
        let mut process = Command::new(std::env::current_exe()?)
            .args([FLAG.as_ref(), folder.as_os_str(), kind.as_ref()])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let output = process.stdout.take().ok_or("it has no output")?;
        BufReader::new(output).read_line(&mut line)?;
        let port = line.trim().parse()?;
        Ok(Self { process, port, folder: folder.to_owned(), ready: began.elapsed() })
    }

    pub(crate) fn target(&self) -> Target {
        let folder = TlsFolder::new(&self.folder.join("ca/alice"));
        Target::Tls { address: format!("localhost:{}", self.port), folder }
    }

    /// What of its memory is its own, in bytes: without pages that are files.
    pub(crate) fn memory(&self) -> Outcome<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.split_whitespace().next()).ok_or("no RssAnon")?;
        Ok(kib.parse::<u64>()? * 1024)
    }

    /// CPU time that it used so far.
    pub(crate) fn cpu(&self) -> Outcome<Duration> {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.process.id()))?;
        let mut ns = text.split_whitespace().next().unwrap_or("0").parse::<u64>()?;
        // That is its first thread; the others are listed.
        for task in fs::read_dir(format!("/proc/{}/task", self.process.id()))?.flatten() {
            if task.file_name().to_string_lossy() == self.process.id().to_string() {
                continue;
            }
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            ns += text.split_whitespace().next().unwrap_or("0").parse::<u64>().unwrap_or(0);
        }
        Ok(Duration::from_nanos(ns))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Is a host until it is killed.
pub(crate) fn serve(folder: &Path, kind: &str) -> Outcome<()> {
    let threads = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let tls = TlsFolder::new(&folder.join("ca/localhost"));
    let listen = Listen::Tls { address: ([127, 0, 0, 1], 0).into(), folder: tls };
    threads.block_on(async {
        let server = match kind {
            "nothing" => Server::start(Arc::new(Nothing), &listen, Limits::DEFAULT).await?,
            _ => {
                let manager = manager(&folder.join("state"))?;
                let server = walras_run::serve(Arc::clone(&manager), &listen, "bench").await?;
                tokio::spawn(manager.serve());
                server
            }
        };
        let port = server.address().ok_or("it has no port")?.port();
        writeln!(stdout(), "{port}")?;
        std::future::pending::<()>().await;
        Ok(())
    })
}

/// A manager with the store in `state`, whose workloads run as it left them.
pub(crate) fn manager(state: &Path) -> Outcome<Arc<Manager>> {
    let store = RedbStore::open(state)?;
    let played = Played::default();
    if let Ok(names) = fs::read_to_string(state.join("left")) {
        for name in names.lines() {
            played.runs(WorkloadId::new(name)?, "1");
        }
    }
    let capacity = Capacity { cpu: Millicores::new(1 << 40), memory: Bytes::new(1 << 60) };
    let options = ManagerOptions { capacity, fault: None };
    Ok(Manager::new(Box::new(store), Runtimes::new(vec![Arc::new(played)]), options)?)
}

/// Answers everything with nothing.
struct Nothing;

impl Agent for Nothing {
    async fn apply(
        &self,
        _: &Peer,
        _: ApplyWorkloadRequest,
    ) -> Result<ApplyWorkloadResponse, Refused> {
        Ok(ApplyWorkloadResponse::default())
    }
    async fn delete(
        &self,
        _: &Peer,
        _: DeleteWorkloadRequest,
    ) -> Result<DeleteWorkloadResponse, Refused> {
        Ok(DeleteWorkloadResponse::default())
    }
    async fn status(
        &self,
        _: GetWorkloadStatusRequest,
    ) -> Result<GetWorkloadStatusResponse, Refused> {
        Ok(GetWorkloadStatusResponse::default())
    }
    async fn list(&self, _: ListWorkloadsRequest) -> Result<ListWorkloadsResponse, Refused> {
        Ok(ListWorkloadsResponse::default())
    }
    async fn health(&self, _: HealthCheckRequest) -> Result<HealthCheckResponse, Refused> {
        Ok(HealthCheckResponse::default())
    }
    async fn actions(&self, _: ListActionsRequest) -> Result<ListActionsResponse, Refused> {
        Ok(ListActionsResponse::default())
    }
    async fn drain(&self, _: &Peer, _: SetDrainRequest) -> Result<SetDrainResponse, Refused> {
        Ok(SetDrainResponse::default())
    }
    async fn snapshot(&self, _: &Peer, _: SnapshotRequest) -> Result<SnapshotResponse, Refused> {
        Ok(SnapshotResponse::default())
    }
    async fn logs(&self, _: GetLogsRequest) -> Result<Answers<GetLogsResponse>, Refused> {
        Ok(mpsc::channel(1).1)
    }
    async fn exec(
        &self,
        _: &Peer,
        _: ExecRequest,
        _: mpsc::Receiver<Vec<u8>>,
    ) -> Result<Answers<ExecResponse>, Refused> {
        Ok(mpsc::channel(1).1)
    }
}
