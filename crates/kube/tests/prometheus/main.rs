//! Latency targets, judged by a real Prometheus that scrapes a real exporter; no cluster is needed.
//!
//! Each test has a Prometheus of its own, in a folder of its own. Nothing waits for a fixed time: a
//! condition is awaited, with a deadline that only a broken Prometheus misses.
//! `cargo xtask test --tier kube` runs them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails, also in what it calls")]

mod court;
mod exporter;
mod server;

use std::time::Duration;

use walras_kube::settings::DEFAULT_QUERY;

use self::court::Court;
use self::exporter::{Exporter, Requests};
use self::server::Prometheus;

/// Pods are late above this.
const TARGET_MS: f64 = 100.0;

#[test]
fn each_pod_is_judged_by_its_own_requests() {
    let exporter = Exporter::start();
    exporter.serve("shop/late", Requests::EachScrape { latency_s: 0.3, count: 10 });
    exporter.serve("shop/quick", Requests::EachScrape { latency_s: 0.01, count: 10 });
    // The same name in another namespace is another pod.
    exporter.serve("blog/late", Requests::EachScrape { latency_s: 0.01, count: 10 });
    exporter.serve("shop/minutely", Requests::EachMinute { latency_s: 0.3 });
    exporter.serve("shop/idle", Requests::Never);
    let prometheus = Prometheus::start(&exporter);
    let mut court = Court::sit();
    let pods = ["shop/late", "shop/quick", "blog/late", "shop/minutely", "shop/idle", "shop/new"];
    court.ask(&prometheus.url(), DEFAULT_QUERY, &pods);
    let expected = "blog/late met, shop/late missed, shop/minutely missed, shop/quick met";
    court.wait_for_verdicts(expected);
    court.wait_for_rounds("shop/quick", 3);
    assert_eq!(court.verdicts_about("shop/idle"), 0, "it has no requests");
    assert_eq!(court.verdicts_about("shop/new"), 0, "it has no series");
    assert_eq!(court.problems(), "");

    // One late request in a hundred is allowed.
    exporter.serve("shop/late", Requests::EachScrape { latency_s: 0.01, count: 1_000_000 });
    court.wait_for_verdicts(&expected.replace("shop/late missed", "shop/late met"));
}

#[test]
fn any_expression_that_gives_seconds_will_do() {
    let exporter = Exporter::start();
    exporter.serve("shop/web", Requests::Gauge { latency_ms: 300.0 });
    let prometheus = Prometheus::start(&exporter);
    let mut court = Court::sit();
    // A quotient, with every character that an address would take for something else.
    let own = concat!(
        "max(app_latency_ms{namespace=\"$namespace\",pod=\"$pod\",",
        "path=~\"/a b[+]c&d=100%(25)?#.*\"}) / 1000 + 0 # milliseconds"
    );
    // A slash at the end of the address is no matter.
    court.ask(&format!("{}/", prometheus.url()), own, &["shop/web"]);
    court.wait_for_verdicts("shop/web missed");
    court.ask(&prometheus.url(), "scalar(vector(0.05))", &["shop/web"]);
    court.wait_for_verdicts("shop/web met");
    // Once because nothing is known by the new question, and then because it was answered.
    court.wait_for_rounds("shop/web", 2);
    court.wait_for_verdicts("shop/web met");
    // Of several series, the slowest counts.
    court.ask(&prometheus.url(), "app_latency_ms / 1000 or up * 0", &["shop/web"]);
    court.wait_for_verdicts("shop/web missed");
    assert_eq!(court.problems(), "");
}

#[test]
fn an_expression_that_does_not_work_is_a_problem_that_names_the_setting() {
    let exporter = Exporter::start();
    exporter.serve("shop/web", Requests::EachScrape { latency_s: 0.3, count: 10 });
    let prometheus = Prometheus::start(&exporter);
    let mut court = Court::sit();
    let bucket = "http_request_duration_seconds_bucket";
    for (query, because) in [
        ("rate(nothing{pod=\"$pod\"}[1m]", "parse error: unclosed left parenthesis"),
        ("up{pod=$pod}", "parse error: unexpected identifier \"web\""),
        (
            &format!("{bucket}[1m]"),
            "the query gives a range of values, and a number of seconds is needed",
        ),
        ("\"0.5\"", "the query gives a string, and a number of seconds is needed"),
        // Understood, and not possible with what there is.
        (&format!("{bucket} * on (pod) {bucket}"), "found duplicate series"),
    ] {
        court.ask(&prometheus.url(), query, &["shop/web", "shop/worker"]);
        let problem = court.wait_for_problem(because);
        let begins = "prometheusQuery: does not work for shop/web and 1 more, whose latency \
                      targets are not judged: ";
        assert!(problem.starts_with(begins), "{problem}");
    }
    assert_eq!(court.verdicts_about("shop/web"), 0);
    court.ask(&prometheus.url(), DEFAULT_QUERY, &["shop/web"]);
    court.wait_for_verdicts("shop/web missed");
    court.wait_until_there_is_no_problem();
}

#[test]
fn a_prometheus_that_goes_away_is_told_of_and_verdicts_are_not_believed_for_ever() {
    let exporter = Exporter::start();
    exporter.serve("shop/late", Requests::EachScrape { latency_s: 0.3, count: 10 });
    let mut prometheus = Prometheus::start(&exporter);
    let mut court = Court::sit();
    court.ask(&prometheus.url(), DEFAULT_QUERY, &["shop/late"]);
    court.wait_for_verdicts("shop/late missed");

    prometheus.kill();
    let problem = court.wait_for_problem("Connection refused");
    let begins = format!("prometheusURL: {} does not answer, so", prometheus.url());
    assert!(problem.starts_with(&begins), "{problem}");
    court.wait_for_verdicts("shop/late met");
    let before = court.verdicts_about("shop/late");

    // While it starts, it answers that it does not.
    let starting = prometheus.start_again();
    court.wait_for_problem("it answers with status 503, and not as Prometheus does");
    assert_eq!(court.verdicts_about("shop/late"), before, "nothing is told meanwhile");
    starting.finish();
    court.wait_until_there_is_no_problem();
    court.wait_for_verdicts("shop/late missed");

    // It is there, and says nothing.
    prometheus.signal("STOP");
    court.wait_for_problem("no answer within 1 s");
    prometheus.signal("CONT");
    court.wait_until_there_is_no_problem();
    court.wait_for_verdicts("shop/late missed");
}

#[test]
fn what_is_no_prometheus_is_told_of() {
    let exporter = Exporter::start();
    let court = Court::sit();
    let url = exporter.url();
    court.ask(&url, DEFAULT_QUERY, &["shop/web"]);
    let because = "it answers with status 404, and not as Prometheus does";
    let problem = court.wait_for_problem(because);
    assert!(problem.starts_with(&format!("prometheusURL: {url} does not answer")), "{problem}");
    // Who has no target does not care.
    court.ask(&url, DEFAULT_QUERY, &[]);
    court.wait_until_there_is_no_problem();
}

/// How long anything may take on a slow machine before it counts as broken.
const PATIENCE: Duration = Duration::from_secs(120);
