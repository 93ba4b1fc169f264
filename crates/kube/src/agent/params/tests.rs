//! Pods as JSON in, what the market is told of them out.

use super::*;

const FIXTURE: &str = include_str!("../../../testdata/params.txt");

fn rules() -> Rules {
    Rules {
        cap_rule: CapRule::Loose,
        baseline: Millicores::new(100),
        node: Millicores::new(4000),
        guaranteed: false,
        respect_limits: false,
        excluded: vec!["kube-system".to_owned(), "mbcas-system".to_owned()],
        mode: Mode::LimitsOnly,
        target_latency_ms: None,
    }
}

/// A running pod with the fixture's fields on top.
fn check(text: &str) -> String {
    let pod: Pod = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    match judge(&pod, None, &rules()) {
        Err(left) => format!("left alone: {left}"),
        Ok(params) => {
            let bounds = params.bounds;
            let mut told = format!(
                "{} {}..{} weight {} request {} limit {} came with {} {}",
                params.mode,
                bounds.min(),
                bounds.max(),
                params.weight,
                params.request,
                params.limit.map_or("none".to_owned(), |limit| limit.to_string()),
                params.original_limit.map_or("none".to_owned(), |limit| limit.to_string()),
                params.family.as_str(),
            );
            if let Some(target) = params.target_latency_ms {
                told += &format!(" within {target} ms");
            }
            for complaint in params.complaints {
                told += &format!("\n{complaint}");
            }
            told
        }
    }
}

#[test]
fn pods_are_sized_as_they_say_or_left_alone_for_a_reason() {
    let mut cases = 0;
    for case in FIXTURE.split("\ncase ").skip(1) {
        let (name, rest) = case.split_once('\n').unwrap();
        let (text, rest) = rest.split_once("----\n").unwrap();
        let expected = rest.split("\n\n").next().unwrap().trim_end();
        assert_eq!(check(text), expected, "{name}");
        cases += 1;
    }
    assert!(cases >= 12, "{cases}");
}

#[test]
fn guaranteed_pods_are_sized_where_that_is_configured() {
    let text = r#"{"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "resources":
        {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]},
        "status": {"phase": "Running", "qosClass": "Guaranteed"}}"#;
    let pod: Pod = serde_json::from_str(text).unwrap();
    assert_eq!(judge(&pod, None, &rules()), Err(LeftAlone::Guaranteed));
    let all = Rules { guaranteed: true, ..rules() };
    assert_eq!(judge(&pod, None, &all).unwrap().qos, Qos::Guaranteed);
}

#[test]
fn a_limit_is_a_ceiling_only_where_that_is_configured() {
    let text = r#"{"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "resources":
        {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}]},
        "status": {"phase": "Running", "qosClass": "Burstable"}}"#;
    let pod: Pod = serde_json::from_str(text).unwrap();
    assert_eq!(judge(&pod, None, &rules()).unwrap().bounds.max(), Millicores::new(4000));
    let strict = Rules { respect_limits: true, ..rules() };
    assert_eq!(judge(&pod, None, &strict).unwrap().bounds.max(), Millicores::new(2000));
    let small = Rules { node: Millicores::new(900), ..rules() };
    let bounds = judge(&pod, None, &small).unwrap().bounds;
    let both = (bounds.min().get(), bounds.max().get());
    assert_eq!(both, (1000, 1000), "nobody loses what it came with to the reserve");
}

#[test]
fn what_there_is_to_divide_is_what_is_left() {
    let node = Millicores::new(4000);
    let reserve = Ratio::from_percent(10);
    let check = |left_alone: u64, came_with: u64| {
        capacity(node, reserve, Millicores::new(left_alone), Millicores::new(came_with)).get()
    };
    assert_eq!(check(600, 0), 3000);
    assert_eq!(check(600, 3000), 3000);
    assert_eq!(check(600, 3300), 3300, "the reserve gives way to what pods came with");
    assert_eq!(check(600, 9000), 3400, "but nothing gives way to what the node has not got");
    assert_eq!(check(9000, 100), 0);
}

