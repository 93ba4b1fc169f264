//! The HTTP server from the outside: what is told, what is refused, and that it all ends.

#[path = "../../examples/dashboard/made_up.rs"]
mod made_up;

mod client;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use client::{Reply, ask, get, get_as, half_open, open};
use made_up::MadeUp;
use walras_core::units::WorkloadUid;
use walras_node::board::{Board, Identity};
use walras_node::serve::{self, Probes, ServeError, ServeSettings, Server};
use walras_wire::state::{Explanation, History, NodeState};
use walras_wire::telemetry::NodeTelemetry;

/// A node that ran for two minutes, and its server on a port of its own.
fn served(workloads: usize) -> (MadeUp, Server) {
    let mut made_up = MadeUp::new(workloads);
    made_up.let_pass(Duration::from_secs(120));
    let server = serve(made_up.board());
    (made_up, server)
}

fn serve(board: &Arc<Board>) -> Server {
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let settings = ServeSettings { listen, names: Vec::new() };
    serve::start(Arc::clone(board), &settings).expect("there is a free port")
}

fn json<T: serde::de::DeserializeOwned>(reply: &Reply) -> T {
    assert_eq!(reply.header("content-type"), Some("application/json"), "{reply:?}");
    serde_json::from_str(&reply.body).expect("what the API promises")
}

#[test]
fn the_state_has_every_workload_and_sums_that_fit() {
    let (_made_up, server) = served(7);
    let state: NodeState = json(&get(&server, "/api/v1/state"));
    assert_eq!(state.workloads.len(), 7);
    assert_eq!(state.capacity_milli, 4900);
    assert!(state.slow_ticks >= 8, "two minutes have eight clearings: {}", state.slow_ticks);
    assert!(state.changes > 0 && state.at_ms > 0);
    assert_eq!(
        state.limit_milli,
        state.workloads.iter().map(|workload| workload.limit_milli).sum::<u64>()
    );
    assert!(state.request_milli <= state.capacity_milli);
    assert!(
        state
            .workloads
            .iter()
            .all(|workload| workload.usage_milli.is_some() && workload.need_milli.is_some())
    );
    assert!(state.workloads.is_sorted_by(|a, b| a.uid < b.uid));
}

#[test]
fn a_workload_is_explained_by_uid_and_by_name() {
    let (_made_up, server) = served(5);
    let by_uid: Explanation = json(&get(&server, "/api/v1/pods/docker%2F000"));
    let by_name: Explanation = json(&get(&server, "/api/v1/pods/shop-frontend"));
    assert_eq!(by_uid.workload.uid, by_name.workload.uid);
    assert!(by_uid.sentences.len() >= 6, "{:?}", by_uid.sentences);
    assert!(!by_uid.changes.is_empty() && by_uid.changes.len() <= 20);
    assert!(by_uid.changes.is_sorted_by(|a, b| a.at_ms >= b.at_ms), "newest first");
    assert_eq!(Some(&by_uid.changes[0]), by_uid.workload.last_change.as_ref());
    let unknown = get(&server, "/api/v1/pods/shop-frontent");
    assert_eq!(unknown.status, 404);
    assert!(unknown.body.contains("did you mean shop-frontend?"), "{}", unknown.body);
}

#[test]
fn history_has_columns_of_one_length_and_a_point_every_ten_seconds() {
    let (_made_up, server) = served(5);
    for path in ["/api/v1/history", "/api/v1/history?uid=postgres"] {
        let history: History = json(&get(&server, path));
        let length = history.at_ms.len();
        assert_eq!(length, 12, "two minutes: {path}");
        assert!(history.at_ms.windows(2).all(|pair| pair[1] - pair[0] == history.step_ms));
        let columns = [&history.usage_milli, &history.need_milli, &history.limit_milli];
        assert!(columns.iter().all(|column| column.len() == length), "{path}");
        assert_eq!(history.price.len(), length);
        assert_eq!(history.usage_milli[0], None, "one sample is no rate");
        assert!(history.usage_milli[1..].iter().all(Option::is_some), "{history:?}");
    }
    assert_eq!(get(&server, "/api/v1/history?uid=nobody").status, 404);
}

