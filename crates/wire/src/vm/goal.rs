//! One goal of a virtual machine as a message: what is known of it as JSON in, what it should have
//! and why as JSON out.
//!
//! `walras vm goal` reads with [`read`], asks with [`Question::goal`], and writes a [`GoalOutput`].

use std::io::Read;

use serde::{Deserialize, Serialize};
use walras_core::units::{Bytes, ComputeUnit, Ratio, Resources};
use walras_core::vm::{
    Denied, Goal, GoalInput, GoalRule, Memory as Used, Metrics, Parts, Requested, VmBounds,
};

use crate::field::Problems;
use crate::json::{self, ReadError};

use super::amount::{Cpu, Load, Memory, resources};

/// As many minutes of touched memory are read at most.
const MINUTES_MAX: usize = 1440;

/// What a goal is to be computed from.
#[derive(Clone, Debug)]
pub struct Question {
    /// What is counted in.
    pub unit: ComputeUnit,
    /// The least and the most.
    pub bounds: VmBounds,
    /// What the machine has.
    pub using: Resources,
    /// What it tells.
    pub metrics: Option<Metrics>,
    /// What the guest asked for.
    pub requested: Option<Requested>,
    /// What the guest refused.
    pub denied: Option<Denied>,
}

/// What was written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    unit: Amount,
    min: Amount,
    max: Amount,
    using: Amount,
    #[serde(default)]
    metrics: Option<MetricsDocument>,
    #[serde(default)]
    requested: Option<RequestedDocument>,
    #[serde(default)]
    denied: Option<Amount>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Amount {
    cpu: Cpu,
    memory: Memory,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricsDocument {
    load1: Load,
    #[serde(default)]
    load5: Option<Load>,
    #[serde(default)]
    memory: Option<MemoryDocument>,
    #[serde(default)]
    touched: Vec<Memory>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryDocument {
    total: Memory,
    available: Memory,
    #[serde(default)]
    cached: Option<Memory>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestedDocument {
    #[serde(default)]
    cpu: bool,
    #[serde(default)]
    memory: bool,
}

/// What is written about a goal.
#[derive(Debug, Serialize)]
pub struct GoalOutput {
    goal: Amount,
    units: u64,
    decided_by: &'static str,
    bounded: bool,
    refused: bool,
    load: Option<f64>,
    parts: PartsOutput,
}

#[derive(Debug, Serialize)]
struct PartsOutput {
    cpu: Option<u64>,
    memory: Option<u64>,
    memory_total: Option<u64>,
    working_set: Option<u64>,
    requested: Option<u64>,
}

/// Reads what is known of a machine.
///
/// # Errors
/// Whatever is wrong with the bytes, the JSON or what it says.
pub fn read(reader: impl Read) -> Result<Question, ReadError> {
    let document: Document = json::document(reader)?;
    let Document { unit, min, max, using, metrics, requested, denied } = document;
    let (min, max, using) = (min.amount(), max.amount(), using.amount());
    let Some(unit) = ComputeUnit::new(unit.amount()) else {
        return Err(invalid("unit", unit.amount(), "lacks one of its resources"));
    };
    if !min.fits(max) {
        return Err(invalid("min", min, &format!("is more than max, which is {max}")));
    }
    if let Some(metrics) = &metrics {
        metrics.check()?;
    }
    Ok(Question {
        unit,
        bounds: VmBounds::new(min, max),
        using,
        metrics: metrics.map(MetricsDocument::meaning),
        requested: requested.map(|RequestedDocument { cpu, memory }| Requested {
            cpu,
            memory,
            had: using,
        }),
        denied: denied.map(|asked| Denied { had: using, asked: asked.amount() }),
    })
}

fn invalid(path: &str, value: impl ToString, problem: &str) -> ReadError {
    let problem = Problems::one(path.to_owned(), Some(value.to_string()), problem.to_owned());
    ReadError::Invalid(problem)
}

// === impl Question ===

impl Question {
    /// How large the machine should be, by `rule`.
    #[must_use]
    pub fn goal(&self, rule: &GoalRule) -> Goal {
        rule.goal(&GoalInput {
            unit: self.unit,
            bounds: self.bounds,
            using: self.using,
            metrics: self.metrics.as_ref(),
            requested: self.requested,
            denied: self.denied,
        })
    }

    /// The load average that counts, by `rule`.
    #[must_use]
    pub fn load(&self, rule: &GoalRule) -> Option<Ratio> {
        self.metrics.as_ref().map(|metrics| rule.load(metrics))
    }
}

// === impl Amount ===

impl Amount {
    const fn amount(self) -> Resources {
        resources(self.cpu, self.memory)
    }
}

// === impl MetricsDocument ===

impl MetricsDocument {
    fn check(&self) -> Result<(), ReadError> {
        if let Some(memory) = &self.memory
            && memory.available.0 > memory.total.0
        {
            let (available, total) = (memory.available.0.in_words(), memory.total.0.in_words());
            let problem = format!("is more than total, which is {total}");
            return Err(invalid("metrics.memory.available", available, &problem));
        }
        if self.touched.len() > MINUTES_MAX {
            let problem = format!("are more minutes than {MINUTES_MAX}");
            return Err(invalid("metrics.touched", self.touched.len(), &problem));
        }
        Ok(())
    }

    fn meaning(self) -> Metrics {
        let memory = self.memory.map(|MemoryDocument { total, available, cached }| Used {
            total: total.0,
            available: available.0,
            cached: cached.map_or(Bytes::ZERO, |cached| cached.0),
        });
        Metrics {
            load1: self.load1.0,
            load5: self.load5.map(|load| load.0),
            memory,
            touched: self.touched.into_iter().map(|bytes| bytes.0).collect(),
        }
    }
}

// === impl GoalOutput ===

impl GoalOutput {
    /// What is written about the goal of `question`.
    #[must_use]
    pub fn new(question: &Question, rule: &GoalRule) -> Self {
        let Goal { amount, units, parts, from, bounded, refused } = question.goal(rule);
        let Parts { cpu, memory, memory_total, working_set, requested } = parts;
        Self {
            goal: Amount { cpu: Cpu(amount.cpu), memory: Memory(amount.memory) },
            units,
            decided_by: from.code(),
            bounded,
            refused,
            load: question.load(rule).map(Ratio::to_f64),
            parts: PartsOutput { cpu, memory, memory_total, working_set, requested },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = r#""unit":{"cpu":"250m","memory":"1Gi"},"min":{"cpu":"250m","memory":"1Gi"},
        "max":{"cpu":2,"memory":"8Gi"},"using":{"cpu":1,"memory":"4Gi"}"#;

    fn check(more: &str) -> String {
        match read(format!("{{{LEAST}{more}}}").as_bytes()) {
            Ok(question) => {
                serde_json::to_string(&GoalOutput::new(&question, &GoalRule::DEFAULT)).unwrap()
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn without_metrics_it_stays_as_it_is() {
        assert_eq!(
            check(""),
            concat!(
                r#"{"goal":{"cpu":1,"memory":"4Gi"},"units":0,"decided_by":"no_metrics","#,
                r#""bounded":false,"refused":false,"load":null,"parts":{"cpu":null,"memory":null,"#,
                r#""memory_total":null,"working_set":null,"requested":null}}"#,
            )
        );
    }

    #[test]
    fn every_part_is_told() {
        // 0.45 over 0.9 over 0.25 is 2; 1000 + 100 MiB over 0.75 are 1467: 2; asked for memory: 5.
        assert_eq!(
            check(
                r#","metrics":{"load1":0.45,"memory":{"total":"4Gi","available":"3096Mi"}},
                "requested":{"memory":true}"#
            ),
            concat!(
                r#"{"goal":{"cpu":"1250m","memory":"5Gi"},"units":5,"decided_by":"requested","#,
                r#""bounded":false,"refused":false,"load":0.45,"parts":{"cpu":2,"memory":2,"#,
                r#""memory_total":null,"working_set":null,"requested":5}}"#,
            )
        );
    }

    #[test]
    fn a_refusal_holds_it() {
        let told = check(r#","metrics":{"load1":0.1},"denied":{"cpu":"750m","memory":"3Gi"}"#);
        assert!(told.starts_with(r#"{"goal":{"cpu":1,"memory":"4Gi"},"units":0,"#), "{told}");
        assert!(told.contains(r#""refused":true"#), "{told}");
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_place() {
        for (more, words) in [
            (r#","metrics":{"load1":-1}"#, "metrics.load1: -1 is not a load average"),
            (r#","colour":1"#, "unknown field `colour`"),
            (r#","metrics":{"load1":0,"load5":"x"}"#, "metrics.load5: \"x\" is not a load"),
            (
                r#","metrics":{"load1":0,"memory":{"total":"1Gi","available":"2Gi"}}"#,
                "metrics.memory.available: 2 GiB is more than total, which is 1 GiB",
            ),
        ] {
            let told = check(more);
            assert!(told.contains(words), "{told}");
        }
        let zero = LEAST.replacen("250m", "0", 1);
        let told = read(format!("{{{zero}}}").as_bytes()).unwrap_err().to_string();
        assert_eq!(told, "unit: 0m and 1 GiB lacks one of its resources");
        let turned = LEAST.replace("\"max\":{\"cpu\":2", "\"max\":{\"cpu\":\"100m\"");
        let told = read(format!("{{{turned}}}").as_bytes()).unwrap_err().to_string();
        assert!(told.starts_with("min: 250m and 1 GiB is more than max"), "{told}");
    }
}
