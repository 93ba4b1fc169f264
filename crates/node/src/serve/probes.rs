//! Health and readiness on a listener of their own, so that a client that fills the other one with
//! connections does not make the program look dead.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;

use super::listen::Bounds;
use super::{ServeError, Server, guard, start_within, text};
use crate::board::{Board, Health};

/// What a probe asks: nothing is wrong, or this is.
type Question = dyn Fn() -> Result<(), String> + Send + Sync;

/// What probes ask about a program.
#[derive(Clone)]
pub struct Probes {
    healthy: Arc<Question>,
    ready: Arc<Question>,
}

/// Starts to answer probes on `address`, at `/healthz` and `/readyz`, by whatever name they ask.
/// When this returns, connections are accepted.
pub fn start_probes(probes: &Probes, address: SocketAddr) -> Result<Server, ServeError> {
    start_within(probes.routes(), address, &[guard::ANY_NAME.to_owned()], Bounds::PROBES)
}

// === impl Probes ===

impl Probes {
    /// Probes that these answer: whether it lives, and whether what it tells means something. Each
    /// says what is wrong.
    pub fn new(
        healthy: impl Fn() -> Result<(), String> + Send + Sync + 'static,
        ready: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { healthy: Arc::new(healthy), ready: Arc::new(ready) }
    }

    /// Probes of the loop that writes to `board`.
    #[must_use]
    pub fn of(board: &Arc<Board>) -> Self {
        let (health, readiness) = (Arc::clone(board), Arc::clone(board));
        Self::new(
            move || match health.health() {
                Health::Fine => Ok(()),
                sick @ (Health::NeverTicked | Health::Late(_)) => Err(sick.to_string()),
            },
            move || readiness.waits_for().map_or(Ok(()), |what| Err(what.to_owned())),
        )
    }

    /// Their paths, to be served beside others.
    pub fn routes(&self) -> Router {
        let answer_to = |question: &Arc<Question>| {
            let question = Arc::clone(question);
            get(move || async move { told(question()) })
        };
        Router::new()
            .route("/healthz", answer_to(&self.healthy))
            .route("/readyz", answer_to(&self.ready))
    }
}

impl fmt::Debug for Probes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probes").finish_non_exhaustive()
    }
}

fn told(answer: Result<(), String>) -> Response {
    match answer {
        Ok(()) => text(StatusCode::OK, "ok\n"),
        Err(what) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{what}\n")),
    }
}
