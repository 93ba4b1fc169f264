//! `walras host --check`: what a look at the machine found, as text or JSON.

use std::io::Write;

use serde::Serialize;
use walras_host::cgroups::{Check, Checked, Verdict};

use crate::failure::Failure;
use crate::screen;

/// As programs read it.
#[derive(Serialize)]
struct Told<'a> {
    groups: Vec<ToldGroup<'a>>,
    others: usize,
    problems: &'a [String],
}

#[derive(Serialize)]
struct ToldGroup<'a> {
    path: &'a str,
    kind: &'static str,
    sized: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_milli: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<&'a str>,
}

/// Prints what was found.
pub(super) fn print(check: &Check, json: bool) -> Result<(), Failure> {
    let mut output = screen::output();
    if json {
        let groups = check.groups.iter().map(told).collect();
        let told = Told { groups, others: check.others, problems: &check.problems };
        writeln!(output, "{}", serde_json::to_string(&told).map_err(std::io::Error::from)?)?;
    } else {
        output.write_all(text(check).as_bytes())?;
    }
    Ok(output.flush()?)
}

fn told(checked: &Checked) -> ToldGroup<'_> {
    let Checked { path, source, verdict } = checked;
    let (name, limit_milli, because) = match verdict {
        Verdict::Sized { name, limit } => (Some(name.as_str()), limit.map(|it| it.get()), None),
        Verdict::Left(because) => (None, None, Some(because.as_str())),
    };
    ToldGroup { path, kind: source.name(), sized: name.is_some(), name, limit_milli, because }
}

fn text(check: &Check) -> String {
    let mut sized = Vec::new();
    let mut left = Vec::new();
    for Checked { path, source, verdict } in &check.groups {
        match verdict {
            Verdict::Sized { name, limit } => {
                let limit = limit.map_or_else(|| "no limit".to_owned(), |it| format!("limit {it}"));
                sized.push(format!("  {name}  ({}, {limit})  {path}\n", source.name()));
            }
            Verdict::Left(because) => left.push(format!("  {path}: {because}\n")),
        }
    }
    let mut text = format!("Would be sized: {}\n{}", sized.len(), sized.concat());
    text += &format!("Left alone: {}\n{}", left.len(), left.concat());
    text += &format!("Other groups, no workloads by their place and name: {}\n", check.others);
    for problem in &check.problems {
        text += &format!("Problem: {problem}\n");
    }
    text + "Nothing was changed.\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_core::units::Millicores;
    use walras_host::adopt::Source;

    #[test]
    fn who_would_be_sized_and_why_others_would_not_is_said() {
        let group =
            |path: &str, source, verdict| Checked { path: path.to_owned(), source, verdict };
        let sized = Verdict::Sized { name: "web".to_owned(), limit: Some(Millicores::new(500)) };
        let left = Verdict::Left("there are no processes in it".to_owned());
        let check = Check {
            groups: vec![
                group("/docker/a", Source::Docker, sized),
                group("/walras/b", Source::Walras, left),
            ],
            others: 7,
            problems: vec!["something".to_owned()],
        };
        let expected = "Would be sized: 1\n  web  (docker, limit 500m)  /docker/a\n\
            Left alone: 1\n  /walras/b: there are no processes in it\n\
            Other groups, no workloads by their place and name: 7\n\
            Problem: something\nNothing was changed.\n";
        assert_eq!(text(&check), expected);
        let told = serde_json::to_value(told(&check.groups[0])).unwrap();
        let json =
            r#"{"path":"/docker/a","kind":"docker","sized":true,"name":"web","limit_milli":500}"#;
        assert_eq!(told, serde_json::from_str::<serde_json::Value>(json).unwrap());
    }
}
