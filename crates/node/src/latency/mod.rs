//! Asks Prometheus whether workloads meet their latency targets.
//!
//! In the background, every 15 seconds, one question per workload that has a target. Only a
//! measured latency misses a target. Where there is none, because there are no requests or one
//! question was not understood, the target counts as met, since nothing else is known; the others
//! are asked about all the same. While Prometheus as a whole does not answer, the last verdicts
//! stay for a minute. What is wrong is left where the loop looks for problems, and names the
//! setting.
//!
//! Called by node daemons: `walras host` has a thread for it, [`Judging`], and `walras agent` lets
//! [`run`] take turns with what it asks of others.

mod ask;
mod fill;
mod judge;
mod judging;
#[cfg(test)]
mod server;
#[cfg(test)]
mod tests;

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use walras_core::units::WorkloadUid;

use self::ask::{Answer, ask};
use self::fill::filled;
use self::judge::Judge;

pub use self::judging::Judging;

/// A workload with a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The workload.
    pub uid: WorkloadUid,
    /// What a person calls it.
    pub name: String,
    /// What stands for it in the query, such as `$name`, and what is put there.
    pub placeholders: Vec<(&'static str, String)>,
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
    /// The workloads.
    pub targets: Vec<Target>,
}

/// What a user calls the settings, for what is wrong with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingNames {
    /// The address of Prometheus.
    pub url: &'static str,
    /// What it is asked.
    pub query: &'static str,
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
#[derive(Debug)]
pub struct Questions {
    settings: SettingNames,
    question: Mutex<Question>,
    problems: Mutex<Vec<String>>,
}

/// A workload misses its target, or meets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The workload.
    pub uid: WorkloadUid,
    /// Whether it misses it.
    pub missed: bool,
}

/// Asks for as long as it is polled and there is a receiver.
pub async fn run(questions: Arc<Questions>, verdicts: Sender<Verdict>, rhythm: Rhythm) {
    let mut judge = Judge::new(questions.settings);
    let mut before = Question::default();
    loop {
        tokio::time::sleep(rhythm.every).await;
        let question = questions.get();
        if (&question.url, &question.query) != (&before.url, &before.query) {
            // What was answered to another question says nothing about this one.
            let fresh = Judge::new(questions.settings);
            for uid in std::mem::replace(&mut judge, fresh).missing() {
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
            let (url, query) = (url.clone(), filled(&query, &target.placeholders));
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
        for verdict in judge.end() {
            if verdicts.send(verdict).is_err() {
                return;
            }
        }
        questions.tell(judge.problems(&url));
    }
}

// === impl Rhythm ===

impl Rhythm {
    /// What daemons do.
    pub const USUAL: Self =
        Self { every: Duration::from_secs(15), patience: Duration::from_secs(5) };
}

// === impl Questions ===

impl Questions {
    /// Nothing to ask yet.
    #[must_use]
    pub fn new(settings: SettingNames) -> Self {
        let (question, problems) = (Mutex::default(), Mutex::default());
        Self { settings, question, problems }
    }

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
    #[must_use]
    pub fn get(&self) -> Question {
        lock(&self.question).clone()
    }

    /// This is wrong from now on, and nothing else.
    pub fn tell(&self, problems: Vec<String>) {
        *lock(&self.problems) = problems;
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // Both are replaced as a whole, so a panic left nothing half done.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
