//! Accepts connections and serves them, within bounds, until told to stop.
//!
//! A connection never waits for a place: which one has to go when there are too many is in `peers`.
//! A client has a few seconds to say what it wants and to read what it is told, and a connection
//! ends after some minutes in any case; a dashboard reconnects by itself.

use std::net::TcpListener as StdListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::time;

use super::hasty::Hasty;
use super::peers::{Peer, Peers, Room};

/// What a server grants its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// How many connections there may be.
    pub(super) room: Room,
    /// A client has this long to send its request line and headers, also the next ones on the same
    /// connection.
    pub(super) headers_within: Duration,
    /// It has to read something of an answer within this.
    pub(super) read_within: Duration,
    /// A connection lasts no longer.
    pub(super) life: Duration,
    /// Whether a connection is for more than one request.
    pub(super) keep_alive: bool,
}

/// Request line and headers may have this many bytes, and this many headers.
const HEADERS_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// After a failed accept, such as with too many open files, wait a moment.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Answers that are on their way have this long to arrive once the server is stopped.
const STOP_WITHIN: Duration = Duration::from_secs(1);

/// Told to streams, so that they end when the server does.
#[derive(Clone, Debug)]
pub(super) struct Stopping(watch::Receiver<bool>);

/// Serves until `stopped` resolves, which it also does when its sender is dropped.
pub(super) async fn accept(
    listener: StdListener,
    router: Router,
    bounds: Bounds,
    stopped: oneshot::Receiver<()>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    let (tell_streams, stopping) = watch::channel(false);
    let router = router.layer(axum::Extension(Stopping(stopping)));
    let peers = Arc::new(Mutex::new(Peers::new(bounds.room)));
    let graceful = GracefulShutdown::new();
    let mut stopped = stopped;
    loop {
        let (stream, peer) = tokio::select! {
            biased;
            _ = &mut stopped => break,
            next = next(&listener) => next,
        };
        let (end, ended) = oneshot::channel::<()>();
        // A connection that has to go is told so by its sender being dropped.
        let (number, _) = lock(&peers).came(peer, end);
        let router = router.clone().layer(axum::Extension(peer));
        let connection = graceful.watch(connection(stream, router, bounds));
        let peers = Arc::clone(&peers);
        tokio::spawn(async move {
            // Errors of a connection are the client's doing, and the client knows.
            tokio::select! {
                _ = time::timeout(bounds.life, connection) => {}
                _ = ended => {}
            }
            lock(&peers).went(number);
        });
    }
    tell_streams.send(true).ok();
    time::timeout(STOP_WITHIN, graceful.shutdown()).await.ok();
}

/// The next connection.
async fn next(listener: &TcpListener) -> (TcpStream, Peer) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => return (stream, Peer::of(address.ip())),
            Err(_) => time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

fn connection(
    stream: TcpStream,
    router: Router,
    bounds: Bounds,
) -> http1::Connection<TokioIo<Hasty<TcpStream>>, TowerToHyperService<Router>> {
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.headers_within)
        .keep_alive(bounds.keep_alive)
        .max_buf_size(HEADERS_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(
            TokioIo::new(Hasty::new(stream, bounds.read_within)),
            TowerToHyperService::new(router),
        )
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Bounds ===

impl Bounds {
    /// For dashboards, metrics and programs.
    pub(super) const USUAL: Self = Self {
        room: Room { of_one: 48, of_all: 128 },
        headers_within: Duration::from_secs(5),
        read_within: Duration::from_secs(10),
        life: Duration::from_secs(20 * 60),
        keep_alive: true,
    };
    /// For probes, which ask one short question.
    pub(super) const PROBES: Self = Self {
        room: Room { of_one: 8, of_all: 64 },
        headers_within: Duration::from_secs(2),
        read_within: Duration::from_secs(2),
        life: Duration::from_secs(5),
        keep_alive: false,
    };
}

// === impl Stopping ===

impl Stopping {
    /// Resolves when the server stops.
    pub(super) async fn told(&mut self) {
        self.0.wait_for(|stopping| *stopping).await.ok();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream as Client};

    use axum::routing::get;

    use super::super::start_within;
    use super::*;

    const FOREVER: Duration = Duration::from_secs(3600);

    /// A server with room for three connections, who may take their time.
    fn served() -> super::super::Server {
        let bounds = Bounds {
            room: Room { of_one: 3, of_all: 3 },
            headers_within: FOREVER,
            read_within: FOREVER,
            life: FOREVER,
            keep_alive: false,
        };
        let routes = Router::new().route("/", get(|| async { "here" }));
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        start_within(routes, listen, &[], bounds).unwrap()
    }

    #[test]
    fn who_comes_when_all_places_are_held_is_served_and_the_oldest_goes() {
        let server = served();
        let open = || {
            let client = Client::connect(server.address()).unwrap();
            client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            client
        };
        let mut held: Vec<Client> = (0..3).map(|_| open()).collect();
        for client in &mut held {
            client.write_all(b"GET / HTTP/1.1\r\nHost: loc").unwrap();
        }
        let mut client = open();
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("here"), "{answer}");
        // The oldest one was closed, and the next goes on where it was.
        assert_eq!(held[0].read(&mut [0; 16]).unwrap_or(0), 0);
        held[1].write_all(b"alhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        held[1].read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}