#[test]
fn whoever_was_ever_resized_gets_it_back_also_if_it_is_left_alone_by_now() {
    let came_with = r#"{"app":{"cpuRequestMilli":150,"cpuLimitMilli":300},
        "log":{"cpuRequestMilli":10}}"#;
    let came_with = came_with.replace(['\n', ' '], "").replace('"', "\\\"");
    let original = &format!(r#""walras.dev/original-resources": "{came_with}""#);
    let check = |namespace: &str, annotations: &str, phase: &str, everybody: Mode| {
        let text = format!(
            r#"{{"metadata": {{"name": "web", "namespace": "{namespace}",
            "annotations": {{{annotations}}}}}, "status": {{"phase": "{phase}"}}}}"#
        );
        let pod: Pod = serde_json::from_str(&text).unwrap();
        let back = to_give_back(&pod, None, everybody);
        back.map_or("nothing".to_owned(), |back| format!("{}/{}", back.request, back.limit))
    };
    let (all, out) = (Mode::Restore, format!(r#""mbcas.io/managed": "false", {original}"#));
    assert_eq!(check("shop", original, "Running", all), "160m/1024300m");
    assert_eq!(check("shop", &out, "Running", all), "160m/1024300m", "it opted out");
    assert_eq!(check("kube-system", original, "Running", all), "160m/1024300m");
    assert_eq!(check("shop", original, "Running", Mode::Off), "nothing");
    assert_eq!(check("shop", "", "Running", all), "nothing", "nobody changed it");
    assert_eq!(check("shop", original, "Succeeded", all), "nothing");
    let itself = format!(r#""walras.dev/mode": "restore", {out}"#);
    assert_eq!(check("shop", &itself, "Running", Mode::LimitsOnly), "160m/1024300m");
}

#[test]
fn what_a_pod_sets_aside_is_what_kubernetes_counts() {
    let check = |whole: &str, containers: &[&str], phase: &str| {
        let each: Vec<String> = containers
            .iter()
            .map(|resources| format!(r#"{{"name": "c", "resources": {{{resources}}}}}"#))
            .collect();
        let text = format!(
            r#"{{"spec": {{"resources": {{{whole}}}, "containers": [{}]}},
            "status": {{"phase": "{phase}"}}}}"#,
            each.join(", ")
        );
        request_of(&serde_json::from_str(&text).unwrap()).get()
    };
    let (request, limit) = (r#""requests": {"cpu": "200m"}"#, r#""limits": {"cpu": "1"}"#);
    let both = format!("{request}, {limit}");
    assert_eq!(check("", &[&both, limit, ""], "Running"), 1200, "a limit is a request, too");
    assert_eq!(check("", &[request, r#""limits": {"cpu": "lots"}"#], "Running"), 200);
    assert_eq!(check(r#""requests": {"cpu": "3"}"#, &[request], "Running"), 3000);
    assert_eq!(check(limit, &[request], "Running"), 200);
    assert_eq!(check(limit, &[""], "Running"), 1000);
    assert_eq!(check(limit, &[&both], "Failed"), 0);
}

#[test]
fn a_request_follows_use_only_where_requests_may_change() {
    let rule = |mode: &str, class: &str, more: &str| rule_of(mode, class, more, r#""cpu": "1""#);
    assert_eq!(rule("requests-and-limits", "Burstable", ""), "follows");
    assert_eq!(rule("off", "Burstable", ""), "follows", "so that what is recommended is true");
    assert_eq!(rule("limits-only", "Burstable", ""), "kept");
    assert_eq!(rule("restore", "Burstable", ""), "kept");
    assert_eq!(rule("requests-and-limits", "Guaranteed", ""), "kept", "its limit says it");
    let scaled = r#", "walras.dev/autoscaler": "HorizontalPodAutoscaler/web""#;
    assert_eq!(rule("requests-and-limits", "Burstable", scaled), "scaled");
    assert_eq!(rule_of("requests-and-limits", "Burstable", "", ""), "kept", "without a limit");
}

/// What becomes of the request of a pod with these annotations and limits.
fn rule_of(mode: &str, class: &str, more: &str, limits: &str) -> &'static str {
    let text = format!(
        r#"{{"metadata": {{"name": "web", "annotations": {{"walras.dev/mode": "{mode}"{more}}}}},
            "spec": {{"containers": [{{"name": "app", "resources":
              {{"requests": {{"cpu": "1"}}, "limits": {{{limits}}}}}}}]}},
            "status": {{"phase": "Running", "qosClass": "{class}"}}}}"#
    );
    let rules = Rules { guaranteed: true, ..rules() };
    judge(&serde_json::from_str(&text).unwrap(), None, &rules).unwrap().request_rule.name()
}
