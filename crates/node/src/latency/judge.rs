//! What the answers of all rounds come to: verdicts, and what a person should know. No I/O.
//!
//! Used by `latency`. Only a measured latency misses a target. A workload whose latency is not
//! known meets it, and that is told where it was said to miss it. While there is no answer, nothing
//! is told, until what was told is too old to be believed.

use std::collections::{BTreeMap, BTreeSet};

use tracing::{debug, info, warn};
use walras_core::units::WorkloadUid;

use super::ask::Answer;
use super::{SettingNames, Target, Verdict};

/// When so many questions in a row are not answered, one is asked at a time until one is.
const AWAY_AFTER: u32 = 3;

/// After so many rounds without an answer, about a minute, nobody is believed to miss its target.
const STALE_AFTER: u32 = 4;

/// What is remembered of the answers so far.
#[derive(Debug)]
pub(super) struct Judge {
    settings: SettingNames,
    /// Who misses its target, as far as was told.
    missing: BTreeSet<WorkloadUid>,
    /// How many questions in a row were not answered, and why the last one was not.
    away: u32,
    away_because: String,
    /// Whose question is refused, and why.
    refused: BTreeMap<WorkloadUid, Refusal>,
    /// Who was said to have no series.
    unknown: BTreeSet<WorkloadUid>,
    rounds: usize,
    /// How many rounds in a row had no answer at all.
    unanswered: u32,
}

#[derive(Debug)]
struct Refusal {
    workload: String,
    because: String,
}

// === impl Judge ===

impl Judge {
    /// One that has heard nothing yet.
    pub(super) const fn new(settings: SettingNames) -> Self {
        Self {
            settings,
            missing: BTreeSet::new(),
            away: 0,
            away_because: String::new(),
            refused: BTreeMap::new(),
            unknown: BTreeSet::new(),
            rounds: 0,
            unanswered: 0,
        }
    }

    /// A round begins: these are asked about, in this order. Each time it begins with another one,
    /// so that no target waits for ever because of questions that take too long.
    pub(super) fn begin(&mut self, mut targets: Vec<Target>) -> Vec<Target> {
        let asked: BTreeSet<&WorkloadUid> = targets.iter().map(|target| &target.uid).collect();
        self.missing.retain(|uid| asked.contains(uid));
        self.refused.retain(|uid, _| asked.contains(uid));
        self.unknown.retain(|uid| asked.contains(uid));
        if targets.is_empty() {
            // It is not found out any more whether it is.
            self.away = 0;
        }
        let first = self.rounds.checked_rem(targets.len()).unwrap_or(0);
        targets.rotate_left(first);
        self.rounds = self.rounds.wrapping_add(1);
        targets
    }

    /// Who was told to miss its target.
    pub(super) fn missing(self) -> BTreeSet<WorkloadUid> {
        self.missing
    }

    /// Whether it is no use to ask about the others.
    pub(super) const fn is_away(&self) -> bool {
        self.away >= AWAY_AFTER
    }

    /// What an answer means for a workload, if that is to be told.
    pub(super) fn hear(&mut self, target: &Target, answer: Answer) -> Option<Verdict> {
        if let Answer::Away(because) = answer {
            self.nobody_answers(because);
            return None;
        }
        if self.is_away() {
            info!("Prometheus answers again");
        }
        (self.away, self.unanswered) = (0, 0);
        let latency_ms = self.latency_ms(target, answer);
        let uid = &target.uid;
        let Some(latency_ms) = latency_ms else {
            // A workload that was found to miss its target would be raised for ever.
            let missed_before = self.missing.remove(uid);
            return missed_before.then(|| Verdict { uid: uid.clone(), missed: false });
        };
        let missed = latency_ms > target.missed_above_ms;
        debug!(workload = %uid, latency_ms, missed, "latency judged");
        if missed {
            self.missing.insert(uid.clone());
        } else {
            self.missing.remove(uid);
        }
        Some(Verdict { uid: uid.clone(), missed })
    }

    /// A round ends. What was told too long ago to be believed: whoever was found to miss its
    /// target would be raised for as long as nobody answers.
    pub(super) fn end(&mut self) -> Vec<Verdict> {
        if self.away == 0 {
            return Vec::new();
        }
        self.unanswered = self.unanswered.saturating_add(1);
        if self.unanswered < STALE_AFTER {
            return Vec::new();
        }
        let stale = std::mem::take(&mut self.missing).into_iter();
        stale.map(|uid| Verdict { uid, missed: false }).collect()
    }

    fn nobody_answers(&mut self, because: String) {
        self.away = self.away.saturating_add(1);
        if self.away == AWAY_AFTER {
            warn!("Prometheus does not answer, so latency targets are not judged: {because}");
        }
        self.away_because = because;
    }

    /// The latency, if it is known; remembers why not, and says so once.
    fn latency_ms(&mut self, target: &Target, answer: Answer) -> Option<f64> {
        let uid = &target.uid;
        let is_refused = matches!(answer, Answer::Refused(_));
        let is_unknown = matches!(answer, Answer::Unknown);
        if !is_refused {
            self.refused.remove(uid);
        }
        if !is_unknown {
            self.unknown.remove(uid);
        }
        match answer {
            Answer::Seconds(seconds) => Some(seconds * 1000.0),
            Answer::Idle | Answer::Away(_) => None,
            Answer::Unknown => {
                if self.unknown.insert(uid.clone()) {
                    info!(
                        workload = target.name,
                        "its latency target is not judged: {} finds no series of it",
                        self.settings.query
                    );
                }
                None
            }
            Answer::Refused(because) => {
                if self.refused.is_empty() {
                    warn!(
                        workload = target.name,
                        "its latency target is not judged: {} does not work: {because}",
                        self.settings.query
                    );
                }
                let workload = target.name.clone();
                self.refused.insert(uid.clone(), Refusal { workload, because });
                None
            }
        }
    }

