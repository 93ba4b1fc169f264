//! The models that come with the program: trained on the simulator's interference, and named so.
//!
//! They are a beginning for clusters that have no events of their own yet. `docs/brain.md` has the
//! command that makes these files, byte for byte, and what they are worth.

use crate::file::{ModelFile, read};
use crate::train::Kind;

const MLP: &[u8] = include_bytes!("../models/simulator-trained-mlp.safetensors");
const TREES: &[u8] = include_bytes!("../models/simulator-trained-trees.safetensors");

/// The model of a kind that comes with the program.
///
/// # Panics
///
/// Never: a test reads both.
#[must_use]
pub fn embedded(kind: Kind) -> ModelFile {
    read(embedded_bytes(kind), None).expect("a test reads both")
}

/// Its file.
#[must_use]
pub const fn embedded_bytes(kind: Kind) -> &'static [u8] {
    match kind {
        Kind::Mlp => MLP,
        Kind::Trees => TREES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{NodeFacts, NodeFeature, PodFacts, Workload};
    use crate::verdict::Verdict;

    #[test]
    fn both_are_read_named_as_what_they_are_and_small() {
        for (kind, most) in [(Kind::Mlp, 32 << 10), (Kind::Trees, 160 << 10)] {
            let file = embedded(kind);
            assert!(file.about.name.contains("simulator-trained"), "{}", file.about.name);
            assert!(file.about.calibrated && file.about.trained.is_some());
            let on = file.about.trained.unwrap();
            assert!(on.settings.monotone && on.settings.kind == kind && on.events > 5_000);
            assert!(embedded_bytes(kind).len() < most, "{}", embedded_bytes(kind).len());
        }
    }

    #[test]
    fn a_busy_node_scores_below_an_idle_one() {
        let node = |cpu: f64, wait: f64| {
            NodeFacts::UNKNOWN
                .with(NodeFeature::CpuUtilization, cpu)
                .with(NodeFeature::MemoryUtilization, 0.4)
                .with(NodeFeature::DiskIoWaitMs, wait)
        };
        let nodes = [node(0.2, 1.0), node(0.9, 1.0), node(0.9, 8.0)];
        for (kind, workload) in [Kind::Mlp, Kind::Trees].into_iter().flat_map(|kind| {
            [Workload::CpuBound, Workload::Balanced, Workload::IoBound].map(|w| (kind, w))
        }) {
            let pod =
                PodFacts { cpu_milli: 500, memory_bytes: 1 << 30, workload, ..PodFacts::default() };
            let mut verdicts = [Verdict::NO_MODEL; 3];
            embedded(kind).model.score(&pod, &nodes, &mut verdicts);
            let [idle, busy, worse] = verdicts.map(|verdict| verdict.score);
            assert!(
                idle > busy + 5.0 && busy >= worse,
                "{kind:?} {workload:?} {idle} {busy} {worse}"
            );
        }
    }
}
