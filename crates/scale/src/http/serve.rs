//! A server with limits. Handlers answer from memory and at once.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time;

use super::{Asked, Told};

/// What is served. It must not wait for anything.
pub trait Handler: Send + Sync + 'static {
    /// The answer.
    fn answer(&self, asked: &Asked) -> Told;
}

/// What a server grants its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections in all.
    pub connections: usize,
    /// Connections of one address.
    pub of_one: usize,
    /// Bytes of a body.
    pub body: usize,
    /// A client has this long for the head of a request, from the moment it may send one.
    pub head_within: Duration,
    /// And this long for its body.
    pub body_within: Duration,
}

/// A server at work. It stops when this is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    /// Dropped to stop it.
    _running: watch::Sender<()>,
}

/// The smallest buffer that there is for a head.
const HEAD_BYTES: usize = 8 << 10;
const HEADERS_MAX: usize = 32;
/// After a failed accept, such as with too many open files, wait a moment.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves `handler` in the runtime this is called in.
///
/// # Errors
/// The address cannot be listened on.
pub async fn start(
    address: SocketAddr,
    limits: Limits,
    handler: Arc<dyn Handler>,
) -> io::Result<Server> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    let (running, stopped) = watch::channel(());
    tokio::spawn(accept(listener, limits, handler, stopped));
    Ok(Server { address, _running: running })
}

async fn accept(
    listener: TcpListener,
    limits: Limits,
    handler: Arc<dyn Handler>,
    mut stopped: watch::Receiver<()>,
) {
    let open = Arc::new(Mutex::new(Open::default()));
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stopped.changed() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Some(place) = Place::take(&open, peer.ip(), &limits) else { continue };
        let (handler, mut stopped) = (Arc::clone(&handler), stopped.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = connection(stream, limits, handler) => {}
                _ = stopped.changed() => {}
            }
            drop(place);
        });
    }
}

async fn connection(stream: TcpStream, limits: Limits, handler: Arc<dyn Handler>) {
    // Answers are one small packet each.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let service = service_fn(move |request| {
        let handler = Arc::clone(&handler);
        async move { Ok::<_, Infallible>(answer(request, limits, handler.as_ref()).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_within)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    // Errors of a connection are the client's doing, and the client knows.
    drop(served.await);
}

async fn answer(
    request: Request<Incoming>,
    limits: Limits,
    handler: &dyn Handler,
) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let body = time::timeout(limits.body_within, Limited::new(body, limits.body).collect());
    let told = match body.await {
        Ok(Ok(body)) => handler.answer(&Asked {
            method: parts.method.as_str().to_owned(),
            path: parts.uri.path().to_owned(),
            headers: parts.headers,
            body: body.to_bytes(),
        }),
        Ok(Err(_)) => Told::words(400, &format!("a message of more than {} bytes", limits.body)),
        Err(_) => Told::words(408, "the message did not come in time"),
    };
    response(told)
}

fn response(told: Told) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(told.body));
    *response.status_mut() = StatusCode::from_u16(told.status).unwrap_or_default();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(told.kind));
    for (name, value) in told.headers {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&value)) {
            headers.insert(name, value);
        }
    }
    response
}

// === Connections ===

#[derive(Debug, Default)]
struct Open {
    all: usize,
    of: BTreeMap<IpAddr, usize>,
}

/// A connection that counts.
#[derive(Debug)]
struct Place {
    open: Arc<Mutex<Open>>,
    peer: IpAddr,
}

impl Place {
    fn take(open: &Arc<Mutex<Open>>, peer: IpAddr, limits: &Limits) -> Option<Self> {
        let mut counts = open.lock().unwrap_or_else(PoisonError::into_inner);
        let of_one = counts.of.get(&peer).copied().unwrap_or(0);
        if counts.all >= limits.connections || of_one >= limits.of_one {
            return None;
        }
        counts.all += 1;
        counts.of.insert(peer, of_one + 1);
        Some(Self { open: Arc::clone(open), peer })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all -= 1;
        match counts.of.get_mut(&self.peer) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => {
                counts.of.remove(&self.peer);
            }
        }
    }
}

// === impl Limits ===

impl Limits {
    /// For permits: every machine's agent may hold a connection.
    pub const PERMITS: Self = Self {
        connections: 16_384,
        of_one: 4096,
        body: walras_wire::vm::permit::BODY_MAX,
        // Agents ask at least every 15 s, and keep their connections.
        head_within: Duration::from_secs(60),
        body_within: Duration::from_secs(2),
    };
    /// For what one guest says to its agent.
    pub const GUEST: Self = Self {
        connections: 16,
        of_one: 16,
        body: walras_wire::vm::informant::BODY_MAX,
        head_within: Duration::from_secs(5),
        body_within: Duration::from_secs(2),
    };
    /// For people and Prometheus.
    pub const DUMP: Self = Self { body: 0, ..Self::GUEST };
}

// === impl Server ===

impl Server {
    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}
