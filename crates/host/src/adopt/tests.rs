//! Which cgroups are workloads: the cases in `testdata/adopt.txt`, text in and text out.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Judged, Marks, Told, judge, recognise};
use crate::config::{Config, Overrides};

const FIXTURE: &str = include_str!("../../testdata/adopt.txt");

/// A case: a configuration, then paths with what they say about themselves.
fn run(config: &str, asked: &str) -> String {
    let config = Config::read(config, &Overrides::default()).unwrap_or_else(|it| panic!("{it}"));
    let mut shown = String::new();
    for line in asked.lines() {
        let (path, labels) = line.split_once(' ').unwrap_or((line, ""));
        let path = path.replace("ID", &"0123456789abcdef".repeat(4));
        let told = match recognise(&config.adopt, &path) {
            None => "no workload".to_owned(),
            Some(seen) => tell(&judge(&config.adopt, &seen, &told(labels))),
        };
        writeln!(shown, "{}: {told}", line.split(' ').next().unwrap_or_default()).unwrap();
    }
    shown
}

fn told(labels: &str) -> Told {
    match labels.strip_prefix("unknown ") {
        Some(because) => Told::Unknown(because.to_owned()),
        None => Told::Marks(marks(labels)),
    }
}

fn marks(labels: &str) -> Marks {
    if let Some(unit) = labels.strip_prefix("unit ") {
        return Marks::of_unit([unit.replace("; ", "\n").as_str()]);
    }
    let (name, labels) = match labels.strip_prefix("name=") {
        Some(rest) => rest.split_once(' ').unwrap_or((rest, "")),
        None => ("", labels),
    };
    let pairs = labels.split_whitespace().filter_map(|label| label.split_once('='));
    let pairs: BTreeMap<_, _> = pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    let docker = serde_json::json!({ "Name": format!("/{name}"), "Config": { "Labels": pairs } });
    Marks::of_docker(&docker.to_string()).unwrap()
}

fn tell(judged: &Judged) -> String {
    match judged {
        Judged::LookBelow => "look below".to_owned(),
        Judged::Leave => "leave".to_owned(),
        Judged::Unknown(because) => format!("unknown: {because}"),
        Judged::Adopt(it) => {
            let max = it.max.map_or("all".to_owned(), |max| max.to_string());
            let mut told = format!(
                "{} {} min {} max {max} weight {} as {}",
                it.source.name(),
                it.name,
                it.min.map_or("none".to_owned(), |min| min.to_string()),
                it.weight,
                it.family
            );
            if let Some(target) = it.target_latency_ms {
                write!(told, " within {target} ms").unwrap();
            }
            for complaint in &it.complaints {
                write!(told, " ({complaint})").unwrap();
            }
            told
        }
    }
}

#[test]
fn cgroups_are_adopted_as_written_down() {
    let mut cases = 0;
    for case in FIXTURE.split("\ncase ").skip(1) {
        let (name, rest) = case.split_once('\n').expect("a name");
        let (config, rest) = rest.split_once("--\n").expect("a configuration");
        let (asked, expected) = rest.split_once("----\n").expect("paths");
        let prose = |line: &&str| !line.starts_with('#') && !line.is_empty();
        let expected: Vec<&str> = expected.lines().filter(prose).collect();
        assert_eq!(run(config, asked).trim_end(), expected.join("\n"), "{name}");
        cases += 1;
    }
    assert_eq!(cases, 10);
}

#[test]
fn what_cannot_be_understood_says_nothing() {
    assert!(Marks::of_docker("{").is_err());
    assert!(Marks::of_podman("x", "{", "[]").is_err());
}

#[test]
fn podman_gives_names_and_annotations() {
    let config = r#"{"hostname": "abc", "annotations": {"walras.dev/min-cpu": "250m"}}"#;
    let containers = r#"[{"id": "one", "names": ["web"]}, {"id": "two"}]"#;
    let one = Marks::of_podman("one", config, containers).unwrap();
    assert_eq!((one.name.as_deref(), one.min.unwrap().get()), (Some("web"), 250));
    let two = Marks::of_podman("two", config, containers).unwrap();
    assert_eq!(two.name.as_deref(), Some("abc"));
}
