//! Accepts connections and serves them, within bounds, until told to stop.
//!
//! A connection past the limit waits in the kernel's queue until another one ends. A client has a
//! few seconds to say what it wants, and a connection ends after some minutes in any case, so that
//! nobody can hold on to one for ever; a dashboard reconnects by itself.

use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time;

/// So many connections are served at once.
const CONNECTIONS_MAX: usize = 128;
/// A client has this long to send its request line and headers.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// A connection lasts no longer.
const CONNECTION_MAX: Duration = Duration::from_secs(20 * 60);
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
pub(super) async fn accept(listener: StdListener, router: Router, stopped: oneshot::Receiver<()>) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    let (tell_streams, stopping) = watch::channel(false);
    let router = router.layer(axum::Extension(Stopping(stopping)));
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let graceful = GracefulShutdown::new();
    let mut stopped = stopped;
    loop {
        let next = next(&listener, &places);
        let (stream, place) = tokio::select! {
            biased;
            _ = &mut stopped => break,
            next = next => next,
        };
        let connection = connection(stream, router.clone());
        let watched = graceful.watch(connection);
        tokio::spawn(async move {
            // Errors of a connection are the client's doing, and the client knows.
            time::timeout(CONNECTION_MAX, watched).await.ok();
            drop(place);
        });
    }
    tell_streams.send(true).ok();
    time::timeout(STOP_WITHIN, graceful.shutdown()).await.ok();
}

/// The next connection, once there is a place for it.
async fn next(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    let place = Arc::clone(places).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            Err(_) => time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

fn connection(
    stream: TcpStream,
    router: Router,
) -> http1::Connection<TokioIo<TcpStream>, TowerToHyperService<Router>> {
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(HEADERS_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
}

// === impl Stopping ===

impl Stopping {
    /// Resolves when the server stops.
    pub(super) async fn told(&mut self) {
        self.0.wait_for(|stopping| *stopping).await.ok();
    }
}
