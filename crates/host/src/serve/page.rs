//! The dashboard: a few files that are part of the program, so that nothing is fetched elsewhere.

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::http::{HeaderValue, header};
use axum::routing::get;

use super::guard::answer;

/// One file of the dashboard.
#[derive(Clone, Copy, Debug)]
struct Asset {
    path: &'static str,
    content_type: &'static str,
    text: &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

const ASSETS: [Asset; 8] = [
    Asset {
        path: "/",
        content_type: "text/html; charset=utf-8",
        text: include_str!("../../ui/index.html"),
    },
    Asset {
        path: "/ui/style.css",
        content_type: "text/css; charset=utf-8",
        text: include_str!("../../ui/style.css"),
    },
    Asset {
        path: "/ui/icon.svg",
        content_type: "image/svg+xml",
        text: include_str!("../../ui/icon.svg"),
    },
    Asset { path: "/ui/app.js", content_type: SCRIPT, text: include_str!("../../ui/app.js") },
    Asset { path: "/ui/link.js", content_type: SCRIPT, text: include_str!("../../ui/link.js") },
    Asset { path: "/ui/pods.js", content_type: SCRIPT, text: include_str!("../../ui/pods.js") },
    Asset { path: "/ui/plot.js", content_type: SCRIPT, text: include_str!("../../ui/plot.js") },
    Asset { path: "/ui/words.js", content_type: SCRIPT, text: include_str!("../../ui/words.js") },
];

/// The pages.
pub(super) fn routes() -> Router {
    ASSETS.into_iter().fold(Router::new(), |router, asset| {
        router.route(
            asset.path,
            get(move || async move {
                let mut response =
                    answer(StatusCode::OK, asset.content_type, Body::from(asset.text));
                // Asked for again each time, so that a new daemon never meets an old page.
                let fresh = HeaderValue::from_static("no-cache");
                response.headers_mut().insert(header::CACHE_CONTROL, fresh);
                response
            }),
        )
    })
}
