//! Where pods are judged: the product's own asking, in a hurry, and everything it ever told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use tokio::runtime::{self, Runtime};
use walras_core::units::WorkloadUid;
use walras_kube::agent::latency::{SETTINGS, target};
use walras_node::latency::{self, Question, Questions, Rhythm, Verdict};
use walras_testbed::wait_for;

use crate::{PATIENCE, TARGET_MS};

/// As the agent asks, but without long pauses.
const RHYTHM: Rhythm =
    Rhythm { every: Duration::from_millis(100), patience: Duration::from_secs(1) };

/// Asks for as long as it lives.
pub(crate) struct Court {
    questions: Arc<Questions>,
    told: Receiver<Verdict>,
    /// Every verdict about a pod, the first one first.
    verdicts: BTreeMap<String, Vec<bool>>,
    runtime: Option<Runtime>,
}

impl Court {
    pub(crate) fn sit() -> Self {
        let questions = Arc::new(Questions::new(SETTINGS));
        let (tell, told) = mpsc::channel();
        let runtime =
            runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(latency::run(Arc::clone(&questions), tell, RHYTHM));
        Self { questions, told, verdicts: BTreeMap::new(), runtime: Some(runtime) }
    }

    /// Asks this about these pods from now on, each written as `namespace/name`.
    pub(crate) fn ask(&self, url: &str, query: &str, pods: &[&str]) {
        let target_of = |pod: &&str| {
            let (namespace, name) = pod.split_once('/').unwrap();
            target(WorkloadUid::new(pod), namespace, name, TARGET_MS)
        };
        self.questions.set(Question {
            url: Some(url.to_owned()),
            query: query.to_owned(),
            targets: pods.iter().map(target_of).collect(),
        });
    }

    /// What is wrong.
    pub(crate) fn problems(&self) -> String {
        self.questions.problems().join("\n")
    }

    /// Waits until the last verdicts about all pods are these.
    pub(crate) fn wait_for_verdicts(&mut self, expected: &str) {
        let mut last = String::new();
        let found = wait_for(&format!("`{expected}`"), PATIENCE, || {
            last = self.last_verdicts();
            Ok((last == expected).then_some(()))
        });
        found.unwrap_or_else(|error| panic!("{error}: {last}; {}", self.problems()));
    }

    /// Waits until a pod was judged this often from now on.
    pub(crate) fn wait_for_rounds(&mut self, pod: &str, rounds: usize) {
        let enough = self.verdicts_about(pod) + rounds;
        wait_for(&format!("{rounds} rounds"), PATIENCE, || {
            Ok((self.verdicts_about(pod) >= enough).then_some(()))
        })
        .unwrap();
    }

    /// Waits for a problem with these words.
    pub(crate) fn wait_for_problem(&self, words: &str) -> String {
        let found = wait_for(&format!("a problem `{words}`"), PATIENCE, || {
            Ok(self.questions.problems().into_iter().find(|problem| problem.contains(words)))
        });
        found.unwrap_or_else(|error| panic!("{error}: {}", self.problems()))
    }

    pub(crate) fn wait_until_there_is_no_problem(&self) {
        let found = wait_for("no problem", PATIENCE, || {
            Ok(self.questions.problems().is_empty().then_some(()))
        });
        found.unwrap_or_else(|error| panic!("{error}: {}", self.problems()));
    }

    /// How often a pod was judged.
    pub(crate) fn verdicts_about(&mut self, pod: &str) -> usize {
        self.hear();
        self.verdicts.get(pod).map_or(0, Vec::len)
    }

    fn last_verdicts(&mut self) -> String {
        self.hear();
        let last = self.verdicts.iter().filter_map(|(pod, all)| Some((pod, all.last()?)));
        let words = last.map(|(pod, missed)| {
            let word = if *missed { "missed" } else { "met" };
            format!("{pod} {word}")
        });
        words.collect::<Vec<_>>().join(", ")
    }

    fn hear(&mut self) {
        for Verdict { uid, missed } in self.told.try_iter() {
            self.verdicts.entry(uid.as_str().to_owned()).or_default().push(missed);
        }
    }
}

impl Drop for Court {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A question that is still being asked is not waited for.
            runtime.shutdown_background();
        }
    }
}
