//! The server: hands each request to an [`Agent`], within limits, and only from who may ask.
//!
//! The API, health and reflection alike are for clients in the list; everybody else who got through
//! the handshake is told so. Between the library and the agent is `adapter`.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic::service::InterceptorLayer;
use tonic::transport::Server as Transport;
use tonic::{Request, Status};
use tonic_health::ServingStatus;
use tower::limit::GlobalConcurrencyLimitLayer;

use crate::adapter::Adapter;
use crate::agent::agent_service_server::AgentServiceServer;
use crate::agent::{
    ApplyWorkloadRequest, ApplyWorkloadResponse, DeleteWorkloadRequest, DeleteWorkloadResponse,
    ExecRequest, ExecResponse, GetLogsRequest, GetLogsResponse, GetWorkloadStatusRequest,
    GetWorkloadStatusResponse, HealthCheckRequest, HealthCheckResponse, ListActionsRequest,
    ListActionsResponse, ListWorkloadsRequest, ListWorkloadsResponse, SetDrainRequest,
    SetDrainResponse, SnapshotRequest, SnapshotResponse,
};
use crate::listen::{Door, Listen, Peer, arriving};
use crate::tls::TlsError;
use crate::{DESCRIPTION, SERVICE};

/// Whoever serves the API.
pub trait Agent: Send + Sync + 'static {
    /// Makes a workload what the request says, in the background.
    fn apply(
        &self,
        peer: &Peer,
        request: ApplyWorkloadRequest,
    ) -> impl Future<Output = Result<ApplyWorkloadResponse, Refused>> + Send;
    /// Stops and removes a workload, in the background.
    fn delete(
        &self,
        peer: &Peer,
        request: DeleteWorkloadRequest,
    ) -> impl Future<Output = Result<DeleteWorkloadResponse, Refused>> + Send;
    /// How a workload is.
    fn status(
        &self,
        request: GetWorkloadStatusRequest,
    ) -> impl Future<Output = Result<GetWorkloadStatusResponse, Refused>> + Send;
    /// Every workload as it was last seen.
    fn list(
        &self,
        request: ListWorkloadsRequest,
    ) -> impl Future<Output = Result<ListWorkloadsResponse, Refused>> + Send;
    /// Whether the host is well.
    fn health(
        &self,
        request: HealthCheckRequest,
    ) -> impl Future<Output = Result<HealthCheckResponse, Refused>> + Send;
    /// What was done lately.
    fn actions(
        &self,
        request: ListActionsRequest,
    ) -> impl Future<Output = Result<ListActionsResponse, Refused>> + Send;
    /// Drains the host, or ends that.
    fn drain(
        &self,
        peer: &Peer,
        request: SetDrainRequest,
    ) -> impl Future<Output = Result<SetDrainResponse, Refused>> + Send;
    /// Does something with snapshots of a machine, and says which there are.
    fn snapshot(
        &self,
        peer: &Peer,
        request: SnapshotRequest,
    ) -> impl Future<Output = Result<SnapshotResponse, Refused>> + Send;
    /// What a workload wrote, and goes on to write.
    fn logs(
        &self,
        request: GetLogsRequest,
    ) -> impl Future<Output = Result<Answers<GetLogsResponse>, Refused>> + Send;
    /// Runs a command in a workload: what the first message says, with the input of the others.
    fn exec(
        &self,
        peer: &Peer,
        first: ExecRequest,
        input: mpsc::Receiver<Vec<u8>>,
    ) -> impl Future<Output = Result<Answers<ExecResponse>, Refused>> + Send;
}

/// Answers that come one after another.
pub type Answers<T> = mpsc::Receiver<Result<T, Refused>>;

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// What kind of reason it is.
    pub code: Code,
    /// In words.
    pub message: String,
}

/// The kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The request is wrong, and stays wrong.
    Invalid,
    /// There is no such workload.
    NotFound,
    /// Something else has to end first; try again.
    Busy,
    /// The host has no room for it.
    NoRoom,
    /// Who asks may not.
    Forbidden,
    /// This host cannot do that.
    Unsupported,
    /// The host could not save or do it; try again.
    Failed,
    /// Nobody answers, or not in time.
    Unreachable,
}

/// Bounds of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most connections at once.
    pub connections: usize,
    /// How long a connection may take to prove itself.
    pub handshake: Duration,
    /// The largest request, in bytes.
    pub message: usize,
    /// The longest that a request may take.
    pub request: Duration,
    /// The most requests of one connection at once.
    pub concurrent: usize,
    /// The most requests of all connections at once; others wait.
    pub in_all: usize,
    /// So many bytes may be on their way to us on a connection.
    pub window: u32,
}

