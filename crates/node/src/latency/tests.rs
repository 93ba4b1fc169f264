//! From a question to verdicts, against a small server in the place of Prometheus.

use std::time::Instant;

use super::server::{Reply, Server};
use super::*;

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
    fn sit(server: &Server) -> Self {
        let settings = SettingNames { url: "prometheus_url", query: "prometheus_query" };
        let questions = Arc::new(Questions::new(settings));
        let query = "x{n='$name',u='$uid'}".to_owned();
        questions.set(Question { url: Some(server.url()), query, targets: vec![target()] });
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
            assert_eq!(uid, target().uid);
            self.told.push(missed);
        }
        &self.told
    }

    fn problems(&self) -> String {
        self.questions.problems().join("\n")
    }
}

fn target() -> Target {
    let (uid, name) = ("system.slice/docker-1.scope", "web \"1\"");
    Target {
        uid: WorkloadUid::new(uid),
        name: name.to_owned(),
        placeholders: vec![("$name", name.to_owned()), ("$uid", uid.to_owned())],
        missed_above_ms: 120.0,
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
fn a_workload_is_judged_by_what_prometheus_says() {
    let server = Server::start(Reply::Seconds("0.13"));
    let mut court = Court::sit(&server);
    court.wait_for(true);
    let expected = r"x{n='web \x221\x22',u='system.slice/docker-1.scope'}";
    assert_eq!(server.last_query(), expected);
    // What is as large as the bound does not miss it.
    server.reply(Reply::Seconds("0.12"));
    court.wait_for(false);
    assert_eq!(court.problems(), "");
}

#[test]
fn a_prometheus_that_is_gone_is_a_problem_and_no_verdict_is_believed_for_ever() {
    let server = Server::start(Reply::Seconds("0.2"));
    let mut court = Court::sit(&server);
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
    court.wait_for(false);
    server.reply(Reply::Seconds("0.2"));
    court.wait_for(true);
    eventually("an end of the problem", || court.problems().is_empty());
}

#[test]
fn who_stops_does_not_wait_for_an_answer() {
    let server = Server::start(Reply::Nothing);
    let court = Court::sit(&server);
    eventually("a question", || server.count() > 0);
    drop(court);
    assert_eq!(server.count(), 1, "nobody answered, so nobody was asked again");
}
