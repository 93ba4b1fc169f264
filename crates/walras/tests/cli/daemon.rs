//! `walras top` and `walras explain`: what they say of a daemon, and of none.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use walras_core::claim::{CameWith, Nature};
use walras_core::need::Bounds;
use walras_core::node::WorkloadFacts;
use walras_core::request::RequestRule;
use walras_core::units::{Millicores, Weight, WorkloadUid};
use walras_node::board::{Board, Identity, WorkloadKind, WorkloadLabel};
use walras_node::serve::{self, ServeSettings, Server};
use walras_wire::state::{Explanation, NodeState};

use crate::{refusal_of, stdout_of, walras};

/// A daemon that has only just adopted one pod, called `web`.
fn daemon() -> Server {
    let identity = Identity {
        version: "1".to_owned(),
        host: "node-7".to_owned(),
        profile: "direct".to_owned(),
        acting: false,
    };
    let board = Arc::new(Board::new(identity));
    let facts = WorkloadFacts {
        uid: WorkloadUid::new("a/b"),
        family: None,
        bounds: Bounds::new(Millicores::new(100), Millicores::new(2000)),
        weight: Weight::ONE,
        limit: Millicores::new(500),
        request: None,
        came_with: CameWith::default(),
        nature: Nature::Unknown,
        request_rule: RequestRule::Kept,
    };
    let label = WorkloadLabel {
        name: "web".to_owned(),
        kind: WorkloadKind::Docker,
        original_limit: Some(Millicores::new(500)),
        target_latency_ms: None,
    };
    board.workload_added(&facts, label);
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let settings = ServeSettings { listen, names: Vec::new() };
    serve::start(board, &settings).expect("there is a free port")
}

#[test]
fn without_a_terminal_top_prints_a_table_once() {
    let server = daemon();
    let text = stdout_of(walras(&["top", "--address", &server.address().to_string()]));
    let mut lines = text.lines();
    let node =
        "node-7: uncongested, price 0.000, 0.00 of 0.00 cores used, 0.00 needed; only watching";
    assert_eq!(lines.next(), Some(node));
    assert!(lines.nth(1).unwrap().starts_with("POD  KIND    USAGE"), "{text}");
    assert!(lines.nth(1).unwrap().starts_with("web  docker      -"), "{text}");
    let json = stdout_of(walras(&["top", "--json", "--address", &server.address().to_string()]));
    let state: NodeState = serde_json::from_str(&json).unwrap();
    assert_eq!(state.workloads[0].name, "web");
}

#[test]
fn top_shows_the_figures_of_the_machine_or_says_that_nobody_looks() {
    let server = daemon();
    let address = server.address().to_string();
    let (code, stdout, stderr) = refusal_of(walras(&["top", "--node", "--address", &address]));
    assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("telemetry is switched off"), "{stderr}");
}

#[test]
fn a_pod_is_explained_by_name_and_by_uid_in_sentences_or_as_json() {
    let server = daemon();
    let address = server.address().to_string();
    let text = stdout_of(walras(&["explain", "web", "--address", &address]));
    assert!(text.starts_with("web  docker a/b\n\nIts counters were not read twice yet"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert_eq!(stdout_of(walras(&["explain", "a/b", "--address", &address])), text);
    let json = stdout_of(walras(&["explain", "web", "--json", "--address", &address]));
    let told: Explanation = serde_json::from_str(&json).unwrap();
    assert_eq!(told.workload.uid, "a/b");
    let (code, stdout, stderr) = refusal_of(walras(&["explain", "wep", "--address", &address]));
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert_eq!(stderr, "error: there is no workload wep; did you mean web?\n");
}

#[test]
fn where_no_daemon_answers_that_is_said_with_what_to_try() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    for arguments in [["top", "--once"], ["explain", "web"]] {
        let command = walras(&[arguments[0], arguments[1], "--address", &address]);
        let (code, stdout, stderr) = refusal_of(command);
        assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
        let start = format!("error: no daemon answers at http://{address} (");
        assert!(stderr.starts_with(&start), "{stderr}");
        assert!(stderr.ends_with("; is `walras host` running?\n"), "{stderr}");
    }
    let (code, _, stderr) = refusal_of(walras(&["top", "--address", "https://node"]));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("only http is spoken, not https"), "{stderr}");
}