/// What a service is called, and what reflection says of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described {
    pub(crate) service: &'static str,
    pub(crate) description: &'static [u8],
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The place cannot be listened at.
    #[error("{place}: cannot listen there: {source}")]
    Listen {
        /// The address or path.
        place: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Everybody could use it.
    #[error(
        "{address}: without certificates it can be served on the loopback interface or a socket \
         only"
    )]
    Open {
        /// The address.
        address: SocketAddr,
    },
}

/// A server at work. It stops when it is dropped, or kindly by [`Server::stop`].
#[derive(Debug)]
pub struct Server {
    address: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

// === impl Limits ===

impl Limits {
    /// 256 connections, 10 s to prove oneself, 4 MiB, 30 s a request, 64 at once of each, 1,024 of
    /// all.
    pub const DEFAULT: Self = Self {
        connections: 256,
        handshake: Duration::from_secs(10),
        message: 4 << 20,
        request: Duration::from_secs(30),
        concurrent: 64,
        in_all: 1_024,
        window: 1 << 20,
    };
}

// === impl Server ===

impl Server {
    /// Starts to serve `agent`.
    ///
    /// # Errors
    /// The place or the certificates cannot be used.
    pub async fn start<A: Agent>(
        agent: Arc<A>,
        listen: &Listen,
        limits: Limits,
    ) -> Result<Self, ServeError> {
        let service = AgentServiceServer::new(Adapter(agent))
            .max_decoding_message_size(limits.message)
            .max_encoding_message_size(usize::MAX);
        let described = Described { service: SERVICE, description: DESCRIPTION };
        Self::begin(service, described, listen, limits).await
    }

    /// Starts to serve any service, with health and reflection beside it.
    pub(crate) async fn begin<S>(
        service: S,
        told: Described,
        listen: &Listen,
        limits: Limits,
    ) -> Result<Self, ServeError>
    where
        S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>
            + NamedService
            + Clone
            + Send
            + Sync
            + 'static,
        S::Future: Send + 'static,
    {
        let door = Door::open(listen).await?;
        let address = door.address();
        let (to, from) = mpsc::channel(1);
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(door.accept(limits, to));
        let (health, health_service) = tonic_health::server::health_reporter();
        health.set_service_status(told.service, ServingStatus::Serving).await;
        let described = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(told.description)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let described_v1 = described().build_v1().expect("our description can be read");
        let described_old = described().build_v1alpha().expect("our description can be read");
        let router = Transport::builder()
            .timeout(limits.request)
            .concurrency_limit_per_connection(limits.concurrent)
            .max_concurrent_streams(u32::try_from(limits.concurrent).unwrap_or(u32::MAX))
            .http2_keepalive_interval(Some(Duration::from_secs(30)))
            .http2_keepalive_timeout(Some(Duration::from_secs(10)))
            .http2_max_header_list_size(16 << 10)
            .initial_stream_window_size(limits.window)
            .initial_connection_window_size(limits.window)
            .layer(GlobalConcurrencyLimitLayer::new(limits.in_all))
            .layer(InterceptorLayer::new(only_named))
            .add_service(service)
            .add_service(health_service)
            .add_service(described_v1)
            .add_service(described_old);
        let serving = router.serve_with_incoming_shutdown(arriving(from), async {
            // A sender that is gone means the same.
            stopped.await.ok();
        });
        let task = tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!("{} is no longer served: {error}", told.service);
            }
        });
        Ok(Self { address, stop: Some(stop), task })
    }

    /// Where it listens, if that is a port.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Takes nothing new and waits for what is under way, but not for long.
    pub async fn stop(mut self, within: Duration) {
        if let Some(stop) = self.stop.take() {
            // One that has ended by itself needs no telling.
            stop.send(()).ok();
        }
        if tokio::time::timeout(within, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.stop.is_some() {
            self.task.abort();
        }
    }
}

/// Lets through only who is in the list of clients.
fn only_named(request: Request<()>) -> Result<Request<()>, Status> {
    match request.extensions().get::<Peer>() {
        Some(Peer { name: Some(_), .. }) => Ok(request),
        Some(Peer { name: None, .. }) | None => {
            Err(Status::permission_denied("no name of your certificate is in the list of clients"))
        }
    }
}
