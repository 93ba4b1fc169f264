//! The client: asks one host, with a time for everything.
//!
//! With TLS 1.3 a server that refuses our certificate says so only after the connection was made,
//! so the first request is what tells: see [`CallError`].

use std::error::Error as _;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status, Streaming};
use tower::service_fn;

use crate::agent::agent_service_client::AgentServiceClient;
use crate::agent::{
    AgentAction, ApplyWorkloadRequest, ApplyWorkloadResponse, DeleteWorkloadRequest,
    DeleteWorkloadResponse, ExecRequest, ExecResponse, GetLogsRequest, GetLogsResponse,
    GetWorkloadStatusRequest, HealthCheckRequest, HealthCheckResponse, ListActionsRequest,
    ListWorkloadsRequest, SetDrainRequest, SnapshotInfo, SnapshotRequest, WorkloadStatus,
};
use crate::serve::{Code, Refused};
use crate::tls::{TlsError, TlsFolder};

/// How long it may take to reach a host.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a request may take.
const REQUEST: Duration = Duration::from_secs(40);
/// The largest answer: ten thousand workloads with long messages.
const ANSWER_MAX: usize = 64 << 20;

/// Whom to ask, and how to prove oneself.
#[derive(Clone, Debug)]
pub enum Target {
    /// A host by its name or address and port, with certificates on both sides.
    Tls {
        /// Such as `web1.example:50051`.
        address: String,
        /// The certificates.
        folder: TlsFolder,
    },
    /// This machine, without certificates.
    Plain {
        /// On the loopback interface.
        address: SocketAddr,
    },
    /// A socket in the file system.
    Unix {
        /// Where.
        path: PathBuf,
    },
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The address is none.
    #[error("address: `{0}` is none; write NAME:PORT, such as web1.example:50051")]
    Address(String),
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// It was refused, or nobody answers.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// A client of one host.
#[derive(Clone, Debug)]
pub struct Client {
    inner: AgentServiceClient<Channel>,
}

impl Client {
    /// Reaches a host.
    ///
    /// # Errors
    /// It cannot be reached, or does not prove itself.
    pub async fn connect(target: &Target) -> Result<Self, CallError> {
        let channel = reach(target).await?;
        let inner = AgentServiceClient::new(channel).max_decoding_message_size(ANSWER_MAX);
        Ok(Self { inner })
    }

    /// Makes a workload what the request says, in the background.
    ///
    /// # Errors
    /// It was refused, or nobody answers.
    pub async fn apply(
        &mut self,
        request: ApplyWorkloadRequest,
    ) -> Result<ApplyWorkloadResponse, Refused> {
        answer(self.inner.apply_workload(request).await)
    }

    /// Stops and removes a workload, in the background.
    ///
    /// # Errors
    /// It was refused, or nobody answers.
    pub async fn delete(&mut self, id: &str) -> Result<DeleteWorkloadResponse, Refused> {
        let request = DeleteWorkloadRequest { id: id.to_owned() };
        answer(self.inner.delete_workload(request).await)
    }

    /// How a workload is.
    ///
    /// # Errors
    /// There is none, or nobody answers.
    pub async fn status(&mut self, id: &str) -> Result<WorkloadStatus, Refused> {
        let request = GetWorkloadStatusRequest { id: id.to_owned() };
        let status = answer(self.inner.get_workload_status(request).await)?.status;
        status.ok_or_else(|| Refused {
            code: Code::Failed,
            message: format!("{id}: the host answers without a status"),
        })
    }

    /// Every workload as it was last seen.
    ///
    /// # Errors
    /// Nobody answers.
    pub async fn list(
        &mut self,
        request: ListWorkloadsRequest,
    ) -> Result<Vec<WorkloadStatus>, Refused> {
        Ok(answer(self.inner.list_workloads(request).await)?.workloads)
    }

    /// Whether the host is well.
    ///
    /// # Errors
    /// Nobody answers.
    pub async fn health(&mut self) -> Result<HealthCheckResponse, Refused> {
        answer(self.inner.health_check(HealthCheckRequest {}).await)
    }

    /// What was done lately.
    ///
    /// # Errors
    /// Nobody answers.
    pub async fn actions(
        &mut self,
        request: ListActionsRequest,
    ) -> Result<Vec<AgentAction>, Refused> {
        Ok(answer(self.inner.list_actions(request).await)?.actions)
    }

    /// Does something with snapshots of a machine, and says which there are.
    ///
    /// # Errors
    /// It was refused, or nobody answers.
    pub async fn snapshot(
        &mut self,
        request: SnapshotRequest,
    ) -> Result<Vec<SnapshotInfo>, Refused> {
        Ok(answer(self.inner.snapshot(request).await)?.snapshots)
    }

    /// What a workload wrote, and goes on to write.
    ///
    /// # Errors
    /// There is no such workload, or nobody answers.
    pub async fn logs(
        &mut self,
        request: GetLogsRequest,
    ) -> Result<Pieces<GetLogsResponse>, Refused> {
        Ok(Pieces(answer(self.inner.get_logs(request).await)?))
    }

