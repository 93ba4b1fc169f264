//! The workload API in front of a manager: reads requests, asks, and makes messages of the answers.

use std::sync::Arc;

use tokio::sync::mpsc;
use walras_core::run::{Fault, FaultKind, Verdict, WorkloadId};
use walras_rpc::agent::{
    AgentAction, ApplyWorkloadRequest, ApplyWorkloadResponse, DeleteWorkloadRequest,
    DeleteWorkloadResponse, ExecRequest, ExecResponse, GetLogsRequest, GetLogsResponse,
    GetWorkloadStatusRequest, GetWorkloadStatusResponse, HealthCheckRequest, HealthCheckResponse,
    ListActionsRequest, ListActionsResponse, ListWorkloadsRequest, ListWorkloadsResponse,
    SetDrainRequest, SetDrainResponse, SnapshotAction, SnapshotInfo, SnapshotRequest,
    SnapshotResponse, WorkloadType,
};
use walras_rpc::{Agent, Answers, Code, Peer, Refused};

use crate::clock::seconds;
use crate::convert::{self, SpecError};
use crate::machine::Machine;
use crate::manager::{Action, ActionState, Denied, Filter, Manager};
use crate::runtime::{Output, SnapshotWish};

/// The API of one host.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) manager: Arc<Manager>,
    pub(crate) machine: Machine,
    /// The same for `/metrics`: what is counted since the last look is counted for each alone.
    pub(crate) scraped: Machine,
    pub(crate) version: String,
}

impl Agent for Api {
    async fn apply(
        &self,
        peer: &Peer,
        message: ApplyWorkloadRequest,
    ) -> Result<ApplyWorkloadResponse, Refused> {
        let dry_run = message.dry_run;
        let request = convert::request(message).map_err(|error| Refused {
            code: match error {
                SpecError::Faults(_) => Code::Invalid,
                SpecError::Unsupported(_) => Code::Unsupported,
            },
            message: error.to_string(),
        })?;
        let convert::Request { id, spec, desired, secrets } = request;
        let kind = spec.work.kind();
        let applied = self.manager.apply(&id, spec, desired, secrets, dry_run, who(peer));
        let applied = applied.map_err(refused)?;
        let skipped = applied.verdict == Some(Verdict::Same);
        let words = match applied.verdict {
            None => "it is new",
            Some(Verdict::Same) => "nothing to do: it is this revision already",
            Some(Verdict::Switch) => "it is started or stopped",
            Some(Verdict::Again) => "it failed, and is tried again",
            Some(Verdict::Replace) => "it is replaced by this revision",
            Some(Verdict::Deleting) => "it is being deleted",
        };
        let message = if dry_run { format!("dry run: {words}") } else { words.to_owned() };
        let mut status = convert::status(&id, kind, &applied.status, &[]);
        if let Some(task) = applied.task {
            status.metadata.insert("task_id".to_owned(), task.to_string());
        }
        let applied = !skipped && !dry_run;
        Ok(ApplyWorkloadResponse { applied, skipped, message, status: Some(status) })
    }

    async fn delete(
        &self,
        peer: &Peer,
        message: DeleteWorkloadRequest,
    ) -> Result<DeleteWorkloadResponse, Refused> {
        let id = named(&message.id)?;
        let task = self.manager.delete(&id, who(peer)).map_err(refused)?;
        let message = format!("{id}: it is being deleted (task {task})");
        Ok(DeleteWorkloadResponse { success: true, message })
    }

    async fn status(
        &self,
        message: GetWorkloadStatusRequest,
    ) -> Result<GetWorkloadStatusResponse, Refused> {
        let id = named(&message.id)?;
        let told = self.manager.status(&id).await.map_err(refused)?;
        let status = Some(convert::status(&id, told.kind, &told.status, &told.handles));
        Ok(GetWorkloadStatusResponse { status })
    }

