//! `kubectl walras explain POD --placement`: why a pod is on its node, in sentences and a table.

use std::fmt::Write as _;
use std::io::Write as _;

use walras_kube::plugin::Session;
use walras_wire::placement::{NodeTold, PlacementTold};

use super::told;
use crate::failure::Failure;
use crate::screen;

/// Asks the schedulers, and tells what they remember.
pub(super) fn explain(
    session: &Session,
    system: &str,
    namespace: &str,
    pod: &str,
) -> Result<(), Failure> {
    let found = session.placement(system, namespace, pod).map_err(told)?;
    let mut output = screen::output();
    write!(output, "{}", sentences(&found))?;
    Ok(output.flush()?)
}

/// Why a pod is on its node.
fn sentences(placement: &PlacementTold) -> String {
    let PlacementTold { namespace, pod, candidates, recommended, .. } = placement;
    let mut told = format!("{namespace}/{pod}: {candidates} nodes were scored.\n");
    let best = if placement.strictly { "The best is" } else { "As good as any is" };
    line(&mut told, format_args!("{best} {recommended}: {}.", placement.reasoning));
    match placement.actual.as_deref() {
        None => line(&mut told, format_args!("It is not bound to a node yet.")),
        Some(actual) if actual == recommended => {
            line(&mut told, format_args!("It was put there."));
        }
        Some(actual) => {
            let why = if placement.mode == "shadow" {
                "the mode is shadow, so scores do not steer"
            } else {
                "kube-scheduler's own plugins, whose points are added to ours, preferred it"
            };
            line(&mut told, format_args!("It was put on {actual}: {why}."));
        }
    }
    told.push('\n');
    for node in &placement.nodes {
        line(&mut told, format_args!("{}", row(node, placement.actual.as_deref())));
    }
    let left_out = placement.candidates.saturating_sub(placement.nodes.len());
    if left_out > 0 {
        line(&mut told, format_args!("and {left_out} others that scored no better"));
    }
    told
}

fn row(node: &NodeTold, actual: Option<&str>) -> String {
    let mark = if actual == Some(node.node.as_str()) { "*" } else { " " };
    let share =
        |value: Option<f64>| value.map_or("?".to_owned(), |it| format!("{:.0} %", it * 100.0));
    let (cpu, memory) = (share(node.cpu), share(node.memory));
    let mut told =
        format!("{mark} {:>5.1}  {}  CPU {cpu}, memory {memory}", node.points, node.node);
    if node.paid > 0.0 {
        // Writing to a String does not fail.
        write!(told, ", {:.1} less for its market", node.paid).ok();
    }
    if node.basis != "model" {
        write!(told, " (neutral: {})", node.basis.replace('_', " ")).ok();
    }
    told
}

fn line(told: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String does not fail.
    writeln!(told, "{text}").ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, points: f64, basis: &str) -> NodeTold {
        NodeTold {
            node: name.to_owned(),
            points,
            basis: basis.to_owned(),
            cpu: (basis == "model").then_some(0.25),
            ..NodeTold::default()
        }
    }

    #[test]
    fn a_placement_is_told_in_sentences_and_a_table() {
        let placement = PlacementTold {
            namespace: "shop".to_owned(),
            pod: "web".to_owned(),
            mode: "shadow".to_owned(),
            candidates: 5,
            recommended: "n1".to_owned(),
            strictly: true,
            reasoning: "n1: low CPU load (CPU 25 %, memory unknown)".to_owned(),
            actual: Some("n2".to_owned()),
            nodes: vec![
                NodeTold { paid: 4.0, ..node("n1", 76.0, "model") },
                node("n2", 50.0, "no_telemetry"),
            ],
            ..PlacementTold::default()
        };
        let expected = "\
shop/web: 5 nodes were scored.
The best is n1: n1: low CPU load (CPU 25 %, memory unknown).
It was put on n2: the mode is shadow, so scores do not steer.

   76.0  n1  CPU 25 %, memory ?, 4.0 less for its market
*  50.0  n2  CPU ?, memory ? (neutral: no telemetry)
and 3 others that scored no better
";
        assert_eq!(sentences(&placement), expected);
        let there = PlacementTold { actual: Some("n1".to_owned()), ..placement };
        assert!(sentences(&there).contains("It was put there."));
    }
}
