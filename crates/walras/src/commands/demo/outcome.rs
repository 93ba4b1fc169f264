//! What a phase came to: plain data, measured or simulated.

use walras_sim::load::Histogram;
use walras_sim::recording::Recording;

use super::cast::{BATCH, GREEDY, SLEEPER, WEB};

/// One phase.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    /// Under which policy: `static` or `walras`.
    pub(super) policy: &'static str,
    /// The workloads, in the order of the scenario.
    pub(super) pods: Vec<Total>,
    /// The latencies of `web`.
    pub(super) latencies: Histogram,
    /// How many requests had no answer by the end; none where that is not known.
    pub(super) unanswered: Option<u64>,
    /// How many times anything was set.
    pub(super) changes: u64,
    /// How it went.
    pub(super) recording: Recording,
}

/// What one workload came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Total {
    pub(super) name: String,
    /// Its limit, added up over time.
    pub(super) limit_core_s: f64,
    pub(super) used_core_s: f64,
    pub(super) periods: f64,
    pub(super) throttled_periods: f64,
}

/// The figures that phases are compared by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures {
    /// Of the periods in which `web` wanted CPU.
    pub(super) web_throttled_ratio: f64,
    pub(super) web_p50_ms: f64,
    pub(super) web_p95_ms: f64,
    pub(super) web_p99_ms: f64,
    /// The limits of all, added up over time.
    pub(super) allocated_core_s: f64,
    /// What all of them used.
    pub(super) used_core_s: f64,
    /// What the job got done, as CPU time.
    pub(super) batch_core_s: f64,
    /// What the neighbour took of all that was used.
    pub(super) greedy_ratio: f64,
    /// How much of what it wanted and had a right to `sleeper` got in the first second after it
    /// woke, on average; none where it never did.
    pub(super) woken_ratio: Option<f64>,
}

// === impl Phase ===

impl Phase {
    pub(super) fn figures(&self) -> Figures {
        let quantile_ms = |share| self.latencies.quantile_ms(share).unwrap_or(0.0);
        let sum = |part: fn(&Total) -> f64| self.pods.iter().map(part).sum::<f64>();
        let of = |name: &str| self.pods.iter().find(|pod| pod.name == name).cloned();
        let web = of(WEB).unwrap_or_default();
        let used_core_s = sum(|pod| pod.used_core_s);
        let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        Figures {
            web_throttled_ratio: ratio(web.throttled_periods, web.periods),
            web_p50_ms: quantile_ms(0.50),
            web_p95_ms: quantile_ms(0.95),
            web_p99_ms: quantile_ms(0.99),
            allocated_core_s: sum(|pod| pod.limit_core_s),
            used_core_s,
            batch_core_s: of(BATCH).unwrap_or_default().used_core_s,
            greedy_ratio: ratio(of(GREEDY).unwrap_or_default().used_core_s, used_core_s),
            woken_ratio: self.woken_ratio(),
        }
    }

    fn woken_ratio(&self) -> Option<f64> {
        let place = self.pods.iter().position(|pod| pod.name == SLEEPER)?;
        let series = self.recording.pods.iter().find(|series| series.place == place)?;
        if self.recording.step_s != 1 {
            // Seconds that were added up tell nothing of the first one.
            return None;
        }
        let pairs = series.points.windows(2);
        let woken = pairs.filter(|pair| pair[1].offered_cores > 10.0 * pair[0].offered_cores);
        let got: Vec<f64> = woken
            .map(|pair| {
                let owed = pair[1].offered_cores.min(pair[1].request_cores);
                (pair[1].used_cores / owed).min(1.0)
            })
            .collect();
        let count = u32::try_from(got.len()).ok().filter(|count| *count > 0)?;
        Some(got.iter().sum::<f64>() / f64::from(count))
    }
}
