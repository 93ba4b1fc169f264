//! What programs ask: metrics, and the node's state as JSON, once or as a stream.
//!
//! What is large is made at most twice a second, however many ask for it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Extension, Router};
use futures_util::stream;
use tokio::task;
use tokio::time::{self, Interval, MissedTickBehavior};

use super::guard::{answer, json, refuse};
use super::listen::Stopping;
use super::peers::{Peer, Peers, Room};
use super::{MadeOnce, metrics, text};
use crate::beside::joined;
use crate::board::{Board, LookupError};

/// So many clients may watch the stream at once, and of one peer so many.
const STREAMS: Room = Room { of_one: 16, of_all: 32 };
/// A stream sends the state this often.
const STREAM_EVERY: Duration = Duration::from_secs(1);
/// A stream ends after so many events; a client that still looks asks again.
const STREAM_EVENTS_MAX: u32 = 900;
/// Text around the state that makes it an event.
const EVENT: (&str, &str) = ("data: ", "\n\n");
/// Where nobody looks at the node.
const NO_TELEMETRY: &str = "there are no figures of this node: telemetry is switched off, or has \
                            only just started";

/// What the handlers share.
#[derive(Debug)]
struct Api {
    board: Arc<Board>,
    /// The last state that was made, as an event.
    event: MadeOnce,
    metrics: MadeOnce,
    /// The last hour of the whole node.
    hour: MadeOnce,
    /// Who watches the stream.
    streams: Mutex<Peers<()>>,
}

/// The query of `/api/v1/history`.
#[derive(Debug, serde::Deserialize)]
struct Whose {
    uid: Option<String>,
}

/// Everything except the pages.
pub(super) fn routes(board: Arc<Board>) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .route("/api/v1/state", get(state))
        .route("/api/v1/pods/{uid}", get(workload))
        .route("/api/v1/history", get(history))
        .route("/api/v1/stream", get(watch))
        .route("/api/v1/telemetry", get(telemetry))
        .route("/api/v1/workloads", get(workloads))
        .route("/api/v1/workloads/{id}/logs", get(workload_logs))
        .with_state(Arc::new(Api::new(board)))
}

async fn scrape(State(api): State<Arc<Api>>) -> Response {
    let made = || {
        let own = metrics::text(api.board.state(), api.board.tally(), api.board.telemetry())?;
        let beside = api.board.beside().map(|beside| beside.metrics());
        Ok::<_, std::fmt::Error>(beside.map_or(own.clone(), |more| joined(&own, &more)))
    };
    match api.metrics.get(made) {
        Ok(text) => answer(StatusCode::OK, metrics::CONTENT_TYPE, Body::from(text)),
        Err(error) => {
            refuse(StatusCode::INTERNAL_SERVER_ERROR, format!("no metrics were made: {error}"))
        }
    }
}

async fn state(State(api): State<Arc<Api>>) -> Response {
    let event = api.event();
    let state = event.slice(EVENT.0.len()..event.len() - EVENT.1.len());
    answer(StatusCode::OK, "application/json", Body::from(state))
}

async fn workload(State(api): State<Arc<Api>>, Path(uid): Path<String>) -> Response {
    match api.board.explain(&uid) {
        Ok(explanation) => json(StatusCode::OK, &explanation),
        Err(error) => refuse(StatusCode::NOT_FOUND, error.to_string()),
    }
}

async fn history(State(api): State<Arc<Api>>, Query(whose): Query<Whose>) -> Response {
    let written = |uid: Option<&str>| {
        let history = api.board.history(uid)?;
        Ok::<_, LookupError>(serde_json::to_vec(&history).unwrap_or_default())
    };
    let history = match whose.uid.as_deref() {
        Some(uid) => written(Some(uid)).map(Bytes::from),
        None => api.hour.get(|| written(None)),
    };
    match history {
        Ok(history) => answer(StatusCode::OK, "application/json", Body::from(history)),
        Err(error) => refuse(StatusCode::NOT_FOUND, error.to_string()),
    }
}

async fn telemetry(State(api): State<Arc<Api>>) -> Response {
    match api.board.telemetry() {
        Some(told) => json(StatusCode::OK, &told),
        None => refuse(StatusCode::NOT_FOUND, NO_TELEMETRY.to_owned()),
    }
}

async fn workloads(State(api): State<Arc<Api>>) -> Response {
    match api.board.beside() {
        Some(beside) => answer(StatusCode::OK, "application/json", Body::from(beside.workloads())),
        // Not an error: most daemons run none, and browsers complain of errors.
        None => StatusCode::NO_CONTENT.into_response(),
    }
}

async fn workload_logs(State(api): State<Arc<Api>>, Path(id): Path<String>) -> Response {
    let beside = api.board.beside().map(Arc::clone);
    // It may take a moment, and others are served by this thread as well.
    let asked = task::spawn_blocking(move || beside.and_then(|beside| beside.logs(&id)));
    match asked.await {
        Ok(Some(lines)) => text(StatusCode::OK, lines),
        Ok(None) | Err(_) => refuse(StatusCode::NOT_FOUND, "there is no such workload".to_owned()),
    }
}

async fn watch(
    State(api): State<Arc<Api>>,
    Extension(stopping): Extension<Stopping>,
    Extension(peer): Extension<Peer>,
) -> Response {
    let Some(place) = Place::take(&api, peer) else {
        let Room { of_one, of_all } = STREAMS;
        return refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            format!(
                "{of_all} others watch already, or {of_one} from your address; ask for \
                 /api/v1/state instead"
            ),
        );
    };
    let mut every = time::interval(STREAM_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watcher = Watcher { place, stopping, every, left: STREAM_EVENTS_MAX };
    let events = stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await?;
        Some((Ok::<_, Infallible>(event), watcher))
    });
    let mut response = answer(StatusCode::OK, "text/event-stream", Body::from_stream(events));
    // Proxies that would hold back a stream are told not to.
    response.headers_mut().insert(
        header::HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response
}

/// A client that watches.
struct Watcher {
    place: Place,
    stopping: Stopping,
    every: Interval,
    left: u32,
}

/// A place among those who watch, until this value goes.
struct Place {
    api: Arc<Api>,
    number: u64,
}

// === impl Watcher ===

impl Watcher {
    async fn next(&mut self) -> Option<Bytes> {
        self.left = self.left.checked_sub(1)?;
        tokio::select! {
            biased;
            () = self.stopping.told() => None,
            _ = self.every.tick() => Some(self.place.api.event()),
        }
    }
}

// === impl Place ===

impl Place {
    /// A place for `peer`, if there is one.
    fn take(api: &Arc<Api>, peer: Peer) -> Option<Self> {
        let mut streams = api.streams();
        let number = streams.has_room_for(peer).then(|| streams.came(peer, ()).0)?;
        Some(Self { api: Arc::clone(api), number })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.api.streams().went(self.number);
    }
}

// === impl Api ===

impl Api {
    fn new(board: Arc<Board>) -> Self {
        let made = MadeOnce::default;
        let streams = Mutex::new(Peers::new(STREAMS));
        Self { board, event: made(), metrics: made(), hour: made(), streams }
    }

    fn streams(&self) -> MutexGuard<'_, Peers<()>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state as an event of a stream.
    fn event(&self) -> Bytes {
        let made = self.event.get(|| {
            let state = serde_json::to_string(&self.board.state()).unwrap_or_default();
            Ok::<_, Infallible>(format!("{}{state}{}", EVENT.0, EVENT.1))
        });
        made.unwrap_or_else(|never| match never {})
    }
}
