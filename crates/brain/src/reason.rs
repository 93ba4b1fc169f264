//! Why a node has its score, in a few words for people.

use crate::features::{NodeFacts, NodeFeature};
use crate::verdict::{Basis, Verdict};

/// One line about a node, such as `node-1: low CPU load, ample memory (CPU 30 %, memory 40 %)`.
#[must_use]
pub fn reason(name: &str, node: &NodeFacts, verdict: &Verdict) -> String {
    let because = match verdict.basis {
        Basis::NoModel => return format!("{name}: no model is loaded, so the score is neutral"),
        Basis::SetAside => {
            return format!("{name}: the model did worse than neutral lately, so it is set aside");
        }
        Basis::Stale { age_ms: 0 } => {
            return format!("{name}: its telemetry is from the future, so the score is neutral");
        }
        Basis::Stale { age_ms } => {
            let seconds = age_ms / 1000;
            return format!("{name}: its telemetry is {seconds} s old, so the score is neutral");
        }
        Basis::Refused(bad) => return format!("{name}: {bad}"),
        Basis::Model => words(node, verdict.score),
    };
    let share = |feature: NodeFeature| match node.get(feature) {
        Some(value) => format!("{:.0} %", value * 100.0),
        None => "unknown".to_owned(),
    };
    let (cpu, memory) = (share(NodeFeature::CpuUtilization), share(NodeFeature::MemoryUtilization));
    format!("{name}: {because} (CPU {cpu}, memory {memory})")
}

fn words(node: &NodeFacts, score: f32) -> String {
    let mut words = Vec::new();
    match node.get(NodeFeature::CpuUtilization) {
        Some(cpu) if cpu > 0.8 => words.push("high CPU load"),
        Some(cpu) if cpu < 0.3 => words.push("low CPU load"),
        Some(_) | None => {}
    }
    match node.get(NodeFeature::MemoryUtilization) {
        Some(memory) if memory > 0.85 => words.push("memory pressure"),
        Some(memory) if memory < 0.4 => words.push("ample memory"),
        Some(_) | None => {}
    }
    if node.get(NodeFeature::L3CacheMissRate).is_some_and(|rate| rate > 0.5) {
        words.push("cache contention");
    }
    match (words.is_empty(), score) {
        (false, _) => words.join(", "),
        (true, score) if score >= 70.0 => "good conditions".to_owned(),
        (true, score) if score >= 50.0 => "moderate conditions".to_owned(),
        (true, _) => "elevated load".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::BadTelemetry;
    use NodeFeature as N;

    #[test]
    fn a_reason_names_what_stands_out() {
        let quiet = NodeFacts::UNKNOWN.with(N::CpuUtilization, 0.2).with(N::MemoryUtilization, 0.3);
        let busy = NodeFacts::UNKNOWN.with(N::CpuUtilization, 0.9).with(N::L3CacheMissRate, 0.6);
        let told = |node: &NodeFacts, score| reason("n", node, &Verdict::of_model(score, 1.0));
        assert_eq!(told(&quiet, 0.9), "n: low CPU load, ample memory (CPU 20 %, memory 30 %)");
        let expected = "n: high CPU load, cache contention (CPU 90 %, memory unknown)";
        assert_eq!(told(&busy, 0.1), expected);
        let unknown = NodeFacts::UNKNOWN;
        assert!(told(&unknown, 0.75).starts_with("n: good conditions"));
        assert!(told(&unknown, 0.5).starts_with("n: moderate conditions"));
        assert!(told(&unknown, 0.1).starts_with("n: elevated load"));
        let bad = BadTelemetry { feature: N::DiskIops, value: f64::NAN };
        assert!(reason("n", &busy, &Verdict::refused(bad)).starts_with("n: disk_iops: NaN"));
        assert!(reason("n", &busy, &Verdict::NO_MODEL).contains("no model"));
    }
}
