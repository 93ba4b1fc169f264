//! Between the library's calls and an [`Agent`]: who asks is checked and written down here, and
//! what an agent refuses becomes a status of gRPC.

use std::future::Future;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming};
use tracing::{debug, info, warn};

use crate::agent::agent_service_server::AgentService;
use crate::agent::{
    ApplyWorkloadRequest, ApplyWorkloadResponse, DeleteWorkloadRequest, DeleteWorkloadResponse,
    ExecRequest, ExecResponse, GetLogsRequest, GetLogsResponse, GetWorkloadStatusRequest,
    GetWorkloadStatusResponse, HealthCheckRequest, HealthCheckResponse, ListActionsRequest,
    ListActionsResponse, ListWorkloadsRequest, ListWorkloadsResponse, SetDrainRequest,
    SetDrainResponse, SnapshotAction, SnapshotRequest, SnapshotResponse,
};
use crate::listen::Peer;
use crate::rights::{Rights, Verb};
use crate::serve::{Agent, Answers, Code, Refused};

/// So much input waits for a command that does not read.
const INPUT_WAITING: usize = 16;

/// An agent as the library wants it.
pub(crate) struct Adapter<A>(pub(crate) Arc<A>);

fn peer<T>(request: &Request<T>) -> Peer {
    request.extensions().get::<Peer>().cloned().unwrap_or(Peer { name: None, rights: Rights::ALL })
}

pub(crate) fn answer<T>(result: Result<T, Refused>) -> Result<Response<T>, Status> {
    result.map(Response::new).map_err(status_of)
}

fn status_of(refused: Refused) -> Status {
    let Refused { code, message } = refused;
    match code {
        Code::Invalid => Status::invalid_argument(message),
        Code::NotFound => Status::not_found(message),
        Code::Busy => Status::aborted(message),
        Code::NoRoom => Status::resource_exhausted(message),
        Code::Forbidden => Status::permission_denied(message),
        Code::Unsupported => Status::unimplemented(message),
        Code::Failed => Status::internal(message),
        Code::Unreachable => Status::unavailable(message),
    }
}

/// Answers as the library wants them.
type Stream<T> = BoxStream<'static, Result<T, Status>>;

fn stream<T: Send + 'static>(answers: Answers<T>) -> Stream<T> {
    let next = |mut answers: Answers<T>| async move {
        let answer = answers.recv().await?.map_err(status_of);
        Some((answer, answers))
    };
    futures_util::stream::unfold(answers, next).boxed()
}

/// Lets only who may ask for `verb` go on, and writes down who asked for what and what came of it.
async fn audited<T>(
    peer: &Peer,
    verb: Verb,
    workload: &str,
    asked: impl Future<Output = Result<T, Refused>>,
) -> Result<T, Refused> {
    let by = peer.name.as_deref().unwrap_or("nobody");
    let result = if peer.rights.allow(verb) {
        asked.await
    } else {
        let (verb, rights) = (verb.name(), peer.rights);
        let message = format!("{by} may not {verb} here, only: {rights}");
        Err(Refused { code: Code::Forbidden, message })
    };
    let verb_name = verb.name();
    match &result {
        Ok(_) if verb.is_grave() => {
            info!(target: "audit", by, verb = verb_name, workload, "allowed");
        }
        Ok(_) => debug!(target: "audit", by, verb = verb_name, workload, "allowed"),
        Err(Refused { code: Code::Forbidden, .. }) => {
            warn!(target: "audit", by, verb = verb_name, workload, "forbidden");
        }
        Err(refused) => {
            info!(target: "audit", by, verb = verb_name, workload, "refused: {refused}");
        }
    }
    result
}

#[tonic::async_trait]
impl<A: Agent> AgentService for Adapter<A> {
    type GetLogsStream = Stream<GetLogsResponse>;
    type ExecStream = Stream<ExecResponse>;

