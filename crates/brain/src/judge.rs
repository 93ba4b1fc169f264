//! How good a model is on rows that it did not learn from.
//!
//! Errors are in points of 100. Rank correlation is Spearman's, over all rows and within the nodes
//! of each event, which is what a scheduler sees. Calibration compares the confidence that was told
//! with the share of scores that were right within ten points. A feature's importance is how much
//! the error grows when its values are dealt out anew among the rows.

use serde::Serialize;
use walras_core::rng::Rng;

use crate::confidence::CLOSE;
use crate::data::Row;
use crate::features::{NodeFeature, PodFacts};
use crate::model::Model;
use crate::number::count;
use crate::verdict::{NEUTRAL, Verdict};

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// How many rows it rests on.
    pub rows: usize,
    /// How many events.
    pub events: usize,
    /// The root of the mean squared error.
    pub rmse: f64,
    /// The mean error.
    pub mae: f64,
    /// The root of the mean squared error of always saying 50.
    pub rmse_neutral: f64,
    /// The same of always saying the mean of the labels, which nobody could know.
    pub rmse_mean: f64,
    /// The share of scores within ten points of the label.
    pub within_ten: f64,
    /// Rank correlation over all rows.
    pub rank: f64,
    /// The mean rank correlation among the nodes of an event.
    pub rank_in_event: f64,
    /// The share of events in which the node with the best label has the best score.
    pub best_first: f64,
    /// The mean gap between confidence and hits, weighted by rows.
    pub calibration_error: f64,
    /// Confidence against hits, from unsure to sure.
    pub reliability: Vec<Reliability>,
    /// What each feature is worth, the most important one first.
    pub importance: Vec<Importance>,
}

/// Rows of about the same confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reliability {
    /// How many.
    pub rows: usize,
    /// The mean of what was told.
    pub told: f64,
    /// The share that was right within ten points.
    pub hits: f64,
}

/// What a feature is worth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Importance {
    /// Which feature, or group of features of a pod.
    pub feature: &'static str,
    /// How many points the error grows without it.
    pub points: f64,
}

/// Parts of a pod that are dealt out as one.
type PodPart = (&'static str, fn(&mut PodFacts, &PodFacts));

const POD_PARTS: [PodPart; 4] = [
    ("cpu_normalized", |to, from| to.cpu_milli = from.cpu_milli),
    ("memory_normalized", |to, from| to.memory_bytes = from.memory_bytes),
    ("workload_*", |to, from| to.workload = from.workload),
    ("criticality_*", |to, from| to.criticality = from.criticality),
];
const BINS: usize = 10;

/// Judges a model by rows. `seed` is for dealing out.
#[must_use]
pub fn judge(model: &Model, rows: &[Row], seed: u64) -> Judgement {
    let verdicts = scored(model, rows);
    let labels: Vec<f64> = rows.iter().map(|row| f64::from(row.label) * 100.0).collect();
    let scores: Vec<f64> = verdicts.iter().map(|verdict| f64::from(verdict.score)).collect();
    let error = |told: &dyn Fn(usize) -> f64| {
        let squares = labels.iter().enumerate().map(|(place, label)| {
            let off = told(place) - label;
            off * off
        });
        mean(squares).sqrt()
    };
    let rmse = error(&|place| scores[place]);
    let middle = mean(labels.iter().copied());
    let hits = || hits(&verdicts, rows);
    let reliability = reliability(&verdicts, &hits().collect::<Vec<_>>());
    let gap = reliability.iter().map(|bin| count(bin.rows) * (bin.told - bin.hits).abs());
    let calibration_error = gap.sum::<f64>() / count(rows.len().max(1));
    let (events, rank_in_event, best_first) = within_events(rows, &scores, &labels);
    Judgement {
        rows: rows.len(),
        events,
        rmse,
        mae: mean(scores.iter().zip(&labels).map(|(score, label)| (score - label).abs())),
        rmse_neutral: error(&|_| f64::from(NEUTRAL)),
        rmse_mean: error(&|_| middle),
        within_ten: mean(hits().map(|hit| f64::from(u8::from(hit)))),
        rank: spearman(&scores, &labels).unwrap_or(0.0),
        rank_in_event,
        best_first,
        calibration_error,
        reliability,
        importance: importance(model, rows, &labels, rmse, seed),
    }
}

fn scored(model: &Model, rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = vec![Verdict::NO_MODEL; rows.len()];
    let mut nodes = Vec::new();
    let mut from = 0;
    // Rows of one event have one pod, unless it was dealt out.
    for same in rows.chunk_by(|a, b| a.event == b.event && a.pod == b.pod) {
        nodes.clear();
        nodes.extend(same.iter().map(|row| row.node));
        model.score(&same[0].pod, &nodes, &mut verdicts[from..from + same.len()]);
        from += same.len();
    }
    verdicts
}

fn hits<'a>(verdicts: &'a [Verdict], rows: &'a [Row]) -> impl Iterator<Item = bool> + use<'a> {
    let both = verdicts.iter().zip(rows);
    both.map(|(verdict, row)| (verdict.score / 100.0 - row.label).abs() <= CLOSE)
}

/// How many events there are, the mean rank correlation within them, and how often the best is
/// first.
fn within_events(rows: &[Row], scores: &[f64], labels: &[f64]) -> (usize, f64, f64) {
    let (mut from, mut events) = (0, 0);
    let (mut ranks, mut firsts) = (Vec::new(), Vec::new());
    for same in rows.chunk_by(|a, b| a.event == b.event) {
        let range = from..from + same.len();
        from = range.end;
        events += 1;
        let (scores, labels) = (&scores[range.clone()], &labels[range]);
        // Labels that are all equal put nobody first.
        if let Some(rank) = spearman(scores, labels) {
            ranks.push(rank);
            let best = labels.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let chosen = place_of_highest(scores);
            firsts.push(f64::from(u8::from(labels[chosen] >= best)));
        }
    }
    (events, mean(ranks.into_iter()), mean(firsts.into_iter()))
}

fn place_of_highest(values: &[f64]) -> usize {
    let mut best = 0;
    for (place, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = place;
        }
    }
    best
}