    /// Runs a command in a workload. The first request says what to run, the others are its input.
    ///
    /// # Errors
    /// It was refused, or nobody answers.
    pub async fn exec(
        &mut self,
        requests: mpsc::Receiver<ExecRequest>,
    ) -> Result<Pieces<ExecResponse>, Refused> {
        let requests = futures_util::stream::unfold(requests, |mut requests| async move {
            Some((requests.recv().await?, requests))
        });
        Ok(Pieces(answer(self.inner.exec(requests).await)?))
    }

    /// Drains the host, or ends that. Says whether it is drained now.
    ///
    /// # Errors
    /// It was refused, or nobody answers.
    pub async fn drain(&mut self, drain: bool) -> Result<bool, Refused> {
        Ok(answer(self.inner.set_drain(SetDrainRequest { drain }).await)?.drained)
    }
}

/// Reaches a host.
pub(crate) async fn reach(target: &Target) -> Result<Channel, CallError> {
    let endpoint = Endpoint::from_static("http://host.invalid")
        .connect_timeout(CONNECT)
        .timeout(REQUEST)
        .http2_keep_alive_interval(Duration::from_secs(20));
    let channel = match target {
        Target::Tls { address, folder } => {
            let config = Arc::new(folder.client()?);
            let (host, name) = host_and_name(address)?;
            let reach = service_fn(move |_| {
                let (host, name) = (host.clone(), name.clone());
                let connector = TlsConnector::from(Arc::clone(&config));
                async move {
                    let stream = TcpStream::connect(host).await?;
                    stream.set_nodelay(true)?;
                    let stream = connector.connect(name, stream).await?;
                    Ok::<_, io::Error>(TokioIo::new(stream))
                }
            });
            endpoint.connect_with_connector(reach).await
        }
        Target::Plain { address } => {
            let address = *address;
            let reach = service_fn(move |_| async move {
                Ok::<_, io::Error>(TokioIo::new(TcpStream::connect(address).await?))
            });
            endpoint.connect_with_connector(reach).await
        }
        Target::Unix { path } => {
            let path = path.clone();
            let reach = service_fn(move |_| {
                let path = path.clone();
                async move {
                    let stream = UnixStream::connect(path).await?;
                    Ok::<_, io::Error>(TokioIo::new(stream))
                }
            });
            endpoint.connect_with_connector(reach).await
        }
    };
    Ok(channel.map_err(|error| Refused {
        code: Code::Unreachable,
        message: format!("{}: {}", target.place(), innermost(&error)),
    })?)
}

/// Answers that come one after another.
#[derive(Debug)]
pub struct Pieces<T>(Streaming<T>);

impl<T> Pieces<T> {
    /// The next one, if there is another.
    ///
    /// # Errors
    /// The host is gone, or gave up.
    pub async fn next(&mut self) -> Result<Option<T>, Refused> {
        self.0.message().await.map_err(refused)
    }
}

impl Target {
    fn place(&self) -> String {
        match self {
            Self::Tls { address, .. } => address.clone(),
            Self::Plain { address } => address.to_string(),
            Self::Unix { path } => path.display().to_string(),
        }
    }
}

/// What to connect to, and the name that the other side has to prove.
fn host_and_name(address: &str) -> Result<(String, ServerName<'static>), CallError> {
    let none = || CallError::Address(address.to_owned());
    let (host, port) = address.rsplit_once(':').ok_or_else(none)?;
    port.parse::<u16>().map_err(|_| none())?;
    let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(name).map_err(|_| none())?;
    Ok((address.to_owned(), name))
}

pub(crate) fn answer<T>(result: Result<Response<T>, Status>) -> Result<T, Refused> {
    result.map(Response::into_inner).map_err(refused)
}

fn refused(status: Status) -> Refused {
    use tonic::Code as Grpc;
    let code = match status.code() {
        Grpc::InvalidArgument | Grpc::OutOfRange => Code::Invalid,
        Grpc::NotFound => Code::NotFound,
        Grpc::Aborted | Grpc::FailedPrecondition => Code::Busy,
        Grpc::ResourceExhausted => Code::NoRoom,
        Grpc::PermissionDenied | Grpc::Unauthenticated => Code::Forbidden,
        Grpc::Unimplemented => Code::Unsupported,
        Grpc::Unavailable | Grpc::DeadlineExceeded | Grpc::Cancelled => Code::Unreachable,
        Grpc::Ok | Grpc::Unknown | Grpc::AlreadyExists | Grpc::Internal | Grpc::DataLoss => {
            Code::Failed
        }
    };
    // A refused certificate is hidden at the end of a chain of causes.
    match status.source() {
        Some(source) if code == Code::Failed || code == Code::Unreachable => {
            Refused { code: Code::Unreachable, message: innermost(source) }
        }
        Some(_) | None => Refused { code, message: status.message().to_owned() },
    }
}

/// The last cause, which is the one that a person can do something about.
pub(crate) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}
