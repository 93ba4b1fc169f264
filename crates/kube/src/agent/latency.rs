//! Asks Prometheus whether pods meet their latency targets.
//!
//! In the background, every 15 seconds, one question per pod that has a target. Only a measured
//! latency misses a target. Where there is none, because a pod has no requests or one question was
//! not understood, its target counts as met, since nobody knows better; the other pods are asked
//! about all the same. While Prometheus as a whole does not answer, the last verdicts stay. What is
//! wrong is left where the loop looks for problems, and names the setting.

mod ask;
mod judge;

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use walras_core::units::PodUid;

use self::ask::{Answer, ask};
use self::judge::Judge;

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

/// How often to ask, and how long to wait for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rhythm {
    /// The pause between two rounds.
    pub every: Duration,
    /// How long one answer may take.
    pub patience: Duration,
}

/// A question that the loop changes and the background asks, and what is wrong with the answers.
#[derive(Debug, Default)]
pub struct Questions {
    question: Mutex<Question>,
    problems: Mutex<Vec<String>>,
}

/// A pod misses its target, or meets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The pod.
    pub uid: PodUid,
    /// Whether it misses it.
    pub missed: bool,
}

/// Asks for as long as it is polled and somebody listens.
pub async fn run(questions: Arc<Questions>, verdicts: Sender<Verdict>, rhythm: Rhythm) {
    let mut judge = Judge::default();
    let mut before = Question::default();
    loop {
        tokio::time::sleep(rhythm.every).await;
        let question = questions.get();
        if (&question.url, &question.query) != (&before.url, &before.query) {
            // What was answered to another question says nothing about this one.
            for uid in std::mem::take(&mut judge).missing() {
                if verdicts.send(Verdict { uid, missed: false }).is_err() {
                    return;
                }
            }
        }
        before = question.clone();
        let Question { url, query, targets } = question;
        let Some(url) = url else {
            questions.tell(Vec::new());
            continue;
        };
        for target in judge.begin(targets) {
            let (url, query) = (url.clone(), expression(&query, &target));
            let asked = move || ask(&url, &query, rhythm.patience);
            let answer = tokio::task::spawn_blocking(asked).await;
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
        questions.tell(judge.problems(&url));
    }
}

/// The query for one pod.
fn expression(query: &str, target: &Target) -> String {
    query.replace("$namespace", &target.namespace).replace("$pod", &target.name)
}

// === impl Rhythm ===

impl Rhythm {
    /// What agents do.
    pub const USUAL: Self =
        Self { every: Duration::from_secs(15), patience: Duration::from_secs(5) };
}

// === impl Questions ===

impl Questions {
    /// Asks this from now on.
    pub fn set(&self, question: Question) {
        *lock(&self.question) = question;
    }

    /// What is wrong with the answers, in sentences.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        lock(&self.problems).clone()
    }

    /// What is asked now.
    pub(super) fn get(&self) -> Question {
        lock(&self.question).clone()
    }

    /// This is wrong from now on, and nothing else.
    pub(super) fn tell(&self, problems: Vec<String>) {
        *lock(&self.problems) = problems;
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // Both are replaced as a whole, so whoever panicked left nothing half done.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_made_for_each_pod() {
        let target = Target {
            uid: PodUid::new("u"),
            namespace: "shop".to_owned(),
            name: "web-0".to_owned(),
            missed_above_ms: 100.0,
        };
        assert_eq!(
            expression("x{n=\"$namespace\",p=\"$pod\"}", &target),
            "x{n=\"shop\",p=\"web-0\"}"
        );
    }
}