    async fn list(&self, message: ListWorkloadsRequest) -> Result<ListWorkloadsResponse, Refused> {
        let Ok(wanted) = WorkloadType::try_from(message.r#type) else {
            let message = format!("type: {} is none", message.r#type);
            return Err(Refused { code: Code::Invalid, message });
        };
        let all = self.manager.list().into_iter();
        let fits = |kind| wanted == WorkloadType::Unspecified || convert::type_of(kind) == wanted;
        let found = all.filter(|(_, told)| fits(told.kind));
        let told = found.map(|(id, told)| convert::status(&id, told.kind, &told.status, &[]));
        Ok(ListWorkloadsResponse { workloads: told.collect() })
    }

    async fn health(&self, _: HealthCheckRequest) -> Result<HealthCheckResponse, Refused> {
        let runtimes = self.manager.runtime_health().await;
        let in_use = self.machine.in_use();
        let quarantined = self.manager.quarantined().len();
        Ok(HealthCheckResponse {
            healthy: runtimes.iter().all(|(_, health)| health.is_ok()),
            version: self.version.clone(),
            runtime_status: runtimes
                .into_iter()
                .map(|(name, health)| {
                    let words = health.map_or_else(|words| words, |()| "healthy".to_owned());
                    (name.to_owned(), words)
                })
                .collect(),
            memory_utilization: in_use.memory,
            cpu_utilization: in_use.cpu,
            disk_utilization: in_use.disk,
            drained: self.manager.is_drained(),
            quarantined: u32::try_from(quarantined).unwrap_or(u32::MAX),
        })
    }

    async fn actions(&self, message: ListActionsRequest) -> Result<ListActionsResponse, Refused> {
        let said = |text: String| (!text.is_empty()).then_some(text);
        let filter = Filter {
            workload: said(message.workload_id),
            kind: said(message.action_type),
            state: said(message.status),
        };
        let mut found = self.manager.actions(&filter);
        if message.newest_first {
            found.reverse();
        }
        if let Ok(limit @ 1..) = usize::try_from(message.limit) {
            found.truncate(limit);
        }
        Ok(ListActionsResponse { actions: found.into_iter().map(told).collect() })
    }

    async fn drain(
        &self,
        peer: &Peer,
        message: SetDrainRequest,
    ) -> Result<SetDrainResponse, Refused> {
        self.manager.drain(message.drain, who(peer)).map_err(refused)?;
        Ok(SetDrainResponse { drained: self.manager.is_drained() })
    }

    async fn snapshot(
        &self,
        peer: &Peer,
        message: SnapshotRequest,
    ) -> Result<SnapshotResponse, Refused> {
        let id = named(&message.id)?;
        let Ok(action) = SnapshotAction::try_from(message.action) else {
            let message = format!("action: {} is none", message.action);
            return Err(Refused { code: Code::Invalid, message });
        };
        let wish = match action {
            SnapshotAction::Unspecified => SnapshotWish::List,
            SnapshotAction::Take => SnapshotWish::Take(message.name),
            SnapshotAction::Revert => SnapshotWish::Revert(message.name),
            SnapshotAction::Drop => SnapshotWish::Drop(message.name),
        };
        let there = self.manager.snapshot(&id, wish, who(peer)).await.map_err(refused)?;
        let told = there.into_iter();
        let told = told.map(|it| SnapshotInfo { name: it.name, taken_at: it.taken_s });
        Ok(SnapshotResponse { snapshots: told.collect() })
    }

    async fn logs(&self, message: GetLogsRequest) -> Result<Answers<GetLogsResponse>, Refused> {
        let id = named(&message.id)?;
        let tail = if message.tail == 0 { TAIL } else { message.tail.min(TAIL_MAX) };
        let service = Some(message.service).filter(|name| !name.is_empty());
        let lines = self.manager.logs(&id, service, tail, message.follow).map_err(refused)?;
        Ok(passed_on(lines, |text| GetLogsResponse { text }))
    }

    async fn exec(
        &self,
        peer: &Peer,
        first: ExecRequest,
        input: mpsc::Receiver<Vec<u8>>,
    ) -> Result<Answers<ExecResponse>, Refused> {
        let id = named(&first.id)?;
        if first.command.is_empty() || first.command.iter().any(|word| word.contains('\0')) {
            let message = "command: is missing, or has a zero byte in it".to_owned();
            return Err(Refused { code: Code::Invalid, message });
        }
        let input = first.interactive.then_some(input);
        let service = Some(first.service).filter(|name| !name.is_empty());
        let pieces = self.manager.exec(&id, service, first.command, input, who(peer));
        Ok(passed_on(pieces.map_err(refused)?, |piece| match piece {
            Output::Out(output) => ExecResponse { output, ..Default::default() },
            Output::Error(error) => ExecResponse { error, ..Default::default() },
            Output::Ended(exit_code) => {
                ExecResponse { ended: true, exit_code, ..Default::default() }
            }
        }))
    }
}

/// So many lines are told where nobody says how many, and so many at most.
const TAIL: u32 = 100;
const TAIL_MAX: u32 = 100_000;

/// Answers made of what arrives.
fn passed_on<T: Send + 'static, M: Send + 'static>(
    mut from: mpsc::Receiver<Result<T, Fault>>,
    message: impl Fn(T) -> M + Send + 'static,
) -> Answers<M> {
    let (to, answers) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            let piece = tokio::select! {
                piece = from.recv() => piece,
                () = to.closed() => None,
            };
            let Some(piece) = piece else { return };
            let answer = piece
                .map(&message)
                .map_err(|fault| Refused { code: code_of(&fault), message: fault.words });
            if to.send(answer).await.is_err() {
                return;
            }
        }
    });
    answers
}

