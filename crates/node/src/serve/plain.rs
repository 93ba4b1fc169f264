//! A small server for programs that have no board: metrics, made when they are asked for, and
//! health.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::routing::get;

use super::guard::answer;
use super::{ServeError, Server, metrics, names_in_a_cluster, start_routes, text};

/// Serves what `made` makes at `/metrics`, and health at `/healthz`.
///
/// # Errors
/// The address cannot be listened on.
pub fn start_metrics(
    address: SocketAddr,
    made: impl Fn() -> String + Send + Sync + 'static,
) -> Result<Server, ServeError> {
    let made = Arc::new(made);
    let scrape = move || {
        let made = Arc::clone(&made);
        async move { answer(StatusCode::OK, metrics::CONTENT_TYPE, Body::from(made())) }
    };
    let routes = Router::new()
        .route("/metrics", get(scrape))
        .route("/healthz", get(|| async { text(StatusCode::OK, "ok\n") }));
    start_routes(routes, address, &names_in_a_cluster(address, "localhost"))
}
