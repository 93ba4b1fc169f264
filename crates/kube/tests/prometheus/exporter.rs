//! A real exporter: serves the histograms of some pods by HTTP, as services with metrics do.
//!
//! Counters grow with every scrape, so that a test does not depend on how fast the machine is.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// Upper bounds of the histograms, in seconds.
const BOUNDS_S: [f64; 5] = [0.05, 0.1, 0.5, 1.0, 5.0];
const HISTOGRAM: &str = "http_request_duration_seconds";

/// The requests of a pod.
#[derive(Clone, Copy)]
pub(crate) enum Requests {
    /// So many more with every scrape, each of which took so long.
    EachScrape { latency_s: f64, count: u64 },
    /// Ten more with every minute, told in samples that are a minute apart.
    EachMinute { latency_s: f64 },
    /// A histogram in which nothing was ever counted.
    Never,
    /// No histogram: a service that tells its latency in milliseconds, and a path with it.
    Gauge { latency_ms: f64 },
}

/// Serves until the process ends.
pub(crate) struct Exporter {
    address: SocketAddr,
    pods: Arc<Mutex<BTreeMap<String, Pod>>>,
}

struct Pod {
    requests: Requests,
    /// How many requests there were, below each bound and altogether.
    counts: [u64; BOUNDS_S.len() + 1],
}

// === impl Exporter ===

impl Exporter {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let pods = Arc::new(Mutex::new(BTreeMap::new()));
        let shared = Arc::clone(&pods);
        thread::spawn(move || {
            // A client that went away in the middle is none of our business.
            listener.incoming().flatten().for_each(|stream| drop(answer(&stream, &shared)));
        });
        Self { address, pods }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A pod, written as `namespace/name`, has such requests from now on.
    pub(crate) fn serve(&self, pod: &str, requests: Requests) {
        let mut pods = self.pods.lock().unwrap();
        let counts = pods.get(pod).map_or([0; BOUNDS_S.len() + 1], |pod| pod.counts);
        pods.insert(pod.to_owned(), Pod { requests, counts });
    }
}

/// Answers one request and closes the connection.
fn answer(stream: &TcpStream, pods: &Mutex<BTreeMap<String, Pod>>) -> std::io::Result<()> {
    let mut head = BufReader::new(stream).lines();
    let first = head.next().transpose()?.unwrap_or_default();
    head.find(|line| line.as_ref().map_or(true, String::is_empty));
    let (status, body) = if first.starts_with("GET /metrics ") {
        let mut pods = pods.lock().unwrap();
        let texts = pods.iter_mut().map(|(name, pod)| pod.scrape(name));
        ("200 OK", texts.collect::<String>())
    } else {
        ("404 Not Found", "there is /metrics\n".to_owned())
    };
    let length = body.len();
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

// === impl Pod ===

impl Pod {
    /// What is told of the pod at a scrape.
    fn scrape(&mut self, name: &str) -> String {
        let (namespace, pod) = name.split_once('/').unwrap();
        let labels = format!("namespace=\"{namespace}\",pod=\"{pod}\"");
        match self.requests {
            Requests::EachScrape { latency_s, count } => {
                self.count(latency_s, count);
                histogram(&labels, &self.counts, "")
            }
            Requests::EachMinute { latency_s } => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
                let minute = now / 60;
                let samples = [minute - 1, minute].map(|minute| {
                    self.counts = [0; BOUNDS_S.len() + 1];
                    self.count(latency_s, minute * 10);
                    histogram(&labels, &self.counts, &format!(" {}", minute * 60_000))
                });
                samples.concat()
            }
            Requests::Never => histogram(&labels, &self.counts, ""),
            Requests::Gauge { latency_ms } => {
                format!("app_latency_ms{{{labels},path=\"/a b+c&d=100%#\"}} {latency_ms}\n")
            }
        }
    }

    fn count(&mut self, latency_s: f64, count: u64) {
        let first = BOUNDS_S.partition_point(|bound| *bound < latency_s);
        self.counts[first..].iter_mut().for_each(|below| *below += count);
    }
}

/// A histogram as text; `at` is the time of its samples, where that is told.
fn histogram(labels: &str, counts: &[u64], at: &str) -> String {
    let mut text = String::new();
    let bounds = BOUNDS_S.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
    for (bound, count) in bounds.zip(counts) {
        writeln!(text, "{HISTOGRAM}_bucket{{{labels},le=\"{bound}\"}} {count}{at}").unwrap();
    }
    text
}