fn reliability(verdicts: &[Verdict], hits: &[bool]) -> Vec<Reliability> {
    let mut order: Vec<usize> = (0..verdicts.len()).collect();
    order.sort_by(|a, b| verdicts[*a].confidence.total_cmp(&verdicts[*b].confidence));
    let size = order.len().div_ceil(BINS).max(1);
    let bin = |rows: &[usize]| Reliability {
        rows: rows.len(),
        told: mean(rows.iter().map(|row| f64::from(verdicts[*row].confidence))),
        hits: mean(rows.iter().map(|row| f64::from(u8::from(hits[*row])))),
    };
    order.chunks(size).map(bin).collect()
}

fn importance(
    model: &Model,
    rows: &[Row],
    labels: &[f64],
    rmse: f64,
    seed: u64,
) -> Vec<Importance> {
    let mut rng = Rng::from_seed(seed);
    let mut all = Vec::new();
    let mut judge = |feature, rng: &mut Rng, deal: &dyn Fn(&mut Row, &Row)| {
        let order = shuffled(rows.len(), rng);
        let mut dealt = rows.to_vec();
        for (row, other) in dealt.iter_mut().zip(order) {
            deal(row, &rows[other]);
        }
        let scores = scored(model, &dealt);
        let squares = scores.iter().zip(labels).map(|(verdict, label)| {
            let off = f64::from(verdict.score) - label;
            off * off
        });
        all.push(Importance { feature, points: mean(squares).sqrt() - rmse });
    };
    for feature in NodeFeature::ALL {
        judge(feature.about().name, &mut rng, &|row, other| {
            row.node = match other.node.get(feature) {
                Some(value) => row.node.with(feature, value),
                None => row.node.without(feature),
            };
        });
    }
    for (name, copy) in POD_PARTS {
        judge(name, &mut rng, &|row, other| copy(&mut row.pod, &other.pod));
    }
    all.sort_by(|a, b| b.points.total_cmp(&a.points));
    all
}

fn shuffled(length: usize, rng: &mut Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..length).collect();
    for place in (1..length).rev() {
        let bound = u64::try_from(place + 1).unwrap_or(u64::MAX);
        order.swap(place, usize::try_from(rng.below(bound)).unwrap_or(0));
    }
    order
}

/// Spearman's rank correlation; `None` where one side is all equal.
fn spearman(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (ranks(a), ranks(b));
    let (middle_a, middle_b) = (mean(a.iter().copied()), mean(b.iter().copied()));
    let (mut both, mut only_a, mut only_b) = (0.0, 0.0, 0.0);
    for (a, b) in a.iter().zip(&b) {
        let (a, b) = (a - middle_a, b - middle_b);
        both += a * b;
        only_a += a * a;
        only_b += b * b;
    }
    // Where a model says the same of all nodes, it ranks none of them.
    match (only_a > 0.0, only_b > 0.0) {
        (_, false) => None,
        (false, true) => Some(0.0),
        (true, true) => Some(both / (only_a * only_b).sqrt()),
    }
}

/// The rank of each value; equal ones share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for same in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let rank = count(before) + (count(same.len()) - 1.0) / 2.0;
        same.iter().for_each(|place| ranks[*place] = rank);
        before += same.len();
    }
    ranks
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, number) = values.fold((0.0, 0_usize), |(sum, number), v| (sum + v, number + 1));
    if number == 0 { 0.0 } else { sum / count(number) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Rows;
    use crate::label::LabelSettings;
    use crate::random;
    use crate::train::{Kind, TrainSettings, train};

    #[test]
    fn ranks_share_their_mean_and_correlate() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [2.5, 0.0, 2.5, 1.0]);
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[10.0, 20.0, 25.0]), Some(1.0));
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(spearman(&[5.0, 5.0, 5.0], &[3.0, 2.0, 1.0]), Some(0.0));
        assert_eq!(spearman(&[1.0, 2.0], &[4.0, 4.0]), None);
        assert_eq!(spearman(&[], &[]), None);
    }

    #[test]
    fn a_trained_model_beats_ignorance_and_knows_what_matters() {
        let events = random::events(&mut Rng::from_seed(3), 800, 4);
        let rows = Rows::of(&events, &LabelSettings::default());
        for kind in [Kind::Mlp, Kind::Trees] {
            let mut settings = TrainSettings { kind, ..TrainSettings::default() };
            settings.mlp.epochs = 10;
            settings.trees.trees = 30;
            let trained = train(&rows, &settings, &mut |_| {}).unwrap();
            let test = &rows.rows[trained.split.test.clone()];
            let found = judge(&trained.model, test, 1);
            assert_eq!(found, judge(&trained.model, test, 1), "the same seed, the same judgement");
            assert!(found.rmse < 0.8 * found.rmse_mean, "{found:?}");
            assert!(found.rank_in_event > 0.4 && found.best_first > 0.3, "{found:?}");
            assert!(found.calibration_error < 0.15, "{found:?}");
            let top: Vec<_> = found.importance.iter().take(2).map(|i| i.feature).collect();
            for feature in ["cpu_utilization", "memory_utilization"] {
                assert!(top.contains(&feature), "{kind:?}: {top:?}");
            }
        }
    }
}
