//! The dashboard: a few files that are part of the program, so that nothing is fetched elsewhere.

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::http::{HeaderValue, header};
use axum::routing::get;

use super::guard::answer;

/// One file of a page.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Where it is asked for.
    pub path: &'static str,
    /// What it is.
    pub content_type: &'static str,
    /// What is in it.
    pub text: &'static str,
}

/// What a page is.
pub const PAGE: &str = "text/html; charset=utf-8";
/// What a style sheet is.
pub const STYLE: &str = "text/css; charset=utf-8";
/// What a script is.
pub const SCRIPT: &str = "text/javascript; charset=utf-8";

/// What every page of Walras looks like and is written with.
pub const LOOK: [Asset; 6] = [
    Asset { path: "/ui/style.css", content_type: STYLE, text: include_str!("../../ui/style.css") },
    Asset {
        path: "/ui/icon.svg",
        content_type: "image/svg+xml",
        text: include_str!("../../ui/icon.svg"),
    },
    Asset { path: "/ui/link.js", content_type: SCRIPT, text: include_str!("../../ui/link.js") },
    Asset { path: "/ui/page.js", content_type: SCRIPT, text: include_str!("../../ui/page.js") },
    Asset { path: "/ui/table.js", content_type: SCRIPT, text: include_str!("../../ui/table.js") },
    Asset { path: "/ui/words.js", content_type: SCRIPT, text: include_str!("../../ui/words.js") },
];

const DASHBOARD: [Asset; 6] = [
    Asset { path: "/", content_type: PAGE, text: include_str!("../../ui/index.html") },
    Asset { path: "/ui/app.js", content_type: SCRIPT, text: include_str!("../../ui/app.js") },
    Asset { path: "/ui/node.js", content_type: SCRIPT, text: include_str!("../../ui/node.js") },
    Asset { path: "/ui/pods.js", content_type: SCRIPT, text: include_str!("../../ui/pods.js") },
    Asset { path: "/ui/plot.js", content_type: SCRIPT, text: include_str!("../../ui/plot.js") },
    Asset {
        path: "/ui/workloads.js",
        content_type: SCRIPT,
        text: include_str!("../../ui/workloads.js"),
    },
];

/// The dashboard of a node.
pub(super) fn routes() -> Router {
    pages(LOOK.into_iter().chain(DASHBOARD))
}

/// What answers to each path of `assets`.
pub fn pages(assets: impl IntoIterator<Item = Asset>) -> Router {
    assets.into_iter().fold(Router::new(), |router, asset| {
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
