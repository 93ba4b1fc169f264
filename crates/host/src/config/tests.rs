//! What a configuration says, and everything that is wrong with one.

use super::*;
use walras_core::units::Weight;

/// Everything that is wrong with a text, or nothing.
fn check(text: &str) -> String {
    match Config::read(text, &Overrides::default()) {
        Ok(_) => "fine".to_owned(),
        Err(problems) => problems.to_string(),
    }
}

#[test]
fn an_empty_configuration_only_watches_and_listens_to_this_machine() {
    let config = Config::read("", &Overrides::default()).unwrap();
    assert!(!config.act && config.restore, "what it changed it gives back");
    assert!(config.listen.ip().is_loopback());
    assert_eq!(config.profile, Profile::DIRECT);
    assert_eq!(config.adopt, AdoptRules::default());
    assert_eq!(config.record, None);
}

#[test]
fn everything_can_be_said() {
    let text = r#"
act = true
restore = false
listen = "[::1]:9000"
names = ["Web1.example"]
state_dir = "/a"
run_dir = "/b"
capacity = 3.5
look_interval_ms = 500
log_level = "debug"
log_format = "json"
record = "/c"
record_max_mib = 7
profile = "seed"
prometheus_url = "http://127.0.0.1:9090/prometheus"
prometheus_query = "latency_seconds{unit='$name'}"
latency_factor = 2
[adopt]
docker = "marked"
weight = 2
[[rule]]
match = "x"
managed = false
[market]
cooldown_ms = 250
fairness = "nash"
learning = false
"#;
    let config = Config::read(text, &Overrides::default()).unwrap();
    assert!(config.act && !config.restore);
    assert_eq!(config.listen.to_string(), "[::1]:9000");
    assert_eq!(config.names, ["web1.example"]);
    assert_eq!(config.capacity, Some(Millicores::new(3500)));
    assert_eq!(config.look_interval, Span::from_ms(500));
    let record = RecordTo { file: PathBuf::from("/c"), max_mib: 7 };
    assert_eq!(config.record, Some(record));
    assert_eq!(config.profile.name, ProfileName::Seed);
    assert_eq!(config.profile.cooldown_ms, Span::from_ms(250));
    assert_eq!(config.adopt.weight, Weight::from_thousandths(2000).unwrap());
    assert_eq!(config.adopt.rules.len(), 1);
    let LatencyTerms { url, query, factor } = config.latency;
    assert_eq!(url.as_deref(), Some("http://127.0.0.1:9090/prometheus"));
    assert_eq!((query.as_str(), factor), ("latency_seconds{unit='$name'}", 2.0));
}

#[test]
fn every_mistake_about_prometheus_is_told() {
    assert_eq!(
        check("prometheus_url = \"https://p\"\nprometheus_query = \" \"\nlatency_factor = 0.5"),
        "3 problems\n  \
         prometheus_url: \"https://p\" is not an address that starts with http://, such as \
         \"http://127.0.0.1:9090\" (line 1)\n  \
         prometheus_query: \" \" is not a query of Prometheus of at most 4096 bytes, in which \
         $name, $uid and $kind stand for a workload (line 2)\n  \
         latency_factor: 0.5 is not a number from 1 to 100 (line 3)"
    );
    for url in ["", "http://", "http://p q", "http://p\\u0000"] {
        let told = check(&format!("prometheus_url = \"{url}\""));
        assert!(told.starts_with("prometheus_url: "), "{url}: {told}");
    }
}

#[test]
fn ten_mistakes_are_told_as_ten() {
    let text = r#"act = "yes"
listen = "8082"
state_dir = "relative"
capacity = -1
actt = true
log_level = "loud"
[adopt]
docker = "some"
paths = ["ok", 7]
[[rule]]
min = 2
max = 1
[market]
raise_band = 2
cooldown_ns = 1
window_s = 1.5
"#;
    assert_eq!(check(text), include_str!("../../testdata/mistakes.txt").trim_end());
}

#[test]
fn constants_that_contradict_each_other_are_refused() {
    assert_eq!(
        check("[market]\nslow_loop_interval_ms = 1000\nfast_loop_interval_ms = 2000"),
        "market.slow_loop_interval_ms: 1000 is less than fast_loop_interval_ms, which is 2000 \
         (line 2)"
    );
}

#[test]
fn what_is_no_toml_is_told_with_its_line() {
    let told = check("act = true\nlisten = \n");
    assert!(told.starts_with("this is not TOML: "), "{told}");
    assert!(told.ends_with("(line 2)"), "{told}");
    assert!(check("rule = 1").contains("is not a list of tables; write [[rule]]"));
    assert!(check("adopt = 1").contains("adopt: 1 is not a table"));
}

#[test]
fn what_ruins_a_terminal_is_shown_escaped() {
    let told = check("\"a\\u001b[31m\" = 1");
    assert!(told.contains(r"a\u{1b}[31m"), "{told}");
}

#[test]
fn flags_go_before_the_file() {
    let flags = Overrides {
        act: Some(false),
        listen: Some("127.0.0.1:1".parse().unwrap()),
        profile: Some(ProfileName::Api),
        record_max_mib: Some(3),
        ..Overrides::default()
    };
    let text = "act = true\nlisten = \"127.0.0.1:2\"\nprofile = \"seed\"\nrecord = \"/r\"";
    let config = Config::read(text, &flags).unwrap();
    assert!(!config.act);
    assert_eq!(config.listen.port(), 1);
    assert_eq!(config.profile.name, ProfileName::Api);
    assert_eq!(config.record.unwrap().max_mib, 3);
}

#[test]
fn what_takes_a_restart_is_named() {
    let of = |text: &str| Config::read(text, &Overrides::default()).unwrap();
    let (one, other) = (of("act = true"), of("listen = \"127.0.0.1:2\"\nrun_dir = \"/x\""));
    assert_eq!(one.needs_restart(&other), ["listen", "run_dir"]);
    assert!(one.affects_loop(&other));
    assert!(!one.affects_loop(&of("act = true\nlisten = \"127.0.0.1:2\"")));
    assert!(one.affects_loop(&of("act = true\nlatency_factor = 3")));
}

#[test]
fn a_file_that_was_asked_for_must_be_there() {
    let missing = Path::new("/nowhere/host.toml");
    let told = Config::load(Some(missing), &Overrides::default()).unwrap_err().to_string();
    assert!(told.starts_with("/nowhere/host.toml: the configuration cannot be read: "), "{told}");
}