    /// What a person should know, in sentences that name the setting.
    pub(super) fn problems(&self, url: &str) -> Vec<String> {
        let SettingNames { url: url_name, query: query_name } = self.settings;
        let away = self.is_away().then(|| {
            let because = &self.away_because;
            format!(
                "{url_name}: {url} does not answer, so latency targets are not judged: {because}"
            )
        });
        let refused = self.refused.values().next().map(|Refusal { workload, because }| {
            let whom = match self.refused.len() {
                1 => format!("{workload}, whose latency target is"),
                many => format!("{workload} and {} more, whose latency targets are", many - 1),
            };
            format!("{query_name}: does not work for {whom} not judged: {because}")
        });
        away.into_iter().chain(refused).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(name: &str) -> Target {
        Target {
            uid: WorkloadUid::new(name),
            name: name.to_owned(),
            placeholders: Vec::new(),
            missed_above_ms: 100.0,
        }
    }

    fn judge() -> Judge {
        Judge::new(SettingNames { url: "the_url", query: "the_query" })
    }

    /// What a round of answers comes to, each for a workload of its own; the others are not asked.
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

    fn problems(judge: &Judge) -> String {
        judge.problems("http://p:9090").join("\n")
    }

    fn away() -> Answer {
        Answer::Away("no route".to_owned())
    }

    fn refused() -> Answer {
        Answer::Refused("parse error".to_owned())
    }

    #[test]
    fn no_data_is_no_missed_target_and_ends_one() {
        for nothing in [Answer::Idle, Answer::Unknown, refused()] {
            let mut judge = judge();
            let answers = [Answer::Seconds(0.2), nothing.clone()];
            assert_eq!(round(&mut judge, &answers), "a missed, b -", "{nothing:?}");
            let answers = [nothing.clone(), nothing.clone()];
            assert_eq!(round(&mut judge, &answers), "a met, b -", "{nothing:?}");
            assert_eq!(round(&mut judge, &[nothing]), "a -", "it was told once");
        }
    }

    #[test]
    fn one_question_that_fails_does_not_stop_the_others() {
        let mut judge = judge();
        let answers = [refused(), Answer::Seconds(0.2), away(), away(), Answer::Seconds(0.05)];
        assert_eq!(round(&mut judge, &answers), "a -, b missed, c -, d -, e met");
    }

    #[test]
    fn while_nobody_answers_the_rest_is_not_asked_and_verdicts_stay() {
        let mut judge = judge();
        round(&mut judge, &[Answer::Seconds(0.2)]);
        let gone = [away(), away(), away(), Answer::Seconds(0.2), Answer::Seconds(0.2)];
        assert_eq!(round(&mut judge, &gone), "a -, b -, c -");
        assert_eq!(round(&mut judge, &gone), "a -", "one is enough to find out");
        assert_eq!(round(&mut judge, &[Answer::Idle]), "a met", "once there is an answer again");
    }

    #[test]
    fn a_missed_target_is_believed_for_a_few_rounds_without_an_answer_and_no_longer() {
        let mut judge = judge();
        round(&mut judge, &[Answer::Seconds(0.2)]);
        assert_eq!(judge.end(), []);
        for _ in 1..STALE_AFTER {
            round(&mut judge, &[away()]);
            assert_eq!(judge.end(), []);
        }
        round(&mut judge, &[away()]);
        assert_eq!(judge.end(), [Verdict { uid: WorkloadUid::new("a"), missed: false }]);
        round(&mut judge, &[away()]);
        assert_eq!(judge.end(), [], "it was told once");
        round(&mut judge, &[Answer::Seconds(0.2)]);
        round(&mut judge, &[away()]);
        assert_eq!(judge.end(), [], "it counts from the last answer");
    }

    #[test]
    fn it_is_a_problem_when_nobody_answers_until_somebody_does_or_nobody_asks() {
        let away_for_long = || {
            let mut judge = judge();
            round(&mut judge, &[away(), away()]);
            assert_eq!(problems(&judge), "", "a single answer may get lost");
            round(&mut judge, &[away()]);
            let told = "the_url: http://p:9090 does not answer, so latency targets are not \
                        judged: no route";
            assert_eq!(problems(&judge), told);
            judge
        };
        let mut answered = away_for_long();
        round(&mut answered, &[Answer::Unknown]);
        assert_eq!(problems(&answered), "");
        let mut unasked = away_for_long();
        unasked.begin(Vec::new());
        assert_eq!(problems(&unasked), "");
    }

    #[test]
    fn a_query_that_is_refused_is_one_problem_for_all_workloads_until_it_works() {
        let mut judge = judge();
        round(&mut judge, &[refused(), Answer::Idle]);
        let one = "the_query: does not work for a, whose latency target is not judged: \
                   parse error";
        assert_eq!(problems(&judge), one);
        round(&mut judge, &[refused(), refused(), refused()]);
        let three = "the_query: does not work for a and 2 more, whose latency \
                     targets are not judged: parse error";
        assert_eq!(problems(&judge), three);
        round(&mut judge, &[Answer::Idle, Answer::Seconds(0.2), Answer::Unknown]);
        assert_eq!(problems(&judge), "");
    }

    #[test]
    fn each_round_begins_with_another_workload() {
        let mut judge = judge();
        let mut first = || judge.begin(vec![target("a"), target("b")])[0].name.clone();
        assert_eq!([first(), first(), first()], ["a", "b", "a"]);
        assert_eq!(judge.begin(Vec::new()), []);
    }
}
