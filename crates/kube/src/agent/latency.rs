//! Asks Prometheus whether pods meet their latency targets.
//!
//! In the background, every 15 seconds, one question per pod that has a target. Only a measured
//! latency misses a target. Where there is none, because a pod has no requests or one question was
//! not understood, its target counts as met, since nobody knows better; the other pods are asked
//! about all the same. While Prometheus as a whole does not answer, the last verdicts stay.

use std::collections::BTreeSet;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::{debug, info, warn};
use walras_core::units::PodUid;

/// How often to ask.
const EVERY: Duration = Duration::from_secs(15);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// When so many questions in a row are not answered, one is asked at a time until one is.
const AWAY_AFTER: u32 = 3;
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

/// What came of a question.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    /// The latency.
    Seconds(f64),
    /// There is no data.
    Nothing,
    /// Prometheus answers, but not to this question.
    Refused(String),
    /// It does not answer.
    Away(String),
}

/// What the answers of all rounds come to: state without I/O.
#[derive(Debug, Default)]
struct Judge {
    /// Who misses its target, as far as was told.
    missing: BTreeSet<PodUid>,
    /// How many questions in a row were not answered.
    away: u32,
    /// Whether it was said that there is no answer.
    told_away: bool,
    /// For whom it was said that its question is refused.
    told_refused: BTreeSet<PodUid>,
    rounds: usize,
}

/// Asks for as long as it is polled and somebody listens.
pub async fn run(questions: Arc<Questions>, verdicts: Sender<Verdict>) {
    let mut judge = Judge::default();
    loop {
        tokio::time::sleep(EVERY).await;
        let question = questions.get();
        let Some(url) = question.url else {
            continue;
        };
        for target in judge.begin(question.targets) {
            let query = expression(&question.query, &target);
            let asked = url.clone();
            let answer = tokio::task::spawn_blocking(move || ask(&asked, &query)).await;
            let answer = answer.unwrap_or_else(|error| Answer::Away(error.to_string()));
            if let Some(verdict) = judge.hear(&target, answer)
                && verdicts.send(verdict).is_err()
            {
                return;
            }
            if judge.is_away() {
                break;
            }
        }
    }
}

// === impl Judge ===

impl Judge {
    /// A round begins: these are asked about, in this order. Each time it begins with another one,
    /// so that nobody is kept waiting for ever by questions that take too long.
    fn begin(&mut self, mut targets: Vec<Target>) -> Vec<Target> {
        let asked: BTreeSet<&PodUid> = targets.iter().map(|target| &target.uid).collect();
        self.missing.retain(|uid| asked.contains(uid));
        self.told_refused.retain(|uid| asked.contains(uid));
        let first = self.rounds.checked_rem(targets.len()).unwrap_or(0);
        targets.rotate_left(first);
        self.rounds = self.rounds.wrapping_add(1);
        targets
    }

    /// Whether it is no use to ask about the others.
    const fn is_away(&self) -> bool {
        self.away >= AWAY_AFTER
    }

    /// What an answer means for a pod, if that is to be told.
    fn hear(&mut self, target: &Target, answer: Answer) -> Option<Verdict> {
        let uid = &target.uid;
        let latency = match answer {
            Answer::Away(error) => {
                self.away = self.away.saturating_add(1);
                if self.is_away() && !std::mem::replace(&mut self.told_away, true) {
                    warn!("Prometheus does not answer, so latency targets are not judged: {error}");
                }
                return None;
            }
            Answer::Refused(error) => {
                if self.told_refused.insert(uid.clone()) {
                    warn!(pod = target.name, "its latency target is not judged: {error}");
                }
                None
            }
            Answer::Nothing => None,
            Answer::Seconds(seconds) => Some(seconds * 1000.0),
        };
        self.away = 0;
        if std::mem::replace(&mut self.told_away, false) {
            info!("Prometheus answers again");
        }
        let Some(latency_ms) = latency else {
            // Whoever was found to miss its target would be raised for ever.
            let missed_before = self.missing.remove(uid);
            return missed_before.then(|| Verdict { uid: uid.clone(), missed: false });
        };
        self.told_refused.remove(uid);
        let missed = latency_ms > target.missed_above_ms;
        debug!(pod = %uid, latency_ms, missed, "latency judged");
        if missed {
            self.missing.insert(uid.clone());
        } else {
            self.missing.remove(uid);
        }
        Some(Verdict { uid: uid.clone(), missed })
    }
}

