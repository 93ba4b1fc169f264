//! The HTTP server of a node daemon: dashboard, health, metrics, and a JSON API to look at.
//!
//! It runs in a thread of its own and only ever reads the board: nothing can be changed by a
//! request. Everything is bounded: connections, of all and of each peer, streams, headers, and how
//! long a client may take to ask and to read. Large answers are made once for all who ask.
//! Requests that a web page from elsewhere tricked a browser into are refused by their `Host`.

mod api;
mod figures;
mod guard;
mod hasty;
mod listen;
mod made;
mod metrics;
mod page;
mod peers;
mod plain;
mod probes;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use tokio::runtime;
use tokio::sync::oneshot;

use crate::board::Board;

use self::listen::Bounds;

pub use self::guard::answer;
pub use self::made::MadeOnce;
pub use self::page::{Asset, LOOK, PAGE, SCRIPT, STYLE, pages};
pub use self::plain::start_metrics;
pub use self::probes::{Probes, start_probes};

/// Where to listen, and who may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeSettings {
    /// The address; port 0 is any free one.
    pub listen: SocketAddr,
    /// Names by which this machine may be asked for, beside `localhost`, its own name and plain
    /// addresses.
    pub names: Vec<String>,
}

/// What a program in a cluster may be asked for by, when it listens on `listen`.
///
/// On an address that others can reach, any name: it has those of services, and the API server asks
/// by its own. Whose requests arrive is for network policies to say. On loopback, only `name`, so
/// that no page in a browser of this machine can ask.
#[must_use]
pub fn names_in_a_cluster(listen: SocketAddr, name: &str) -> Vec<String> {
    let name = if listen.ip().is_loopback() { name } else { guard::ANY_NAME };
    vec![name.to_owned()]
}

/// A server at work. It stops when dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another process listens there.
    #[error(
        "cannot listen on {address}: another program already does; is a daemon of Walras running? \
         Choose another address with --listen"
    )]
    InUse {
        /// The address.
        address: SocketAddr,
    },
    /// Ports below 1024 are for root.
    #[error("cannot listen on {address}: not permitted; choose a port above 1023 with --listen")]
    NotPermitted {
        /// The address.
        address: SocketAddr,
    },
    /// The address is not one of this machine.
    #[error("cannot listen on {address}: this machine has no such address")]
    NotHere {
        /// The address.
        address: SocketAddr,
    },
    /// Anything else.
    #[error("cannot listen on {address}: {error}")]
    Other {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
}

/// Starts to serve `board`. When this returns, connections are accepted.
pub fn start(board: Arc<Board>, settings: &ServeSettings) -> Result<Server, ServeError> {
    let names: Vec<String> = settings.names.iter().cloned().chain([board.host()]).collect();
    let probes = Probes::of(&board).routes();
    let routes = page::routes().merge(probes).merge(api::routes(board));
    start_routes(routes, settings.listen, &names)
}

/// Starts to serve `routes` on `address`, with the same bounds and checks, by whatever of `names`
/// it is asked for. When this returns, connections are accepted.
pub fn start_routes(
    routes: Router,
    address: SocketAddr,
    names: &[String],
) -> Result<Server, ServeError> {
    start_within(routes, address, names, Bounds::USUAL)
}

/// The same within these bounds.
fn start_within(
    routes: Router,
    address: SocketAddr,
    names: &[String],
    bounds: Bounds,
) -> Result<Server, ServeError> {
    let refused = |error: io::Error| ServeError::new(address, error);
    let listener = TcpListener::bind(address).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(refused)?;
    let router = guard::guarded(routes, names);
    let (stop, stopped) = oneshot::channel();
    let serve = move || runtime.block_on(listen::accept(listener, router, bounds, stopped));
    let thread = thread::Builder::new().name("walras-serve".into()).spawn(serve);
    Ok(Server { address: bound, stop: Some(stop), thread: Some(thread.map_err(refused)?) })
}

/// An answer in plain words.
fn text(status: StatusCode, text: impl Into<Body>) -> Response {
    answer(status, "text/plain; charset=utf-8", text.into())
}

// === impl Server ===

impl Server {
    /// The address it listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops: lets answers that are on their way arrive, for a moment, and ends streams.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A server that panicked has told so already, and there is nothing left to stop.
            thread.join().ok();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

// === impl ServeError ===

impl ServeError {
    fn new(address: SocketAddr, error: io::Error) -> Self {
        let kind = error.kind();
        if kind == io::ErrorKind::AddrInUse {
            Self::InUse { address }
        } else if kind == io::ErrorKind::PermissionDenied {
            Self::NotPermitted { address }
        } else if kind == io::ErrorKind::AddrNotAvailable {
            Self::NotHere { address }
        } else {
            Self::Other { address, error }
        }
    }
}
