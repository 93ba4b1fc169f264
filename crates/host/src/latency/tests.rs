//! From a configuration to verdicts, against a small server in the place of Prometheus.

use std::time::Instant;

use super::server::{Reply, Server};
use super::*;
use crate::adopt::Source;
use crate::config::{Config, Overrides};

/// As daemons ask, but without long pauses.
const RHYTHM: Rhythm =
    Rhythm { every: Duration::from_millis(1), patience: Duration::from_secs(60) };
/// How long anything may take on a slow machine before it counts as broken.
const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon that asks `server` about one workload, whose target is 100 ms.
struct Court {
    questions: Arc<Questions>,
    judging: Judging,
    told: Vec<bool>,
}

impl Court {
    fn sit(server: &Server, more: &str) -> Self {
        let text = format!("prometheus_url = \"{}\"\n{more}", server.url());
        let config = Config::read(&text, &Overrides::default()).unwrap();
        let questions = Arc::new(Questions::new(LatencyTerms::SETTINGS));
        questions.set(config.latency.question([workload()]));
        let judging = Judging::start(Arc::clone(&questions), RHYTHM).unwrap();
        Self { questions, judging, told: Vec::new() }
    }

    /// Waits until the last verdict is this one.
    fn wait_for(&mut self, missed: bool) {
        eventually("a verdict", || self.told().last() == Some(&missed));
    }

    /// Every verdict so far.
    fn told(&mut self) -> &[bool] {
        for Verdict { uid, missed } in self.judging.verdicts() {
            assert_eq!(uid, workload().uid);
            self.told.push(missed);
        }
        &self.told
    }

    fn problems(&self) -> String {
        self.questions.problems().join("\n")
    }
}

fn workload() -> Judged {
    Judged {
        uid: PodUid::new("system.slice/docker-1.scope"),
        name: "web \"1\"".to_owned(),
        source: Source::Docker,
        target_ms: 100.0,
    }
}

/// Waits for a condition. Whoever is waited for gets the processor meanwhile.
fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < end, "{what} never came");
        std::thread::yield_now();
    }
}

#[test]
fn a_workload_of_a_plain_host_is_judged_by_what_prometheus_says() {
    let server = Server::start(Reply::Seconds("0.13"));
    let mut court = Court::sit(&server, "");
    court.wait_for(true);
    assert_eq!(
        server.last_query(),
        "histogram_quantile(0.99, sum by (le) (rate(\
         http_request_duration_seconds_bucket{job=\"web \\x221\\x22\"}[2m])))"
    );
    // Not above the target times the factor, which is 1.2 where nothing is said.
    server.reply(Reply::Seconds("0.12"));
    court.wait_for(false);
    assert_eq!(court.problems(), "");
}

#[test]
fn the_query_and_the_factor_can_be_set() {
    let server = Server::start(Reply::Seconds("0.13"));
    let query = "x{n='$name',u='$uid',k='$kind'}";
    let more = format!("prometheus_query = \"{query}\"\nlatency_factor = 1.5");
    let mut court = Court::sit(&server, &more);
    court.wait_for(false);
    let expected = r"x{n='web \x221\x22',u='system.slice/docker-1.scope',k='docker'}";
    assert_eq!(server.last_query(), expected);
    server.reply(Reply::Seconds("0.16"));
    court.wait_for(true);
}

#[test]
fn a_prometheus_that_is_gone_is_a_problem_and_no_verdict() {
    let server = Server::start(Reply::Seconds("0.2"));
    let mut court = Court::sit(&server, "");
    court.wait_for(true);
    server.reply(Reply::Starting);
    eventually("a problem", || !court.problems().is_empty());
    assert_eq!(
        court.problems(),
        format!(
            "prometheus_url: {} does not answer, so latency targets are not judged: it answers \
             with status 503, and not as Prometheus does",
            server.url()
        )
    );
    let rounds = server.count();
    eventually("another round", || server.count() > rounds + 2);
    assert!(court.told().iter().all(|missed| *missed), "the last verdict stays");
    server.reply(Reply::Seconds("0.05"));
    court.wait_for(false);
    eventually("an end of the problem", || court.problems().is_empty());
}

#[test]
fn who_stops_does_not_wait_for_an_answer() {
    let server = Server::start(Reply::Nothing);
    let court = Court::sit(&server, "");
    eventually("a question", || server.count() > 0);
    drop(court);
    assert_eq!(server.count(), 1, "nobody answered, so nobody was asked again");
}

#[test]
fn a_target_that_nobody_judges_is_told_of() {
    let nowhere = Config::read("", &Overrides::default()).unwrap().latency;
    let question = nowhere.question([workload()]);
    assert_eq!(question.url, None);
    assert_eq!(
        nowhere.problem(&question).unwrap(),
        "prometheus_url: is not set, so nobody judges the latency target of web \"1\""
    );
    let two = nowhere.question([workload(), workload()]);
    let told = nowhere.problem(&two).unwrap();
    assert!(told.ends_with("judges the latency targets of web \"1\" and 1 more"), "{told}");
    assert_eq!(nowhere.problem(&nowhere.question([])), None);
    let text = "prometheus_url = \"http://p:9090\"";
    let somewhere = Config::read(text, &Overrides::default()).unwrap().latency;
    assert_eq!(somewhere.problem(&somewhere.question([workload()])), None);
}
