//! Telemetry of nodes over gRPC: a server that takes in snapshots, and a client that sends them.
//!
//! A node proves itself by a bearer token when it opens its stream, and every snapshot has to be of
//! the node that the token belongs to: one of another node is refused and ends the stream. A stream
//! ends after some minutes in any case, so that a token that is no longer good is noticed. What
//! tokens mean and what becomes of snapshots is the business of the [`Collector`].

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{self, Instant};
use tokio_rustls::TlsConnector;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint, Server as Transport};
use tonic::{Request, Response, Status, Streaming};
use tower::service_fn;

use crate::client::{answer, innermost};
use crate::listen::{Door, Listen, arriving};
use crate::reports::telemetry_client::TelemetryClient;
use crate::reports::telemetry_server::{Telemetry, TelemetryServer};
use crate::reports::{PushResponse, Snapshot};
use crate::serve::{Code, Limits, Refused, ServeError};
use crate::tls::trusting;

/// The port of a scheduler that takes in telemetry.
pub const PORT: u16 = 10303;
/// The largest snapshot, in bytes.
const SNAPSHOT_MAX: usize = 16 << 10;
/// A stream without a snapshot for so long is dead.
const SILENCE: Duration = Duration::from_secs(30);
/// A token is checked again after this.
const LIFE: Duration = Duration::from_secs(600);
/// How long it may take to find out whom a token belongs to.
const PROVE: Duration = Duration::from_secs(10);
/// How long it may take to reach a scheduler.
const CONNECT: Duration = Duration::from_secs(10);

/// A server of telemetry, as seen from here.
pub trait Collector: Send + Sync + 'static {
    /// The node that the bearer of a token speaks for.
    fn node_of(&self, token: String) -> impl Future<Output = Result<String, Refused>> + Send;
    /// A snapshot of the node that sent it.
    fn reported(&self, snapshot: Snapshot);
    /// A sender was refused.
    fn refused(&self, why: Unwelcome);
}

/// Why a sender of telemetry was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unwelcome {
    /// It brought no token, or one that is not good.
    Unproven,
    /// It sent a snapshot of another node.
    WrongNode,
}

/// A server at work. It stops when it is dropped.
#[derive(Debug)]
pub struct Reception {
    address: Option<SocketAddr>,
    _stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Whom to send telemetry to.
#[derive(Clone, Debug)]
pub enum Scheduler {
    /// One that proves a name by a certificate of the authority in a file.
    Tls {
        /// Where it is.
        address: SocketAddr,
        /// Its name, such as `walras-scheduler.mbcas-system.svc`.
        name: String,
        /// The authority's certificate.
        ca: PathBuf,
    },
    /// This machine, without certificates.
    Plain {
        /// On the loopback interface.
        address: SocketAddr,
    },
}

// === impl Unwelcome ===

impl Unwelcome {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Unproven, Self::WrongNode];

    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unproven => "unproven",
            Self::WrongNode => "wrong_node",
        }
    }
}

// === impl Reception ===

impl Reception {
    /// Starts to take in telemetry, of up to `nodes` at once.
    ///
    /// # Errors
    /// The place or the certificate cannot be used.
    pub async fn start<C: Collector>(
        collector: Arc<C>,
        listen: &Listen,
        nodes: usize,
    ) -> Result<Self, ServeError> {
        let door = Door::open(listen).await?;
        let address = door.address();
        let (to, from) = mpsc::channel(1);
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(door.accept(Limits { connections: nodes, ..Limits::DEFAULT }, to));
        let service = TelemetryServer::new(Desk(collector)).max_decoding_message_size(SNAPSHOT_MAX);
        let router = Transport::builder()
            .max_concurrent_streams(2)
            .initial_stream_window_size(64 << 10)
            .initial_connection_window_size(64 << 10)
            .http2_keepalive_interval(Some(Duration::from_secs(30)))
            .http2_keepalive_timeout(Some(Duration::from_secs(10)))
            .http2_max_header_list_size(16 << 10)
            .add_service(service);
        let serving = router.serve_with_incoming_shutdown(arriving(from), async {
            // A sender that is gone means the same.
            stopped.await.ok();
        });
        let task = tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!("telemetry is no longer taken in: {error}");
            }
        });
        Ok(Self { address, _stop: stop, task })
    }

    /// Where it listens, if that is a port.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

