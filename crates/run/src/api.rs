//! The workload API in front of a manager: reads requests, asks, and makes messages of the answers.

use std::sync::Arc;

use walras_core::run::{Verdict, WorkloadId};
use walras_rpc::agent::{
    AgentAction, ApplyWorkloadRequest, ApplyWorkloadResponse, DeleteWorkloadRequest,
    DeleteWorkloadResponse, GetWorkloadStatusRequest, GetWorkloadStatusResponse,
    HealthCheckRequest, HealthCheckResponse, ListActionsRequest, ListActionsResponse,
    ListWorkloadsRequest, ListWorkloadsResponse, SetDrainRequest, SetDrainResponse, WorkloadType,
};
use walras_rpc::{Agent, Code, Peer, Refused};

use crate::clock::seconds;
use crate::convert::{self, SpecError};
use crate::machine::Machine;
use crate::manager::{Action, ActionState, Denied, Filter, Manager};

/// The API of one host.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) manager: Arc<Manager>,
    pub(crate) machine: Machine,
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
        let mut status = convert::status(&id, &applied.status, &[]);
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
        let (status, handles) = self.manager.status(&id).await.map_err(refused)?;
        let status = Some(convert::status(&id, &status, &handles));
        Ok(GetWorkloadStatusResponse { status })
    }

    async fn list(&self, message: ListWorkloadsRequest) -> Result<ListWorkloadsResponse, Refused> {
        let wanted = match WorkloadType::try_from(message.r#type) {
            Ok(WorkloadType::Unspecified | WorkloadType::Container) => self.manager.list(),
            Ok(WorkloadType::Compose | WorkloadType::Vm) => Vec::new(),
            Err(_) => {
                let message = format!("type: {} is none", message.r#type);
                return Err(Refused { code: Code::Invalid, message });
            }
        };
        let told = wanted.iter().map(|(id, status)| convert::status(id, status, &[]));
        Ok(ListWorkloadsResponse { workloads: told.collect() })
    }

    async fn health(&self, _: HealthCheckRequest) -> Result<HealthCheckResponse, Refused> {
        let (name, health) = self.manager.runtime_health().await;
        let in_use = self.machine.in_use();
        let quarantined = self.manager.quarantined().len();
        Ok(HealthCheckResponse {
            healthy: health.is_ok(),
            version: self.version.clone(),
            runtime_status: [(
                name.to_owned(),
                health.map_or_else(|words| words, |()| "healthy".to_owned()),
            )]
            .into_iter()
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
        Denied::Deleting(_) => Code::Busy,
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
