//! What programs ask: health, metrics, and the node's state as JSON, once or as a stream.
//!
//! The state is made at most twice a second, however many ask for it.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{self, Interval, MissedTickBehavior};

use super::guard::{answer, json, refuse};
use super::listen::Stopping;
use super::metrics;
use crate::board::{Board, Health};

/// So many clients may watch the stream at once.
const STREAMS_MAX: usize = 32;
/// A stream sends the state this often.
const STREAM_EVERY: Duration = Duration::from_secs(1);
/// A stream ends after so many events; whoever still looks asks again.
const STREAM_EVENTS_MAX: u32 = 900;
/// A state that was made this lately is good enough for the next one who asks.
const FRESH: Duration = Duration::from_millis(500);
/// Text around the state that makes it an event.
const EVENT: (&str, &str) = ("data: ", "\n\n");

/// What the handlers share.
#[derive(Debug)]
struct Api {
    board: Arc<Board>,
    /// The last state that was made, as an event, and when.
    made: Mutex<Option<(Instant, Bytes)>>,
    streams: Arc<Semaphore>,
}

/// The query of `/api/v1/history`.
#[derive(Debug, serde::Deserialize)]
struct Whose {
    uid: Option<String>,
}

/// Everything except the pages.
pub(super) fn routes(board: Arc<Board>) -> Router {
    let streams = Arc::new(Semaphore::new(STREAMS_MAX));
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(scrape))
        .route("/api/v1/state", get(state))
        .route("/api/v1/pods/{uid}", get(pod))
        .route("/api/v1/history", get(history))
        .route("/api/v1/stream", get(watch))
        .with_state(Arc::new(Api { board, made: Mutex::new(None), streams }))
}

/// Whether the loop still ticks.
async fn healthz(State(api): State<Arc<Api>>) -> Response {
    match api.board.health() {
        Health::Fine => text(StatusCode::OK, "ok\n"),
        sick @ (Health::NeverTicked | Health::Late(_)) => {
            text(StatusCode::SERVICE_UNAVAILABLE, format!("{sick}\n"))
        }
    }
}

/// Whether the market was cleared, so that what is told means something.
async fn readyz(State(api): State<Arc<Api>>) -> Response {
    match api.board.waits_for() {
        Some(what) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{what}\n")),
        None => text(StatusCode::OK, "ok\n"),
    }
}

async fn scrape(State(api): State<Arc<Api>>) -> Response {
    match metrics::text(api.board.state(), api.board.tally()) {
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

async fn pod(State(api): State<Arc<Api>>, Path(uid): Path<String>) -> Response {
    match api.board.explain(&uid) {
        Ok(explanation) => json(StatusCode::OK, &explanation),
        Err(error) => refuse(StatusCode::NOT_FOUND, error.to_string()),
    }
}

async fn history(State(api): State<Arc<Api>>, Query(whose): Query<Whose>) -> Response {
    match api.board.history(whose.uid.as_deref()) {
        Ok(history) => json(StatusCode::OK, &history),
        Err(error) => refuse(StatusCode::NOT_FOUND, error.to_string()),
    }
}

async fn watch(State(api): State<Arc<Api>>, Extension(stopping): Extension<Stopping>) -> Response {
    let Ok(place) = Arc::clone(&api.streams).try_acquire_owned() else {
        return refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{STREAMS_MAX} others watch already; ask for /api/v1/state instead"),
        );
    };
    let mut every = time::interval(STREAM_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let watcher = Watcher { api, stopping, every, left: STREAM_EVENTS_MAX, _place: place };
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

fn text(status: StatusCode, text: impl Into<Body>) -> Response {
    answer(status, "text/plain; charset=utf-8", text.into())
}

/// Somebody who watches.
struct Watcher {
    api: Arc<Api>,
    stopping: Stopping,
    every: Interval,
    left: u32,
    _place: OwnedSemaphorePermit,
}

// === impl Watcher ===

impl Watcher {
    async fn next(&mut self) -> Option<Bytes> {
        self.left = self.left.checked_sub(1)?;
        tokio::select! {
            biased;
            () = self.stopping.told() => None,
            _ = self.every.tick() => Some(self.api.event()),
        }
    }
}

// === impl Api ===

impl Api {
    /// The state as an event of a stream.
    fn event(&self) -> Bytes {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, event)) = &*made
            && at.elapsed() < FRESH
        {
            return event.clone();
        }
        let state = serde_json::to_string(&self.board.state()).unwrap_or_default();
        let event = Bytes::from(format!("{}{state}{}", EVENT.0, EVENT.1));
        *made = Some((Instant::now(), event.clone()));
        event
    }
}
