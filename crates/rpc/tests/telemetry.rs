//! Telemetry over real connections: a node speaks for itself, and everything else is refused.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails, also in what it calls")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream;
use walras_rpc::certs::{self, Use, Wish};
use walras_rpc::reports::Snapshot;
use walras_rpc::telemetry::{Collector, Reception, Scheduler, Unwelcome, push};
use walras_rpc::{Code, Listen, Refused, TlsFolder};

/// Knows two tokens, and writes down what happens.
#[derive(Default)]
struct Notes {
    taken: Mutex<Vec<String>>,
    refused: Mutex<Vec<Unwelcome>>,
}

impl Collector for Notes {
    async fn node_of(&self, token: String) -> Result<String, Refused> {
        match token.as_str() {
            "token-of-a" => Ok("a".to_owned()),
            "token-of-b" => Ok("b".to_owned()),
            "nobody-knows" => {
                let message = "the API server does not answer".to_owned();
                Err(Refused { code: Code::Unreachable, message })
            }
            _ => Err(Refused { code: Code::Forbidden, message: "not good".to_owned() }),
        }
    }

    fn reported(&self, snapshot: Snapshot) {
        let told = format!("{} {}", snapshot.node_name, snapshot.taken_unix_ms);
        self.taken.lock().unwrap().push(told);
    }

    fn refused(&self, why: Unwelcome) {
        self.refused.lock().unwrap().push(why);
    }
}

fn snapshot(node: &str, taken_unix_ms: u64) -> Snapshot {
    Snapshot { node_name: node.to_owned(), taken_unix_ms, ..Snapshot::default() }
}

async fn plain() -> (Arc<Notes>, Reception, Scheduler) {
    let notes = Arc::new(Notes::default());
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let listen = Listen::Plain { address };
    let reception = Reception::start(Arc::clone(&notes), &listen, 64).await.unwrap();
    let scheduler = Scheduler::Plain { address: reception.address().unwrap() };
    (notes, reception, scheduler)
}

#[tokio::test]
async fn a_node_speaks_for_itself_and_for_nobody_else() {
    let (notes, _reception, scheduler) = plain().await;
    let both = stream::iter([snapshot("a", 1), snapshot("a", 2)]);
    assert_eq!(push(&scheduler, "token-of-a", both).await, Ok(2));
    // One of its own, one of another node, and one that comes too late.
    let lies = stream::iter([snapshot("a", 3), snapshot("b", 4), snapshot("a", 5)]);
    let refused = push(&scheduler, "token-of-a", lies).await.unwrap_err();
    assert_eq!(refused.code, Code::Forbidden);
    assert!(refused.message.contains("belongs to the node a"), "{refused}");
    let other = stream::iter([snapshot("b", 6)]);
    assert_eq!(push(&scheduler, "token-of-b\n", other).await, Ok(1), "a file ends with a newline");
    assert_eq!(*notes.taken.lock().unwrap(), ["a 1", "a 2", "a 3", "b 6"]);
    assert_eq!(*notes.refused.lock().unwrap(), [Unwelcome::WrongNode]);
}

#[tokio::test]
async fn without_a_good_token_nothing_is_taken_in() {
    let (notes, _reception, scheduler) = plain().await;
    let send = |token: &'static str| {
        let scheduler = scheduler.clone();
        async move { push(&scheduler, token, stream::iter([snapshot("a", 1)])).await.unwrap_err() }
    };
    assert_eq!(send("stolen").await.code, Code::Forbidden);
    assert_eq!(send("").await.code, Code::Forbidden);
    assert_eq!(send("to\u{0}ken").await.code, Code::Invalid);
    let unknown = send("nobody-knows").await;
    assert_eq!((unknown.code, unknown.message.as_str()), {
        (Code::Unreachable, "the API server does not answer")
    });
    assert!(notes.taken.lock().unwrap().is_empty());
    let refused = notes.refused.lock().unwrap().clone();
    assert_eq!(refused, [Unwelcome::Unproven; 2], "that nobody could say is not its fault");
}

#[tokio::test]
async fn a_snapshot_that_is_too_large_ends_the_stream_and_no_other() {
    let (notes, _reception, scheduler) = plain().await;
    let huge = Snapshot { zone: "z".repeat(1 << 20), ..snapshot("a", 1) };
    push(&scheduler, "token-of-a", stream::iter([huge])).await.unwrap_err();
    let small = stream::iter([snapshot("a", 2)]);
    assert_eq!(push(&scheduler, "token-of-a", small).await, Ok(1));
    assert_eq!(*notes.taken.lock().unwrap(), ["a 2"]);
}

#[tokio::test]
async fn a_scheduler_has_to_prove_itself() {
    let folder = tempfile::tempdir().unwrap();
    let (authority, other) = (folder.path().join("authority"), folder.path().join("other"));
    for place in [&authority, &other] {
        std::fs::create_dir(place).unwrap();
        certs::init(place).unwrap();
    }
    let wish = Wish {
        name: "localhost".to_owned(),
        dns: Vec::new(),
        ips: Vec::new(),
        usage: Use::Server,
        from_s: -60,
        days: 1,
    };
    let server = certs::issue(&authority, &wish).unwrap();
    let notes = Arc::new(Notes::default());
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let listen = Listen::OurTls { address, folder: TlsFolder::new(&server) };
    let reception = Reception::start(Arc::clone(&notes), &listen, 64).await.unwrap();
    let address = reception.address().unwrap();
    let to =
        |ca: &Path| Scheduler::Tls { address, name: "localhost".to_owned(), ca: ca.join("ca.pem") };
    let one = || stream::iter([snapshot("a", 1)]);
    assert_eq!(push(&to(&authority), "token-of-a", one()).await, Ok(1));
    let refused = push(&to(&other), "token-of-a", one()).await.unwrap_err();
    assert_eq!(refused.code, Code::Unreachable, "{refused}");
    let missing = push(&to(Path::new("/nonexistent")), "token-of-a", one()).await.unwrap_err();
    assert_eq!(missing.code, Code::Invalid, "{missing}");
    assert_eq!(*notes.taken.lock().unwrap(), ["a 1"]);
}

#[tokio::test]
async fn who_says_nothing_keeps_nobody_else_waiting() {
    let (notes, _reception, scheduler) = plain().await;
    let silent = tokio::spawn({
        let scheduler = scheduler.clone();
        async move { push(&scheduler, "token-of-a", stream::pending()).await }
    });
    let one = stream::iter([snapshot("b", 1)]);
    let told = tokio::time::timeout(Duration::from_secs(60), push(&scheduler, "token-of-b", one));
    assert_eq!(told.await.unwrap(), Ok(1));
    silent.abort();
    assert_eq!(*notes.taken.lock().unwrap(), ["b 1"]);
}
