//! The same workloads in the simulator, where no cgroup can be written or that is not wanted.

use walras_sim::contest::Contestant;
use walras_sim::recording::Recorder;
use walras_sim::run::run_node;
use walras_sim::scenario::Scenario;

use super::cast::WEB;
use super::outcome::{Phase, Total};

/// Runs one phase. There is a policy of that name.
pub(super) fn play(scenario: &Scenario, policy: &'static str) -> Option<Phase> {
    let mut decides = Contestant::named(policy)?.policy(scenario, 0);
    let places: Vec<usize> = (0..scenario.pods.len()).collect();
    let mut recorder = Recorder::new(scenario.duration_s, &places);
    let tallies = run_node(scenario, 0, &mut *decides, &mut recorder);
    let mut phase = Phase {
        policy,
        pods: Vec::new(),
        latencies: walras_sim::load::Histogram::default(),
        unanswered: None,
        changes: 0,
        recording: recorder.end(),
    };
    let mut resizes = 0.0;
    for tally in &tallies {
        resizes += tally.resizes();
        if tally.name() == WEB {
            phase.latencies.merge(tally.latencies());
        }
        phase.pods.push(Total {
            name: tally.name().to_owned(),
            limit_core_s: tally.limit_core_hours() * 3600.0,
            used_core_s: tally.used_core_hours() * 3600.0,
            periods: tally.periods(),
            throttled_periods: tally.throttled(),
        });
    }
    phase.changes = whole(resizes);
    Some(phase)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
fn whole(count: f64) -> u64 {
    count as u64
}

#[cfg(test)]
mod tests {
    use walras_core::units::Millicores;

    use super::*;
    use crate::commands::demo::cast::scenario;

    #[test]
    fn the_market_helps_the_service_on_machines_of_any_size() {
        for capacity in [1, 2, 4, 8].map(Millicores::from_cores) {
            let scenario = scenario(capacity, 25);
            let [before, after] =
                ["static", "walras"].map(|name| play(&scenario, name).unwrap().figures());
            let told = format!("{capacity}: {before:?}\n{after:?}");
            assert!(before.web_throttled_ratio > 0.4, "{told}");
            assert!(after.web_throttled_ratio < before.web_throttled_ratio / 2.0, "{told}");
            assert!(after.web_p95_ms < before.web_p95_ms / 2.0, "{told}");
            assert!(after.batch_core_s >= before.batch_core_s, "{told}");
            assert!(after.greedy_ratio < before.greedy_ratio, "{told}");
            assert!(after.woken_ratio.unwrap() > 0.95, "{told}");
        }
    }
}