    async fn apply_workload(
        &self,
        request: Request<ApplyWorkloadRequest>,
    ) -> Result<Response<ApplyWorkloadResponse>, Status> {
        let (peer, request) = (peer(&request), request.into_inner());
        let id = request.id.clone();
        answer(audited(&peer, Verb::Apply, &id, self.0.apply(&peer, request)).await)
    }

    async fn delete_workload(
        &self,
        request: Request<DeleteWorkloadRequest>,
    ) -> Result<Response<DeleteWorkloadResponse>, Status> {
        let (peer, request) = (peer(&request), request.into_inner());
        let id = request.id.clone();
        answer(audited(&peer, Verb::Delete, &id, self.0.delete(&peer, request)).await)
    }

    async fn get_workload_status(
        &self,
        request: Request<GetWorkloadStatusRequest>,
    ) -> Result<Response<GetWorkloadStatusResponse>, Status> {
        let (peer, request) = (peer(&request), request.into_inner());
        let id = request.id.clone();
        answer(audited(&peer, Verb::Read, &id, self.0.status(request)).await)
    }

    async fn list_workloads(
        &self,
        request: Request<ListWorkloadsRequest>,
    ) -> Result<Response<ListWorkloadsResponse>, Status> {
        let (peer, request) = (peer(&request), request.into_inner());
        answer(audited(&peer, Verb::Read, "", self.0.list(request)).await)
    }

    async fn health_check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let (peer, request) = (peer(&request), request.into_inner());
        answer(audited(&peer, Verb::Read, "", self.0.health(request)).await)
    }

    async fn list_actions(
        &self,
        request: Request<ListActionsRequest>,
    ) -> Result<Response<ListActionsResponse>, Status> {
        let (peer, request) = (peer(&request), request.into_inner());
        let id = request.workload_id.clone();
        answer(audited(&peer, Verb::Read, &id, self.0.actions(request)).await)
    }

    async fn set_drain(
        &self,
        request: Request<SetDrainRequest>,
    ) -> Result<Response<SetDrainResponse>, Status> {
        let (peer, request) = (peer(&request), request.into_inner());
        answer(audited(&peer, Verb::Drain, "", self.0.drain(&peer, request)).await)
    }

    async fn snapshot(
        &self,
        request: Request<SnapshotRequest>,
    ) -> Result<Response<SnapshotResponse>, Status> {
        let (peer, request) = (peer(&request), request.into_inner());
        let id = request.id.clone();
        // Whoever may not change a machine may not change what it goes back to.
        let verb = match request.action() {
            SnapshotAction::Unspecified => Verb::Read,
            SnapshotAction::Take | SnapshotAction::Revert | SnapshotAction::Drop => Verb::Apply,
        };
        answer(audited(&peer, verb, &id, self.0.snapshot(&peer, request)).await)
    }

    async fn get_logs(
        &self,
        request: Request<GetLogsRequest>,
    ) -> Result<Response<Self::GetLogsStream>, Status> {
        let (peer, request) = (peer(&request), request.into_inner());
        let id = request.id.clone();
        let answers = audited(&peer, Verb::Logs, &id, self.0.logs(request)).await;
        answer(answers.map(stream))
    }

    async fn exec(
        &self,
        request: Request<Streaming<ExecRequest>>,
    ) -> Result<Response<Self::ExecStream>, Status> {
        let (peer, mut from) = (peer(&request), request.into_inner());
        let first = from.message().await?.unwrap_or_default();
        let id = first.id.clone();
        let (to, input) = mpsc::channel(INPUT_WAITING);
        let pump = async move {
            while let Ok(Some(message)) = from.message().await {
                // Nobody takes it when the command has ended.
                if to.send(message.input).await.is_err() {
                    return;
                }
            }
        };
        let answers = audited(&peer, Verb::Exec, &id, self.0.exec(&peer, first, input)).await;
        if answers.is_ok() {
            tokio::spawn(pump);
        }
        answer(answers.map(stream))
    }
}