#[test]
fn figures_of_the_machine_are_told_with_their_age_and_as_metrics() {
    let (made_up, server) = served(1);
    let told: NodeTelemetry = json(&get(&server, "/api/v1/telemetry"));
    assert_eq!(told.figures[0].value, Some(0.25));
    assert_eq!((told.figures[2].value, told.figures[2].unavailable.is_some()), (None, true));
    let metrics = get(&server, "/metrics").body;
    for line in [
        "made_up_cpu_utilization{node=\"made-up\"} 0.25",
        "walras_node_figure_measured{node=\"made-up\",figure=\"l3_cache_miss_rate\",\
         source=\"made up\",why=\"this hardware shows no cache counters\"} 0",
        "walras_node_packets_dropped_by_reason{node=\"made-up\",reason=\"NO_SOCKET\"} 3.0",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line} is not in\n{metrics}");
    }
    assert!(!metrics.contains("made_up_l3_cache_miss_rate"), "what was not measured is no zero");
    let mut old = told;
    old.taken_unix_ms -= 60_000;
    made_up.board().set_telemetry(old);
    let told: NodeTelemetry = json(&get(&server, "/api/v1/telemetry"));
    assert!(told.stale && told.age_ms >= 60_000, "{told:?}");
    let nobody_looks = Board::new(Identity {
        version: "1".into(),
        host: "a".into(),
        profile: "direct".into(),
        acting: false,
    });
    let server = serve(&Arc::new(nobody_looks));
    let refused = get(&server, "/api/v1/telemetry");
    assert_eq!(refused.status, 404);
    assert!(refused.body.contains("telemetry is switched off"), "{}", refused.body);
    assert!(!json::<NodeState>(&get(&server, "/api/v1/state")).telemetry);
}

#[test]
fn a_workload_that_is_gone_is_not_told() {
    let (made_up, server) = served(3);
    made_up.board().workload_removed(&WorkloadUid::new("docker/000"));
    assert_eq!(get(&server, "/api/v1/pods/shop-frontend").status, 404);
    let state = made_up.board().state();
    assert_eq!(state.workloads.len(), 2);
}

#[test]
fn health_follows_the_loop_and_readiness_the_first_clearing() {
    let (_made_up, server) = served(2);
    assert_eq!(get(&server, "/healthz").status, 200);
    assert_eq!(get(&server, "/readyz").status, 200);
    let identity =
        Identity { version: "1".into(), host: "h".into(), profile: "direct".into(), acting: false };
    let idle = serve(&Arc::new(Board::new(identity)));
    assert_eq!(get(&idle, "/healthz").status, 200, "it has only just been started");
    let ready = get(&idle, "/readyz");
    assert_eq!((ready.status, ready.body.trim()), (503, "the market was not cleared yet"));
}

/// Parsers of OpenMetrics refuse a histogram without it, and `histogram_quantile` gives NaN.
#[test]
fn every_histogram_ends_with_a_bucket_for_all_there_is() {
    let (_made_up, server) = served(5);
    let body = get(&server, "/metrics").body;
    let value = |name: &str| {
        let line = body.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit_once(' ')).map(|(_, value)| value.to_owned())
    };
    let histograms = body.lines().filter_map(|line| {
        line.strip_prefix("# TYPE ")?.strip_suffix(" histogram").map(str::to_owned)
    });
    let histograms: Vec<String> = histograms.collect();
    assert!(histograms.len() >= 2, "{histograms:?}");
    for name in histograms {
        let all = value(&format!("{name}_bucket{{le=\"+Inf\"}}"));
        assert!(all.is_some(), "{name} has no last bucket");
        assert_eq!(all, value(&format!("{name}_count")), "{name}");
    }
}

