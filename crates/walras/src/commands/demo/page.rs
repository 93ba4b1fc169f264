//! The report: the table, the latencies, and every workload over time in both phases.

use walras_sim::contest::Standing;
use walras_sim::measure;
use walras_sim::report::{self, Chapter};

use super::outcome::Phase;
use super::{Trial, cast, table};

const ABOUT_PODS: &str = "Every workload in both phases. Offered is what it would use if it could \
                          have all it wants, limit and usage are means of a second.";

/// The whole page.
pub(super) fn html(trial: &Trial) -> String {
    let how = if trial.simulated { "simulated" } else { "measured on this machine" };
    let title = format!("Walras: static limits and the market, {how}");
    let lead = format!(
        "Five workloads on {} cores, {} s under static limits that add up to 140 % of that, then \
         the same load for as long under the market: a steady one, a service with bursts (web), a \
         job (batch), one that sleeps and wants its right back, and a greedy neighbour.",
        cast::cores(trial.scenario.node.capacity),
        trial.scenario.duration_s
    );
    let phases = [&trial.before, &trial.after];
    let standings = phases.map(standing);
    let recordings = phases.map(|phase| (phase.policy, phase.recording.clone()));
    let rows = table::rows(&trial.before, &trial.after);
    report::trial(&report::Trial {
        title: &title,
        lead: &lead,
        verdict: &trial.summary,
        headings: &table::HEADINGS,
        rows: &rows,
        about_pods: ABOUT_PODS,
        chapter: Chapter {
            scenario: &trial.scenario,
            standings: &standings,
            recordings: &recordings,
        },
    })
}

fn standing(phase: &Phase) -> Standing {
    Standing {
        policy: phase.policy,
        setting: None,
        figures: measure::Figures::default(),
        latencies: phase.latencies.clone(),
        first_node: Vec::new(),
        others: Vec::new(),
    }
}
