//! Tests of the extender over real connections, plain and encrypted, with friendly and hostile
//! clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::extender::tests::{QUESTION, judge, store};
use super::*;

const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A scheduler with three nodes, whose telemetry is of now.
fn shared(mode: Mode) -> Arc<Shared> {
    let (to_write, _) = mpsc::channel(1);
    let shared = Shared {
        judge: judge(),
        mode,
        store: Arc::new(store()),
        memory: Memory::default(),
        metrics: Arc::new(Metrics::new()),
        to_write,
    };
    for (name, busy) in [("busy", 0.97), ("idle", 0.02)] {
        shared.store.reported(&walras_rpc::reports::Snapshot {
            node_name: name.to_owned(),
            taken_unix_ms: shared.now_ms(),
            cpu_utilization: Some(busy),
            memory_utilization: Some(busy),
            ..Default::default()
        });
    }
    shared.store.publish(shared.now_ms());
    Arc::new(shared)
}

fn open(shared: &Arc<Shared>) -> Door {
    Door::open(LOOPBACK, None, web::extender(Arc::clone(shared))).unwrap()
}

fn connect_to(door: &Door) -> TcpStream {
    let stream = TcpStream::connect(door.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

fn question(body: &str) -> String {
    let length = body.len();
    format!(
        "POST /prioritize HTTP/1.1\r\nHost: walras-scheduler\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

/// One answer: its first line and its body.
fn answer_of(stream: &mut impl Read) -> (String, String) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    let mut body = vec![0; length.unwrap_or("0").trim().parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    (head.lines().next().unwrap().to_owned(), String::from_utf8(body).unwrap())
}

#[test]
fn many_questions_on_one_connection_are_answered() {
    let shared = shared(Mode::Active);
    let door = open(&shared);
    let mut client = connect_to(&door);
    for _ in 0..3 {
        client.write_all(question(QUESTION).as_bytes()).unwrap();
        let (status, body) = answer_of(&mut client);
        assert_eq!(status, "http/1.1 200 ok");
        assert!(body.starts_with(r#"[{"Host":"busy","Score":"#), "{body}");
    }
    let told = shared.memory.told(None);
    assert_eq!((told.len(), told[0].recommended.as_str()), (1, "idle"));
}

#[test]
fn in_shadow_mode_the_answer_over_http_is_constant() {
    let shared = shared(Mode::Shadow);
    let door = open(&shared);
    let mut client = connect_to(&door);
    client.write_all(question(QUESTION).as_bytes()).unwrap();
    let (_, body) = answer_of(&mut client);
    assert_eq!(body.matches(r#""Score":5"#).count(), 4, "{body}");
}

#[test]
fn hostile_questions_are_refused_and_others_are_still_answered() {
    let shared = shared(Mode::Active);
    let door = open(&shared);
    let refused = |request: &str, expected: &str| {
        let mut client = connect_to(&door);
        // It may be closed before all was sent.
        client.write_all(request.as_bytes()).ok();
        let (status, body) = answer_of(&mut client);
        assert!(status.contains(expected), "{status} {body}: {:.80}", request);
        body
    };
    let body = refused(&question("{\"Pod\": nonsense}"), "400");
    assert!(body.contains("cannot be read"), "{body}");
    assert!(refused(&question("{}"), "400").contains("Pod: is missing"));
    refused("GET /prioritize HTTP/1.1\r\nHost: x\r\n\r\n", "404");
    refused(&question("{}").replace("/prioritize", "/bind"), "404");
    let huge = "POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n";
    assert!(refused(huge, "413").contains("4194304 bytes"));
    // A chunk that never ends.
    let endless = format!(
        "POST /prioritize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{}",
        5 << 20,
        "x".repeat(5 << 20)
    );
    refused(&endless, "413");
    // Announced and never sent: two seconds, and not for ever.
    let slow = "POST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{";
    assert!(refused(slow, "408").contains("did not arrive"));
    let mut client = connect_to(&door);
    client.write_all(b"\x16\x03\x01 this is not HTTP \r\n\r\n").unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    let mut client = connect_to(&door);
    client.write_all(question(QUESTION).as_bytes()).unwrap();
    assert_eq!(answer_of(&mut client).0, "http/1.1 200 ok");
}

#[test]
fn one_address_cannot_take_all_places() {
    let door = open(&shared(Mode::Active));
    let held: Vec<TcpStream> = (0..40).map(|_| connect_to(&door)).collect();
    let ends = |mut stream: &TcpStream| {
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        matches!(stream.read(&mut [0; 8]), Ok(0) | Err(_) if stream.peek(&mut [0; 1]).is_ok())
    };
    let refused = held.iter().filter(|stream| ends(stream)).count();
    assert!(refused >= 8, "{refused} of 40 were refused");
}

#[test]
fn without_a_certificate_only_this_machine_may_ask() {
    let open = SocketAddr::from(([0, 0, 0, 0], 0));
    let error = Door::open(open, None, web::extender(shared(Mode::Active))).unwrap_err();
    assert!(error.to_string().contains("loopback interface only"), "{error}");
    let folder = TlsFolder::new(std::path::Path::new("/nonexistent/folder"));
    let error = Door::open(open, Some(&folder), web::extender(shared(Mode::Active))).unwrap_err();
    assert!(error.to_string().starts_with("--tls: /nonexistent/folder/"), "{error}");
}

#[test]
fn what_became_of_a_placement_is_counted_where_one_node_was_best() {
    let shared = shared(Mode::Active);
    let settle = |recommended: &str, actual: &str, strictly| {
        let told = walras_wire::placement::PlacementTold {
            recommended: recommended.to_owned(),
            actual: Some(actual.to_owned()),
            strictly,
            ..Default::default()
        };
        shared.settled(Remembered { told, confidence: 0.0 });
    };
    settle("a", "a", true);
    settle("a", "b", true);
    settle("a", "b", false);
    let now = metrics::Now {
        counts: shared.store.table().counts(shared.now_ms(), Terms::DEFAULT.stale_after),
        estimates: 0,
        breaker: walras_core::place::breaker::BreakerState::Open,
        scores: vec![("a".to_owned(), 61.5)],
        resident: 1,
    };
    let text = shared.metrics.text(&now).unwrap();
    for line in [
        "kubeattention_shadow_match_rate 0.5",
        "walras_scheduler_placements_total{decision=\"tie\"} 1",
        "kubeattention_circuit_breaker_state 1",
        "kubeattention_brain_node_score{node=\"a\"} 61.5",
        "walras_scheduler_nodes{telemetry=\"fresh\"} 2",
        "walras_scheduler_nodes{telemetry=\"never\"} 1",
        "walras_scheduler_telemetry_refused_total{reason=\"wrong_node\"} 0",
    ] {
        assert!(text.lines().any(|told| told == line), "{line}:\n{text}");
    }
}