fn code_of(fault: &Fault) -> Code {
    match fault.kind {
        FaultKind::NotFound => Code::NotFound,
        FaultKind::InvalidSpec => Code::Invalid,
        FaultKind::Silent | FaultKind::Timeout => Code::Unreachable,
        FaultKind::ImageNotFound
        | FaultKind::ImagePull
        | FaultKind::PortInUse
        | FaultKind::NameInUse
        | FaultKind::Network
        | FaultKind::Storage
        | FaultKind::Runtime
        | FaultKind::Exited
        | FaultKind::Unhealthy => Code::Failed,
    }
}

fn who(peer: &Peer) -> &str {
    peer.name.as_deref().unwrap_or("nobody")
}

fn named(id: &str) -> Result<WorkloadId, Refused> {
    WorkloadId::new(id)
        .map_err(|error| Refused { code: Code::Invalid, message: format!("id: {error}") })
}

fn refused(denied: Denied) -> Refused {
    let code = match denied {
        Denied::NotFound(_) => Code::NotFound,
        Denied::Deleting(_) | Denied::Busy(_) => Code::Busy,
        Denied::OtherKind { .. }
        | Denied::OtherRuntime { .. }
        | Denied::Faults(_)
        | Denied::Taken { .. } => Code::Invalid,
        Denied::NotDone { ref fault, .. } => code_of(fault),
        Denied::NoRuntime(_) => Code::Unsupported,
        Denied::NoRoom(_) => Code::NoRoom,
        Denied::NotSaved(_) => Code::Failed,
    };
    Refused { code, message: denied.to_string() }
}

fn told(action: Action) -> AgentAction {
    let error = match &action.state {
        ActionState::Failed(words) => words.clone(),
        ActionState::Running | ActionState::Completed => String::new(),
    };
    AgentAction {
        task_id: action.task.to_string(),
        workload_id: action.workload.map(|id| id.to_string()).unwrap_or_default(),
        action_type: action.kind.to_owned(),
        status: action.state.name().to_owned(),
        error,
        created_at: seconds(action.began),
        started_at: seconds(action.began),
        ended_at: action.ended.map_or(0, seconds),
        reason: action.reason,
    }
}
