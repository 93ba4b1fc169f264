//! What a plain host asks Prometheus, and about whom: from the configuration to a question.

#[cfg(test)]
mod tests;

use walras_core::units::WorkloadUid;
use walras_node::latency::{Question, SettingNames, Target};

use crate::adopt::Source;

/// How latency is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyTerms {
    /// Where Prometheus answers; nothing is judged where that is not said.
    pub url: Option<String>,
    /// What it is asked; `$name`, `$uid` and `$kind` are replaced.
    pub query: String,
    /// A target counts as missed when latency is above it times this.
    pub factor: f64,
}

/// A workload whose latency is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Its identity: its path.
    pub uid: WorkloadUid,
    /// What a person calls it.
    pub name: String,
    /// Where it comes from.
    pub source: Source,
    /// Its target.
    pub target_ms: f64,
}

impl LatencyTerms {
    /// What the settings are called.
    pub const SETTINGS: SettingNames =
        SettingNames { url: "prometheus_url", query: "prometheus_query" };

    /// What Prometheus is asked where nothing is said: the latency that 99 of 100 requests stay
    /// below. A service that is scraped by hand has its name as its job. A rate takes two
    /// samples, and Prometheus takes one a minute unless told otherwise.
    pub const DEFAULT_QUERY: &str = "histogram_quantile(0.99, sum by (le) (rate(\
        http_request_duration_seconds_bucket{job=\"$name\"}[2m])))";

    /// What is asked about these workloads.
    pub fn question(&self, workloads: impl IntoIterator<Item = Judged>) -> Question {
        let target = |workload: Judged| {
            let Judged { uid, name, source, target_ms } = workload;
            let placeholders = vec![
                ("$name", name.clone()),
                ("$uid", uid.to_string()),
                ("$kind", source.name().to_owned()),
            ];
            Target { uid, name, placeholders, missed_above_ms: target_ms * self.factor }
        };
        let targets = workloads.into_iter().map(target).collect();
        Question { url: self.url.clone(), query: self.query.clone(), targets }
    }

    /// What a person should know who gave targets and no Prometheus to ask.
    #[must_use]
    pub fn problem(&self, question: &Question) -> Option<String> {
        let first = question.targets.first().filter(|_| self.url.is_none())?;
        let whose = match question.targets.len() {
            1 => format!("target of {}", first.name),
            many => format!("targets of {} and {} more", first.name, many - 1),
        };
        let SettingNames { url, .. } = Self::SETTINGS;
        Some(format!("{url}: is not set, so Walras cannot judge the latency {whose}"))
    }
}

impl Default for LatencyTerms {
    fn default() -> Self {
        Self { url: None, query: Self::DEFAULT_QUERY.to_owned(), factor: 1.2 }
    }
}
