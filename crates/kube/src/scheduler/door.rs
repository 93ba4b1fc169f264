//! Where kube-scheduler asks: HTTP/1.1, encrypted or on the loopback interface alone.
//!
//! It runs in a thread of its own, so that nothing else of this process makes kube-scheduler wait.
//! Everything is bounded: connections, of all and of each peer, the size of a question, and how
//! long a client may take to ask it. A connection is kept for many questions.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::{runtime, time};
use walras_rpc::{ServerTls, TlsError, TlsFolder};

/// So many connections of all, and of one address.
const CONNECTIONS_MAX: usize = 256;
const OF_ONE_MAX: usize = 32;
/// How long a client may take to be encrypted.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long between two questions of one connection. kube-scheduler keeps connections for 90 s.
const BETWEEN: Duration = Duration::from_secs(120);
/// Request line and headers may have this many bytes, and this many headers.
const HEADERS_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// After a failed accept, such as with too many open files, wait a moment.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A server at work. It stops when it is dropped.
#[derive(Debug)]
pub(crate) struct Door {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Why questions cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// The address cannot be used.
    #[error("--listen {address}: cannot listen there: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Everybody could read along.
    #[error(
        "--listen {address}: without --tls DIR the extender is served on the loopback interface \
         only, such as 127.0.0.1:{port}", port = .address.port()
    )]
    Open {
        /// The address.
        address: SocketAddr,
    },
    /// The certificate cannot be used.
    #[error("--tls: {0}")]
    Tls(#[from] TlsError),
}

impl Door {
    /// Starts to serve. When this returns, connections are accepted.
    pub(crate) fn open(
        address: SocketAddr,
        tls: Option<&TlsFolder>,
        routes: Router,
    ) -> Result<Self, DoorError> {
        if tls.is_none() && !address.ip().is_loopback() {
            return Err(DoorError::Open { address });
        }
        let tls = tls.map(ServerTls::new).transpose()?.map(Arc::new);
        let cannot = |source| DoorError::Listen { address, source };
        let listener = std::net::TcpListener::bind(address).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let bound = listener.local_addr().map_err(cannot)?;
        let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(cannot)?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(listener, tls, routes) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = thread::Builder::new().name("walras-place".into()).spawn(serve);
        Ok(Self { address: bound, stop: Some(stop), thread: Some(thread.map_err(cannot)?) })
    }

    /// The address it listens on.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A server that panicked has told so already, and there is nothing left to stop.
            thread.join().ok();
        }
    }
}

async fn accept(listener: std::net::TcpListener, tls: Option<Arc<ServerTls>>, routes: Router) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let guests = Arc::new(Guests::default());
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(place) = Guests::came(&guests, peer.ip()) else { continue };
        let (tls, routes) = (tls.clone(), routes.clone());
        tokio::spawn(async move {
            let _place = place;
            serve(stream, tls, routes).await;
        });
    }
}

/// Errors of a connection are the client's doing, and the client knows.
async fn serve(stream: TcpStream, tls: Option<Arc<ServerTls>>, routes: Router) {
    stream.set_nodelay(true).ok();
    match tls {
        None => converse(stream, routes).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = time::timeout(HANDSHAKE, tls.accept(stream)).await {
                converse(stream, routes).await;
            }
        }
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, routes: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(BETWEEN)
        .keep_alive(true)
        .max_buf_size(HEADERS_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    connection.await.ok();
}

/// Who is connected, and how often.
#[derive(Debug, Default)]
struct Guests(Mutex<BTreeMap<IpAddr, usize>>);

/// A connection's place, which is free again when this is dropped.
struct Place(Arc<Guests>, IpAddr);

impl Guests {
    /// A place for one more, if there is one.
    fn came(guests: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let mut all = guests.0.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = all.values().sum();
        let of_one = all.entry(peer).or_default();
        if total >= CONNECTIONS_MAX || *of_one >= OF_ONE_MAX {
            return None;
        }
        *of_one += 1;
        Some(Place(Arc::clone(guests), peer))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(of_one) = all.get_mut(&self.1) {
            *of_one = of_one.saturating_sub(1);
            if *of_one == 0 {
                all.remove(&self.1);
            }
        }
    }
}
