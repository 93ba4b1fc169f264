//! What the load generator understands and says: requests, answers and the latency histogram.
//!
//! Used by the binary `loadgen` alone. No request makes it panic, and none can ask for more than a
//! minute of CPU or more threads than a small machine stands.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::time::Duration;

/// The longest piece of work that one request may ask for.
pub const LONGEST_WORK_MS: u64 = 600_000;
/// The most threads that one burst may have.
pub const MOST_THREADS: u64 = 64;

/// Upper bounds of the histogram's buckets, in milliseconds.
const BOUNDS_MS: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Whether it is alive.
    Health,
    /// The metrics.
    Metrics,
    /// To burn that much CPU and then to answer.
    Work(Duration),
    /// To burn that much CPU on each of some threads, and to answer at once.
    Burst {
        /// How much, on each thread.
        time: Duration,
        /// On how many threads.
        threads: u64,
    },
}

/// An HTTP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    status: &'static str,
    body: String,
}

/// Counts what was done.
#[derive(Debug, Default)]
pub struct Metrics {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// One for each bound, and a last one for everything above.
    buckets: [u64; BOUNDS_MS.len() + 1],
    total: u64,
    latency: Duration,
    burnt: Duration,
}

/// What the first line of an HTTP request asks for, or the refusal to send back.
///
/// # Errors
///
/// An answer with status 404, 405 or 400 that says what is wrong.
pub fn answer(line: &str) -> Result<Request, Answer> {
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if method != "GET" {
        return Err(Answer::refusal("405 Method Not Allowed", "only GET is understood\n"));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match path {
        "/healthz" => Ok(Request::Health),
        "/metrics" => Ok(Request::Metrics),
        "/work" => Ok(Request::Work(milliseconds(query)?)),
        "/burst" => Ok(Request::Burst {
            time: milliseconds(query)?,
            threads: number(query, "threads", Some(1), MOST_THREADS)?,
        }),
        _ => Err(Answer::refusal(
            "404 Not Found",
            "there are /work?ms=N, /burst?ms=N&threads=T, /metrics and /healthz\n",
        )),
    }
}

fn milliseconds(query: &str) -> Result<Duration, Answer> {
    number(query, "ms", None, LONGEST_WORK_MS).map(Duration::from_millis)
}

/// The value of `key`, or what it is where the key is missing; at most `most`.
fn number(query: &str, key: &str, absent: Option<u64>, most: u64) -> Result<u64, Answer> {
    let pairs = || query.split('&').filter_map(|pair| pair.split_once('='));
    let value = match (pairs().find(|(name, _)| *name == key), absent) {
        (Some((_, text)), _) => text.parse().ok(),
        (None, absent) => absent,
    };
    value.filter(|value| *value <= most).ok_or_else(|| {
        Answer::refusal("400 Bad Request", &format!("{key} must be a number from 0 to {most}\n"))
    })
}

// === impl Answer ===

impl Answer {
    /// Everything is fine, and `body` is what was asked for.
    #[must_use]
    pub fn ok(body: &str) -> Self {
        Self { status: "200 OK", body: body.to_owned() }
    }

    fn refusal(status: &'static str, body: &str) -> Self {
        Self { status, body: body.to_owned() }
    }

    /// The answer as it is sent.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { status, body } = self;
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
    }
}

// === impl Metrics ===

impl Metrics {
    /// A request for `burnt` of CPU took `latency`.
    pub fn worked(&self, latency: Duration, burnt: Duration) {
        let mut counts = self.lock();
        let bucket = BOUNDS_MS.partition_point(|bound| Duration::from_millis(*bound) < latency);
        counts.buckets[bucket] += 1;
        counts.total += 1;
        counts.latency += latency;
        counts.burnt += burnt;
    }

    /// Everything counted, as Prometheus text.
    #[must_use]
    pub fn text(&self) -> String {
        let counts = self.lock();
        let mut text = String::from(
            "# HELP loadgen_request_seconds How long requests for work took.\n\
             # TYPE loadgen_request_seconds histogram\n",
        );
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            writeln!(text, "loadgen_{name} {value}").expect("writing to a string cannot fail");
        };
        let mut so_far = 0;
        for (bound, count) in BOUNDS_MS.iter().zip(counts.buckets) {
            so_far += count;
            let seconds = Duration::from_millis(*bound).as_secs_f64();
            line(&format!("request_seconds_bucket{{le=\"{seconds}\"}}"), &so_far);
        }
        line("request_seconds_bucket{le=\"+Inf\"}", &counts.total);
        line("request_seconds_sum", &counts.latency.as_secs_f64());
        line("request_seconds_count", &counts.total);
        text.push_str(
            "# HELP loadgen_cpu_asked_seconds_total CPU time that requests asked for.\n\
             # TYPE loadgen_cpu_asked_seconds_total counter\n",
        );
        let burnt = counts.burnt.as_secs_f64();
        writeln!(text, "loadgen_cpu_asked_seconds_total {burnt}")
            .expect("writing to a string cannot fail");
        text
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        // A thread that died while counting has at worst left one request half counted.
        self.counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> String {
        match answer(line) {
            Ok(request) => format!("{request:?}"),
            Err(refusal) => format!("{}: {}", refusal.status, refusal.body.trim_end()),
        }
    }

    #[test]
    fn requests_are_understood() {
        assert_eq!(check("GET /work?ms=20 HTTP/1.1"), "Work(20ms)");
        assert_eq!(check("GET /burst?ms=20 HTTP/1.1"), "Burst { time: 20ms, threads: 1 }");
        assert_eq!(check("GET /burst?threads=3&ms=5"), "Burst { time: 5ms, threads: 3 }");
        assert_eq!(check("GET /healthz HTTP/1.0"), "Health");
    }

    #[test]
    fn bad_requests_are_refused_by_name() {
        let most = "400 Bad Request: ms must be a number from 0 to 600000";
        for query in ["", "?ms=", "?ms=-1", "?ms=600001", "?ms=x", "?ms=99999999999999999999999"] {
            assert_eq!(check(&format!("GET /work{query} HTTP/1.1")), most, "{query}");
        }
        let threads = check("GET /burst?ms=1&threads=65 HTTP/1.1");
        assert_eq!(threads, "400 Bad Request: threads must be a number from 0 to 64");
        assert!(check("POST /work?ms=1 HTTP/1.1").starts_with("405 "));
        assert!(check("GET /nothing").starts_with("404 "));
        assert!(check("").starts_with("405 "));
    }

    #[test]
    fn the_histogram_is_cumulative_and_ends_with_everything() {
        let metrics = Metrics::default();
        for (latency, burnt) in [(1, 1), (30, 10), (9_000, 20)] {
            metrics.worked(Duration::from_millis(latency), Duration::from_millis(burnt));
        }
        let text = metrics.text();
        for line in [
            "loadgen_request_seconds_bucket{le=\"0.001\"} 1\n",
            "loadgen_request_seconds_bucket{le=\"0.02\"} 1\n",
            "loadgen_request_seconds_bucket{le=\"0.05\"} 2\n",
            "loadgen_request_seconds_bucket{le=\"5\"} 2\n",
            "loadgen_request_seconds_bucket{le=\"+Inf\"} 3\n",
            "loadgen_request_seconds_count 3\n",
            "loadgen_request_seconds_sum 9.031\n",
            "loadgen_cpu_asked_seconds_total 0.031\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }
}