/// The query for one pod.
fn expression(query: &str, target: &Target) -> String {
    query.replace("$namespace", &target.namespace).replace("$pod", &target.name)
}

/// Asks for the value of `query` in seconds.
fn ask(url: &str, query: &str) -> Answer {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        // What it says about a query that it refuses is worth more than the code.
        .http_status_as_error(false)
        .build();
    let agent = ureq::Agent::new_with_config(config);
    let address = format!("{}/api/v1/query", url.trim_end_matches('/'));
    let answer = agent.get(&address).query("query", query).call();
    let mut answer = match answer {
        Ok(answer) => answer,
        Err(error) => return Answer::Away(format!("{address}: {error}")),
    };
    let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
    match body {
        Ok(body) => match value_in(&body) {
            Ok(Some(seconds)) => Answer::Seconds(seconds),
            Ok(None) => Answer::Nothing,
            Err(error) => Answer::Refused(format!("{address}: {error}")),
        },
        Err(error) => Answer::Refused(format!("{address}: {error}")),
    }
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

    fn target(name: &str) -> Target {
        Target {
            uid: PodUid::new(name),
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            missed_above_ms: 100.0,
        }
    }

    /// What a round of answers comes to, each for a pod of its own; the others are not asked.
    fn round(judge: &mut Judge, answers: &[Answer]) -> String {
        let names = ["a", "b", "c", "d", "e"];
        let targets: Vec<Target> = names.iter().map(|name| target(name)).collect();
        judge.rounds = 0;
        let targets = judge.begin(targets);
        let mut told = Vec::new();
        for (target, answer) in targets.iter().zip(answers) {
            let verdict = judge.hear(target, answer.clone());
            let word = verdict.map_or("-", |it| if it.missed { "missed" } else { "met" });
            told.push(format!("{} {word}", target.name));
            if judge.is_away() {
                break;
            }
        }
        told.join(", ")
    }

    fn away() -> Answer {
        Answer::Away("no route".to_owned())
    }

    #[test]
    fn no_data_is_no_missed_target_and_ends_one() {
        let mut judge = Judge::default();
        assert_eq!(round(&mut judge, &[Answer::Seconds(0.2), Answer::Nothing]), "a missed, b -");
        assert_eq!(round(&mut judge, &[Answer::Nothing, Answer::Nothing]), "a met, b -");
        assert_eq!(round(&mut judge, &[Answer::Nothing]), "a -", "it was told once");
    }

    #[test]
    fn one_question_that_fails_does_not_stop_the_others() {
        let mut judge = Judge::default();
        let refused = Answer::Refused("parse error".to_owned());
        let answers = [refused, Answer::Seconds(0.2), away(), away(), Answer::Seconds(0.05)];
        assert_eq!(round(&mut judge, &answers), "a -, b missed, c -, d -, e met");
    }

    #[test]
    fn while_nobody_answers_the_rest_is_not_asked_and_verdicts_stay() {
        let mut judge = Judge::default();
        round(&mut judge, &[Answer::Seconds(0.2)]);
        let gone = [away(), away(), away(), Answer::Seconds(0.2), Answer::Seconds(0.2)];
        assert_eq!(round(&mut judge, &gone), "a -, b -, c -");
        assert_eq!(round(&mut judge, &gone), "a -", "one is enough to find out");
        assert_eq!(round(&mut judge, &[Answer::Nothing]), "a met", "once there is an answer again");
    }

    #[test]
    fn each_round_begins_with_another_pod() {
        let mut judge = Judge::default();
        let mut first = || judge.begin(vec![target("a"), target("b")])[0].name.clone();
        assert_eq!([first(), first(), first()], ["a", "b", "a"]);
        assert_eq!(judge.begin(Vec::new()), []);
    }

    #[test]
    fn a_query_is_made_for_each_pod() {
        let target = target("web-0");
        assert_eq!(
            expression("x{n=\"$namespace\",p=\"$pod\"}", &target),
            "x{n=\"shop\",p=\"web-0\"}"
        );
    }
}
