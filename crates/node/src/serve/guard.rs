//! What holds for every request and every answer, whatever its path.
//!
//! Only GET and HEAD are served, without bodies. The `Host` must be an address, `localhost`, or a
//! name this server was told: a page from elsewhere that points its own name at this machine is
//! refused. Answers forbid everything that the dashboard does not need.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{self, HeaderName};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::Response;
use walras_wire::state::Refusal;

/// What an answer tells a browser.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Among the names of a server: it may be asked for by any.
pub(super) const ANY_NAME: &str = "*";

/// `routes` behind the checks.
pub(super) fn guarded(routes: Router, names: &[String]) -> Router {
    let names: Arc<[String]> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
    routes.fallback(nothing_here).layer(middleware::from_fn(move |request, next| {
        let names = Arc::clone(&names);
        async move { check(request, next, &names).await }
    }))
}

/// An answer that something is wrong.
pub(super) fn refuse(status: StatusCode, error: impl Into<String>) -> Response {
    json(status, &Refusal { error: error.into() })
}

/// An answer in JSON.
pub(super) fn json(status: StatusCode, message: &impl serde::Serialize) -> Response {
    let text = serde_json::to_vec(message).unwrap_or_default();
    answer(status, "application/json", Body::from(text))
}

/// An answer of any type.
#[must_use]
pub fn answer(status: StatusCode, content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

async fn nothing_here(request: Request) -> Response {
    let path = request.uri().path();
    refuse(StatusCode::NOT_FOUND, format!("there is nothing at {path}; the dashboard is at /"))
}

async fn check(request: Request, next: Next, names: &[String]) -> Response {
    let mut response = match refusal(&request, names) {
        Some(refused) => refused,
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

fn refusal(request: &Request, names: &[String]) -> Option<Response> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut refused = refuse(
            StatusCode::METHOD_NOT_ALLOWED,
            format!("{} is not served here; nothing can be changed by HTTP", request.method()),
        );
        refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(refused);
    }
    if has_body(request) {
        // It would not be read, so the connection ends before it is sent.
        let mut refused =
            refuse(StatusCode::PAYLOAD_TOO_LARGE, "a request must not have a body here");
        refused.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return Some(refused);
    }
    let hosts = request.headers().get_all(header::HOST);
    let mut hosts = hosts.iter().map(|host| host.to_str().unwrap_or_default());
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if is_ours(host, names) => None,
        (Some(host), None) => Some(refuse(
            StatusCode::MISDIRECTED_REQUEST,
            format!("{host} is not a name of this server; ask for its address, or localhost"),
        )),
        (None, _) | (_, Some(_)) => {
            Some(refuse(StatusCode::BAD_REQUEST, "a request needs one Host header"))
        }
    }
}

fn has_body(request: &Request) -> bool {
    let headers = request.headers();
    let empty = |length: &HeaderValue| length.as_bytes() == b"0";
    headers.contains_key(header::TRANSFER_ENCODING)
        || headers.get(header::CONTENT_LENGTH).is_some_and(|length| !empty(length))
}

/// Whether `host`, with or without a port, is a name of this server. Addresses always are: a name
/// can be made to point anywhere, an address cannot.
fn is_ours(host: &str, names: &[String]) -> bool {
    if let Some((inside, rest)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return inside.parse::<Ipv6Addr>().is_ok() && is_port(rest);
    }
    let (name, port) = match host.find(':') {
        Some(colon) => host.split_at(colon),
        None => (host, ""),
    };
    let name = name.to_ascii_lowercase();
    let ours = name == "localhost"
        || name.parse::<IpAddr>().is_ok()
        || names.iter().any(|known| *known == name || known == ANY_NAME);
    ours && is_port(port)
}

/// Whether `text` is nothing, or a colon and a port.
fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_cluster_any_name_is_ours_unless_it_listens_on_loopback() {
        let names = |listen: &str| super::super::names_in_a_cluster(listen.parse().unwrap(), "n1");
        assert!(is_ours("walras-agent.mbcas-system.svc:8082", &names("0.0.0.0:8082")));
        assert!(is_ours("n1", &names("127.0.0.1:8082")));
        assert!(!is_ours("walras-agent.mbcas-system.svc", &names("127.0.0.1:8082")));
        assert!(!is_ours("api.example:x", &names("10.0.0.1:8082")), "not a port");
    }

    #[test]
    fn a_host_is_ours_if_it_cannot_be_pointed_here_by_somebody_else() {
        let names = ["node-7".to_owned()];
        for host in [
            "localhost",
            "LOCALHOST:8082",
            "127.0.0.1:8082",
            "10.1.2.3",
            "[::1]:8082",
            "[::1]",
            "node-7:1",
            "NODE-7",
        ] {
            assert!(is_ours(host, &names), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:8082",
            "localhost.evil.example",
            "node-7.evil",
            "127.0.0.1.evil.example",
            "localhost:8082:1",
            "localhost:x",
            "[::1]evil",
            "[evil]",
            "127.0.0.1@evil.example",
            "localhost:99999",
        ] {
            assert!(!is_ours(host, &names), "{host}");
        }
    }
}