impl Drop for Reception {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A collector as the library wants it.
struct Desk<C>(Arc<C>);

impl<C: Collector> Desk<C> {
    /// The node that a request speaks for.
    async fn prove<T>(&self, request: &Request<T>) -> Result<String, Status> {
        let said = request.metadata().get("authorization").and_then(|it| it.to_str().ok());
        let token = said.and_then(|said| said.strip_prefix("Bearer ")).map(str::to_owned);
        let Some(token) = token else {
            self.0.refused(Unwelcome::Unproven);
            return Err(Status::unauthenticated("authorization: a bearer token is needed"));
        };
        let node = time::timeout(PROVE, self.0.node_of(token)).await;
        let late = Refused {
            code: Code::Unreachable,
            message: "whom the token belongs to was not found out in time".to_owned(),
        };
        node.unwrap_or(Err(late)).map_err(|refused| {
            if refused.code == Code::Unreachable {
                // That is not known, which is not its fault: it may try again.
                return Status::unavailable(refused.message);
            }
            self.0.refused(Unwelcome::Unproven);
            Status::unauthenticated(refused.message)
        })
    }
}

#[tonic::async_trait]
impl<C: Collector> Telemetry for Desk<C> {
    async fn push(
        &self,
        request: Request<Streaming<Snapshot>>,
    ) -> Result<Response<PushResponse>, Status> {
        let node = self.prove(&request).await?;
        let mut stream = request.into_inner();
        let ends = Instant::now() + LIFE;
        let mut taken = 0;
        while Instant::now() < ends {
            let next = time::timeout(SILENCE, stream.message()).await;
            let silent = || Status::deadline_exceeded("no snapshot came for 30 s");
            let Some(snapshot) = next.map_err(|_| silent())?? else { break };
            if snapshot.node_name != node {
                self.0.refused(Unwelcome::WrongNode);
                return Err(Status::permission_denied(format!(
                    "the token belongs to the node {node}, and this is a snapshot of {}",
                    snapshot.node_name.escape_debug()
                )));
            }
            self.0.reported(snapshot);
            taken += 1;
        }
        Ok(Response::new(PushResponse { taken }))
    }
}

/// Sends snapshots to a scheduler until one of both ends it. Says how many were taken in.
///
/// # Errors
/// It cannot be reached, or refuses.
pub async fn push(
    scheduler: &Scheduler,
    token: &str,
    snapshots: impl Stream<Item = Snapshot> + Send + 'static,
) -> Result<u64, Refused> {
    let channel = reach(scheduler).await?;
    let mut request = Request::new(snapshots);
    let said = MetadataValue::try_from(format!("Bearer {}", token.trim()));
    let mut said = said.map_err(|_| Refused {
        code: Code::Invalid,
        message: "the token has characters that no token has".to_owned(),
    })?;
    said.set_sensitive(true);
    request.metadata_mut().insert("authorization", said);
    answer(TelemetryClient::new(channel).push(request).await).map(|response| response.taken)
}

async fn reach(scheduler: &Scheduler) -> Result<Channel, Refused> {
    let refused = |code, message| Refused { code, message };
    let endpoint = Endpoint::from_static("http://scheduler.invalid")
        .connect_timeout(CONNECT)
        .http2_keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10));
    let (channel, place) = match scheduler {
        Scheduler::Tls { address, name, ca } => {
            let config = trusting(ca).map_err(|error| refused(Code::Invalid, error.to_string()))?;
            let config = Arc::new(config);
            let proves = ServerName::try_from(name.clone())
                .map_err(|_| refused(Code::Invalid, format!("`{name}` is no name")))?;
            let host = *address;
            let connector = service_fn(move |_| {
                let name = proves.clone();
                let connector = TlsConnector::from(Arc::clone(&config));
                async move {
                    let stream = TcpStream::connect(host).await?;
                    stream.set_nodelay(true)?;
                    Ok::<_, io::Error>(TokioIo::new(connector.connect(name, stream).await?))
                }
            });
            (endpoint.connect_with_connector(connector).await, format!("{name} at {address}"))
        }
        Scheduler::Plain { address } => {
            let host = *address;
            let connector = service_fn(move |_| async move {
                Ok::<_, io::Error>(TokioIo::new(TcpStream::connect(host).await?))
            });
            (endpoint.connect_with_connector(connector).await, address.to_string())
        }
    };
    channel.map_err(|error| refused(Code::Unreachable, format!("{place}: {}", innermost(&error))))
}
