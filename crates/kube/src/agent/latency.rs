//! Asks Prometheus whether pods meet their latency targets.
//!
//! In the background, every 15 seconds, one question per pod that has a target. No answer, no data
//! and anything that is not understood are no verdict: only a measured latency is.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::{debug, info, warn};
use walras_core::units::PodUid;

/// How often to ask.
const EVERY: Duration = Duration::from_secs(15);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// An answer is no longer than this.
const ANSWER_BYTES_MAX: u64 = 1_000_000;

/// A pod with a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The pod.
    pub uid: PodUid,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The latency above which the target counts as missed.
    pub missed_above_ms: f64,
}

/// Whom to ask for, and where.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// Prometheus.
    pub url: Option<String>,
    /// What it is asked.
    pub query: String,
    /// The pods.
    pub targets: Vec<Target>,
}

/// A question that the loop changes and the background asks.
#[derive(Debug, Default)]
pub struct Questions(Mutex<Question>);

/// A pod misses its target, or meets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The pod.
    pub uid: PodUid,
    /// Whether it misses it.
    pub missed: bool,
}

impl Questions {
    /// Asks this from now on.
    pub fn set(&self, question: Question) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = question;
    }

    fn get(&self) -> Question {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Asks for as long as it is polled and somebody listens.
pub async fn run(questions: Arc<Questions>, verdicts: Sender<Verdict>) {
    let mut answers = true;
    loop {
        tokio::time::sleep(EVERY).await;
        let question = questions.get();
        let Some(url) = question.url else {
            continue;
        };
        for target in question.targets {
            let query = expression(&question.query, &target);
            let asked = url.clone();
            let answer = tokio::task::spawn_blocking(move || ask(&asked, &query)).await;
            let latency = match answer {
                Ok(Ok(latency)) => latency,
                Ok(Err(error)) => {
                    if std::mem::replace(&mut answers, false) {
                        warn!(
                            "Prometheus does not answer, so latency targets are not judged: {error}"
                        );
                    }
                    // The others would not be answered either.
                    break;
                }
                Err(error) => {
                    warn!("a question to Prometheus was not asked: {error}");
                    break;
                }
            };
            if !std::mem::replace(&mut answers, true) {
                info!("Prometheus answers again");
            }
            let Some(latency_ms) = latency.map(|seconds| seconds * 1000.0) else {
                continue;
            };
            let missed = latency_ms > target.missed_above_ms;
            debug!(pod = %target.uid, latency_ms, missed, "latency judged");
            if verdicts.send(Verdict { uid: target.uid, missed }).is_err() {
                return;
            }
        }
    }
}

/// The query for one pod.
fn expression(query: &str, target: &Target) -> String {
    query.replace("$namespace", &target.namespace).replace("$pod", &target.name)
}

/// The value of `query` in seconds; nothing where there is no data.
fn ask(url: &str, query: &str) -> Result<Option<f64>, String> {
    let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build();
    let agent = ureq::Agent::new_with_config(config);
    let address = format!("{}/api/v1/query", url.trim_end_matches('/'));
    let answer = agent.get(&address).query("query", query).call();
    let mut answer = answer.map_err(|error| format!("{address}: {error}"))?;
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
    let body = body.map_err(|error| format!("{address}: {error}"))?;
    value_in(&body).map_err(|error| format!("{address}: {error}"))
}

/// The largest value of an answer; nothing where there is none or it is not a number.
fn value_in(answer: &str) -> Result<Option<f64>, String> {
    let answer: serde_json::Value =
        serde_json::from_str(answer).map_err(|error| error.to_string())?;
    if answer["status"] != "success" {
        return Err(format!("the query failed: {}", answer["error"]));
    }
    let result = &answer["data"]["result"];
    let series = result.as_array().map(Vec::as_slice).unwrap_or_default();
    let values = series.iter().map(|series| &series["value"][1]);
    // A scalar has its value right there.
    let values = values.chain(result.get(1));
    let numbers = values.filter_map(|value| value.as_str()?.parse::<f64>().ok());
    Ok(numbers.filter(|number| number.is_finite()).reduce(f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_number_is_a_latency() {
        let check = |result: &str| {
            value_in(&format!(r#"{{"status":"success","data":{{"result":{result}}}}}"#)).unwrap()
        };
        assert_eq!(check(r#"[{"value":[1,"0.25"]},{"value":[1,"0.5"]}]"#), Some(0.5));
        assert_eq!(check(r#"[1,"0.125"]"#), Some(0.125));
        assert_eq!(check(r#"[{"value":[1,"NaN"]}]"#), None);
        assert_eq!(check("[]"), None);
        assert!(value_in(r#"{"status":"error","error":"bad"}"#).unwrap_err().contains("bad"));
        assert!(value_in("<html>").is_err());
    }

    #[test]
    fn a_query_is_made_for_each_pod() {
        let target = Target {
            uid: PodUid::new("u"),
            namespace: "shop".to_owned(),
            name: "web-0".to_owned(),
            missed_above_ms: 1.0,
        };
        assert_eq!(
            expression("x{n=\"$namespace\",p=\"$pod\"}", &target),
            "x{n=\"shop\",p=\"web-0\"}"
        );
    }
}
