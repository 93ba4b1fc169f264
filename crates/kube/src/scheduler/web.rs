//! What is served: `prioritize` for kube-scheduler, and for everybody else health, figures, nodes
//! and placements.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::{get, post};
use serde::Deserialize;
use tokio::time;
use walras_brain::features::{Criticality, PodFacts, Workload};
use walras_node::serve::{Probes, answer};
use walras_wire::placement::{NodesTold, PlacementsTold};
use walras_wire::state::Refusal;

use super::Shared;
use super::extender::prioritize;
use super::judge::points;
use super::metrics::Now;

/// The largest question: a pod can have a megabyte, and names of 20,000 nodes another.
const QUESTION_MAX: usize = 4 << 20;
/// How long a question may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(2);
const JSON: &str = "application/json";

/// What kube-scheduler asks.
pub(super) fn extender(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/prioritize", post(asked))
        .fallback(nothing_here)
        .method_not_allowed_fallback(nothing_here)
        .with_state(shared)
}

/// What everybody else may ask.
pub(super) fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/api/v1/nodes", get(nodes))
        .route("/api/v1/placements", get(placements))
        .with_state(Arc::clone(&shared))
        .merge(probes(shared).routes())
}

/// What probes ask: it lives as long as it answers, and is ready once it knows something.
pub(super) fn probes(shared: Arc<Shared>) -> Probes {
    Probes::new(
        || Ok(()),
        move || {
            if !shared.store.is_listed() {
                return Err("the nodes and pods of the cluster have not all been read yet".into());
            }
            let counts =
                shared.store.table().counts(shared.now_ms(), shared.judge.terms.stale_after);
            if counts.fresh == 0 {
                let all = counts.stale + counts.never;
                return Err(format!("none of {all} nodes has fresh telemetry; all are neutral"));
            }
            Ok(())
        },
    )
}

async fn asked(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    // What is announced as too much need not arrive first.
    let announced = request.headers().get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|it| it.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|announced| announced > QUESTION_MAX) {
        return too_large(&shared);
    }
    let body = time::timeout(ARRIVES_WITHIN, to_bytes(request.into_body(), QUESTION_MAX)).await;
    let body = match body {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return too_large(&shared),
        Err(_) => {
            shared.metrics.request_refused("too_slow");
            let why = "the question did not arrive within 2 s".to_owned();
            return refuse(StatusCode::REQUEST_TIMEOUT, why);
        }
    };
    let begun = Instant::now();
    let table = shared.store.table();
    let answered = prioritize(&shared.judge, &table, shared.mode, &body, shared.now_ms()).await;
    let took = begun.elapsed();
    match answered {
        Ok(answered) => {
            shared.metrics.answers.observe(took.as_secs_f64());
            shared.metrics.inference_ms.observe(answered.scoring.as_secs_f64() * 1e3);
            if let Some(placement) = answered.remembered {
                shared.memory.scored(placement);
            }
            answer(StatusCode::OK, JSON, Body::from(answered.body))
        }
        Err(bad) => {
            shared.metrics.request_refused("unreadable");
            refuse(StatusCode::BAD_REQUEST, bad.to_string())
        }
    }
}

fn too_large(shared: &Shared) -> Response {
    shared.metrics.request_refused("too_large");
    let why = format!("the question has more than {QUESTION_MAX} bytes, or ended half-way");
    let mut refused = refuse(StatusCode::PAYLOAD_TOO_LARGE, why);
    // The rest is not read.
    refused.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    refused
}

async fn nothing_here(request: Request) -> Response {
    let told = format!("{} {} is not served; POST /prioritize is", request.method(), request.uri());
    refuse(StatusCode::NOT_FOUND, told)
}

fn refuse(status: StatusCode, error: String) -> Response {
    answer(status, JSON, Body::from(serde_json::to_vec(&Refusal { error }).unwrap_or_default()))
}

/// A pod, as far as a model is concerned. What is not said is not known.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Shape {
    cpu_milli: u64,
    memory_bytes: u64,
    workload: String,
    criticality: String,
}

impl Shape {
    fn facts(&self) -> PodFacts {
        PodFacts {
            cpu_milli: self.cpu_milli,
            memory_bytes: self.memory_bytes,
            workload: Workload::named(&self.workload),
            criticality: Criticality::named(&self.criticality),
        }
    }
}

async fn nodes(State(shared): State<Arc<Shared>>, Query(shape): Query<Shape>) -> Response {
    let (table, now_ms) = (shared.store.table(), shared.now_ms());
    let names = table.rows().iter().map(|row| row.name.as_ref());
    let scored = shared.judge.score(&table, &shape.facts(), names, now_ms).await;
    told(&NodesTold {
        at_ms: now_ms,
        mode: shared.mode.name().to_owned(),
        model: shared.judge.model(),
        nodes: scored.iter().map(|one| one.told()).collect(),
    })
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Which {
    namespace: Option<String>,
    pod: Option<String>,
}

async fn placements(State(shared): State<Arc<Shared>>, Query(which): Query<Which>) -> Response {
    let one = match (&which.namespace, &which.pod) {
        (Some(namespace), Some(pod)) => Some((namespace.as_str(), pod.as_str())),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            let why = "namespace and pod: say both, or neither".to_owned();
            return refuse(StatusCode::BAD_REQUEST, why);
        }
    };
    let mut placements = shared.memory.told(one);
    placements.truncate(200);
    told(&PlacementsTold { at_ms: shared.now_ms(), placements })
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let (table, now_ms) = (shared.store.table(), shared.now_ms());
    let names = table.rows().iter().map(|row| row.name.as_ref());
    // What kube-scheduler assumes of a pod that requests nothing.
    let ordinary = PodFacts { cpu_milli: 100, memory_bytes: 200 << 20, ..PodFacts::default() };
    let scored = shared.judge.score(&table, &ordinary, names, now_ms).await;
    let now = Now {
        counts: table.counts(now_ms, shared.judge.terms.stale_after),
        estimates: shared.store.estimates(),
        breaker: shared.judge.breaker(),
        scores: scored.iter().map(|one| (one.name.to_owned(), points(one.placed.points))).collect(),
        resident: resident(),
    };
    match shared.metrics.text(&now) {
        Ok(figures) => answer(StatusCode::OK, OPEN_METRICS, Body::from(figures)),
        Err(_) => refuse(StatusCode::INTERNAL_SERVER_ERROR, "cannot be written".to_owned()),
    }
}

fn told(message: &impl serde::Serialize) -> Response {
    match serde_json::to_vec(message) {
        Ok(text) => answer(StatusCode::OK, JSON, Body::from(text)),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// What this process has in memory, in bytes; 0 where the system does not say.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