#[test]
fn metrics_have_the_names_that_dashboards_know() {
    let (_made_up, server) = served(5);
    let reply = get(&server, "/metrics");
    assert!(reply.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    assert!(reply.body.ends_with("# EOF\n"));
    for name in [
        "mbcas_managed_pods 5",
        "mbcas_agent_allocation_duration_seconds_count",
        "mbcas_agent_cgroup_read_errors_total 0",
        "mbcas_nash_iterations 1",
        "mbcas_nash_mode{mode=\"congested\"}",
        "mbcas_nash_shadow_price",
        "mbcas_controller_reconcile_duration_seconds_count",
        "mbcas_controller_pod_patch_errors_total 0",
        "mbcas_controller_resize_verified_total",
        "apex_allocation_mode{node=\"made-up\",mode=\"uncongested\"}",
        "apex_need_milli{pod=\"postgres\",namespace=\"systemd\"}",
        "apex_allocation_milli{pod=",
        "apex_nash_reduction_ratio{pod=",
        "apex_headroom_utilization{pod=",
        "walras_price",
    ] {
        assert!(
            reply.body.lines().any(|line| line.starts_with(name)),
            "no {name}:\n{}",
            reply.body
        );
    }
    tells_what_the_state_tells(&reply.body, &json(&get(&server, "/api/v1/state")));
    let mut series: Vec<&str> = reply.body.lines().filter(|line| !line.starts_with('#')).collect();
    series.iter_mut().for_each(|line| *line = line.rsplit_once(' ').unwrap().0);
    let all = series.len();
    series.sort_unstable();
    series.dedup();
    assert_eq!(series.len(), all, "every series is there once");
}

/// The made-up node stands still between two questions, so its metrics and its state agree.
fn tells_what_the_state_tells(metrics: &str, state: &NodeState) {
    let value = |series: &str| -> f64 {
        let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        let line = line.unwrap_or_else(|| panic!("no {series}:\n{metrics}"));
        line.parse().expect("a number")
    };
    let same = |series: String, expected: f64| {
        let told = value(&series);
        assert!((told - expected).abs() < 1e-9, "{series} is {told}, and not {expected}");
    };
    same("walras_price".into(), state.price);
    same("mbcas_nash_shadow_price".into(), state.price);
    let workload =
        state.workloads.iter().find(|workload| workload.name == "postgres").expect("it is there");
    let labels = "{pod=\"postgres\",namespace=\"systemd\"}";
    let milli = |amount: Option<u64>| {
        let amount = amount.and_then(|amount| u32::try_from(amount).ok());
        f64::from(amount.expect("it is known"))
    };
    let (need, grant) = (milli(workload.need_milli), milli(workload.grant_milli));
    assert!(need > 0.0 && grant > 0.0, "{workload:?}");
    for (name, expected) in [
        ("mbcas_need_milli", need),
        ("apex_need_milli", need),
        ("mbcas_allocation_milli", grant),
        ("apex_allocation_milli", grant),
        ("apex_headroom_utilization", milli(workload.usage_milli) / grant),
        ("apex_nash_reduction_ratio", workload.reduction_ratio.expect("it is known")),
    ] {
        same(format!("{name}{labels}"), expected);
    }
}

#[test]
fn nothing_is_changed_and_nothing_else_is_served() {
    let (_made_up, server) = served(1);
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"] {
        let reply = ask(&server, &format!("{method} / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    let head = ask(&server, "HEAD /api/v1/state HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    for path in ["/nothing", "/ui/../Cargo.toml", "/ui/", "/api/v1/pods/", "/api/v2/state"] {
        assert_eq!(get(&server, path).status, 404, "{path}");
    }
}

#[test]
fn a_name_that_points_here_from_elsewhere_is_refused() {
    let (_made_up, server) = served(1);
    for host in ["evil.example", "evil.example:8082", "localhost.evil.example"] {
        let reply = get_as(&server, "/api/v1/state", host);
        assert_eq!(reply.status, 421, "{host}");
        assert!(!reply.body.contains("capacity_milli"));
    }
    assert_eq!(get_as(&server, "/", "made-up:8082").status, 200, "the machine's own name");
    assert_eq!(ask(&server, "GET / HTTP/1.1\r\n\r\n").status, 400, "no Host at all");
}

#[test]
fn every_answer_forbids_what_the_dashboard_does_not_need() {
    let (_made_up, server) = served(1);
    for path in ["/", "/ui/app.js", "/api/v1/state", "/metrics", "/nothing"] {
        let reply = get(&server, path);
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(reply.header("access-control-allow-origin"), None, "{path}");
    }
}

#[test]
fn the_page_names_only_files_that_are_served_here() {
    let (_made_up, server) = served(1);
    let page = get(&server, "/").body;
    let mut found = 0;
    for part in page.split('"').filter(|part| part.starts_with('/')) {
        assert_eq!(get(&server, part).status, 200, "{part}");
        found += 1;
    }
    assert!(found >= 3, "{found}");
    assert!(!page.contains("http://") && !page.contains("https://"), "nothing from elsewhere");
}

#[test]
fn requests_without_end_are_cut_off() {
    let (_made_up, server) = served(1);
    let long = "x".repeat(40_000);
    let reply = ask(&server, &format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n"));
    assert_eq!(reply.status, 431);
    let many: String = (0..200).map(|number| format!("X-{number}: 1\r\n")).collect();
    let reply = ask(&server, &format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"));
    assert_eq!(reply.status, 431);
    let reply = ask(&server, "\u{0}\u{1}\u{2} nonsense\r\n\r\n");
    assert_eq!(reply.status, 400);
}

#[test]
fn a_stream_sends_states_and_ends_with_the_server() {
    let (mut made_up, server) = served(2);
    let mut stream = open(&server, "/api/v1/stream", "localhost");
    let first = stream.event();
    made_up.tick();
    let second = stream.event();
    let (first, second): (NodeState, NodeState) =
        (serde_json::from_str(&first).unwrap(), serde_json::from_str(&second).unwrap());
    assert_eq!(first.workloads.len(), 2);
    assert!(second.at_ms > first.at_ms);
    server.stop();
    stream.read_to_end();
}

#[test]
fn too_many_streams_of_one_peer_are_refused_and_a_closed_one_makes_room() {
    let (_made_up, server) = served(1);
    let mut streams: Vec<_> =
        (0..16).map(|_| open(&server, "/api/v1/stream", "localhost")).collect();
    streams.iter_mut().for_each(|stream| drop(stream.event()));
    let refused = get(&server, "/api/v1/stream");
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert_eq!(get(&server, "/api/v1/state").status, 200, "everything else still answers");
    drop(streams.pop());
    client::eventually("a place is free again", || {
        let mut stream = open(&server, "/api/v1/stream", "localhost");
        stream.status() == 200
    });
}

#[test]
fn whoever_holds_connections_keeps_nobody_else_from_asking() {
    let (_made_up, server) = served(1);
    // As many as there may be, and more; each has said half of what it wants.
    let held: Vec<_> = (0..140).map(|_| half_open(server.address())).collect();
    assert_eq!(get(&server, "/healthz").status, 200);
    assert_eq!(get(&server, "/api/v1/state").status, 200);
    drop(held);
}

#[test]
fn probes_are_answered_on_a_listener_of_their_own() {
    let (made_up, server) = served(1);
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let probes = serve::start_probes(&Probes::of(made_up.board()), listen).unwrap();
    let held: Vec<_> = (0..100).map(|_| half_open(probes.address())).collect();
    for path in ["/healthz", "/readyz"] {
        let reply = get_as(&probes, path, "anything.example");
        assert_eq!((reply.status, reply.body.as_str()), (200, "ok\n"), "{path}");
        assert_eq!(reply.header("connection"), Some("close"), "one question each");
    }
    for path in ["/metrics", "/api/v1/state", "/"] {
        assert_eq!(get(&probes, path).status, 404, "{path}");
    }
    drop(held);
    server.stop();
    assert_eq!(get(&probes, "/healthz").status, 200, "also without the other one");
    let sick = Probes::new(|| Err("the loop is stuck".to_owned()), || Ok(()));
    let sick = serve::start_probes(&sick, listen).unwrap();
    let reply = get(&sick, "/healthz");
    assert_eq!((reply.status, reply.body.as_str()), (503, "the loop is stuck\n"));
}

#[test]
fn a_request_with_a_body_is_refused_before_it_is_sent() {
    let (_made_up, server) = served(1);
    for body in ["Content-Length: 1000000000", "Transfer-Encoding: chunked"] {
        let head = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{body}\r\n\r\n");
        let reply = ask(&server, &head);
        assert_eq!((reply.status, reply.header("connection")), (413, Some("close")), "{body}");
    }
    let empty = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(ask(&server, empty).status, 200);
}

#[test]
fn a_port_in_use_is_one_clear_sentence() {
    let (made_up, server) = served(1);
    let settings = ServeSettings { listen: server.address(), names: Vec::new() };
    let error = serve::start(Arc::clone(made_up.board()), &settings).unwrap_err();
    assert!(matches!(error, ServeError::InUse { .. }));
    let text = error.to_string();
    let start = format!("cannot listen on {}: another program already does", server.address());
    assert!(text.starts_with(&start), "{text}");
    server.stop();
    let again = serve::start(Arc::clone(made_up.board()), &settings);
    assert!(again.is_ok(), "the port is free once the server has stopped: {again:?}");
}

#[test]
fn history_never_grows_past_an_hour() {
    let mut made_up = MadeUp::new(20);
    made_up.let_pass(Duration::from_secs(3900));
    let history = made_up.board().history(None).unwrap();
    assert_eq!(history.at_ms.len(), 360);
    let workload = made_up.board().history(Some("postgres")).unwrap();
    assert_eq!(workload.at_ms, history.at_ms);
}
