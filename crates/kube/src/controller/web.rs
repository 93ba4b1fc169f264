//! What the controller serves: health, readiness, metrics, and a page of the whole cluster.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use walras_core::units::Span;
use walras_node::serve::{Asset, LOOK, MadeOnce, PAGE, Probes, SCRIPT, STYLE, answer, pages};

use super::Shared;
use super::metrics::CONTENT_TYPE;
use super::state::state;

/// A loop that has not turned for so long is stuck.
const STUCK: Span = Span::from_s(30);

/// What is asked for by many, and is large.
#[derive(Clone, Debug)]
struct Told {
    shared: Arc<Shared>,
    cluster: Arc<MadeOnce>,
    metrics: Arc<MadeOnce>,
}

/// All paths.
pub(super) fn routes(shared: Arc<Shared>) -> Router {
    let asset = |path, content_type, text| Asset { path, content_type, text };
    let page = [
        asset("/", PAGE, include_str!("../../ui/index.html")),
        asset("/ui/cluster.css", STYLE, include_str!("../../ui/cluster.css")),
        asset("/ui/cluster.js", SCRIPT, include_str!("../../ui/cluster.js")),
        asset("/ui/standing.js", SCRIPT, include_str!("../../ui/standing.js")),
    ];
    let told =
        Told { shared: Arc::clone(&shared), cluster: Arc::default(), metrics: Arc::default() };
    Router::new()
        .route("/api/v1/cluster", get(cluster))
        .route("/metrics", get(metrics))
        .with_state(told)
        .merge(probes(shared).routes())
        .merge(pages(LOOK.into_iter().chain(page)))
}

/// What probes ask.
pub(super) fn probes(shared: Arc<Shared>) -> Probes {
    let turning = Arc::clone(&shared);
    Probes::new(
        move || {
            let still = turning.clock.now().since(turning.last_beat());
            if still > STUCK { Err(format!("stuck for {still}")) } else { Ok(()) }
        },
        move || {
            let unread = || "the objects of the cluster have not all been read yet".to_owned();
            shared.store.is_synced().then_some(()).ok_or_else(unread)
        },
    )
}

async fn cluster(State(told): State<Told>) -> Response {
    match told.cluster.get(|| serde_json::to_vec(&state(&told.shared))) {
        Ok(cluster) => answer(StatusCode::OK, "application/json", Body::from(cluster)),
        Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "cannot be written\n".to_owned()),
    }
}

async fn metrics(State(told): State<Told>) -> Response {
    let shared = &told.shared;
    let made = told.metrics.get(|| {
        let now = shared.clock.now();
        let acts = shared.leadership.acts_until(now).is_some();
        if let Some(collecting) = &shared.collecting {
            shared.metrics.collected(collecting.counts());
        }
        shared.metrics.text(shared.store.figures(now), shared.queue.len(), acts)
    });
    match made {
        Ok(figures) => answer(StatusCode::OK, CONTENT_TYPE, Body::from(figures)),
        Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, "cannot be written\n".to_owned()),
    }
}

fn text(status: StatusCode, told: String) -> Response {
    answer(status, "text/plain; charset=utf-8", Body::from(told))
}
