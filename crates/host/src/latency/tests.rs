//! From a configuration to what Prometheus is asked, and when a target counts as missed.

use super::*;
use crate::config::{Config, Overrides};

fn terms(text: &str) -> LatencyTerms {
    Config::read(text, &Overrides::default()).unwrap().latency
}

fn workload() -> Judged {
    Judged {
        uid: WorkloadUid::new("system.slice/docker-1.scope"),
        name: "web".to_owned(),
        source: Source::Docker,
        target_ms: 100.0,
    }
}

#[test]
fn a_workload_is_asked_about_by_its_name_where_nothing_is_said() {
    let question = terms("prometheus_url = \"http://p:9090\"").question([workload()]);
    assert_eq!(question.url.as_deref(), Some("http://p:9090"));
    assert_eq!(
        question.query,
        "histogram_quantile(0.99, sum by (le) (rate(\
         http_request_duration_seconds_bucket{job=\"$name\"}[2m])))"
    );
    let [target] = &question.targets[..] else { panic!("one workload, one target") };
    assert_eq!(
        target.placeholders,
        [
            ("$name", "web".to_owned()),
            ("$uid", "system.slice/docker-1.scope".to_owned()),
            ("$kind", "docker".to_owned()),
        ]
    );
    assert!((target.missed_above_ms - 120.0).abs() < 1e-9, "the factor is 1.2");
}

#[test]
fn the_query_and_the_factor_can_be_set() {
    let query = "x{n='$name',u='$uid',k='$kind'}";
    let text = format!("prometheus_query = \"{query}\"\nlatency_factor = 1.5");
    let question = terms(&text).question([workload()]);
    assert_eq!(question.query, query);
    assert!((question.targets[0].missed_above_ms - 150.0).abs() < 1e-9);
}

#[test]
fn a_target_that_is_not_judged_is_told_of() {
    let nowhere = terms("");
    let question = nowhere.question([workload()]);
    assert_eq!(question.url, None);
    assert_eq!(
        nowhere.problem(&question).unwrap(),
        "prometheus_url: is not set, so Walras cannot judge the latency target of web"
    );
    let two = nowhere.question([workload(), workload()]);
    let told = nowhere.problem(&two).unwrap();
    assert!(told.ends_with("judge the latency targets of web and 1 more"), "{told}");
    assert_eq!(nowhere.problem(&nowhere.question([])), None);
    let somewhere = terms("prometheus_url = \"http://p:9090\"");
    assert_eq!(somewhere.problem(&somewhere.question([workload()])), None);
}
