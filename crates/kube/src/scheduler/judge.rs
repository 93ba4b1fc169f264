//! Scores nodes for a pod: asks the model, lets the market take its part, and nothing else.
//!
//! The model runs in this process, unless it is in another one (`remote`). Without that, a scoring
//! call does no I/O and takes no lock for longer than a pointer needs to be copied.

use std::sync::Arc;

use walras_brain::features::{NodeFacts, NodeFeature, PodFacts};
use walras_brain::reason::reason;
use walras_brain::slot::Slot;
use walras_brain::verdict::{Basis as Rests, Scale, Verdict};
use walras_core::place::breaker::BreakerState;
use walras_core::place::{self, Basis, Candidate, ModelSays, Placed, Points, Terms};
use walras_core::units::Span;
use walras_wire::placement::NodeTold;

use super::remote::RemoteBrain;
use super::table::{Row, Table};

/// Who scores, and how.
#[derive(Debug)]
pub(crate) struct Judge {
    /// The model of this process.
    pub(crate) slot: Arc<Slot>,
    /// The model of another process, which is asked in the place of ours.
    pub(crate) remote: Option<RemoteBrain>,
    /// What counts.
    pub(crate) terms: Terms,
}

/// One candidate and what it scores.
#[derive(Clone, Debug)]
pub(crate) struct Scored<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// What is known of it; nothing, if the API server never told of it.
    pub(crate) row: Option<&'a Row>,
    /// How old its telemetry is.
    pub(crate) age: Option<Span>,
    /// What the model said, if it said something.
    pub(crate) verdict: Option<Verdict>,
    /// What it scores.
    pub(crate) placed: Placed,
}

impl Judge {
    /// Scores the candidates, in their order.
    pub(crate) async fn score<'a>(
        &self,
        table: &'a Table,
        pod: &PodFacts,
        candidates: impl Iterator<Item = &'a str>,
        now_ms: u64,
    ) -> Vec<Scored<'a>> {
        let rows: Vec<(&str, Option<&Row>)> =
            candidates.map(|name| (name, table.row(name))).collect();
        let facts = rows.iter().map(|(_, row)| row.map_or(NodeFacts::UNKNOWN, |row| row.facts));
        let verdicts = match &self.remote {
            None => {
                let facts: Vec<NodeFacts> = facts.collect();
                let mut verdicts = vec![Verdict::NO_MODEL; facts.len()];
                self.slot.score(pod, &facts, Scale::Absolute, &mut verdicts);
                Some(verdicts)
            }
            Some(remote) => {
                let named: Vec<(&str, NodeFacts)> =
                    rows.iter().map(|(name, _)| *name).zip(facts).collect();
                remote.ask(pod, &named, now_ms).await
            }
        };
        let said = |place: usize| verdicts.as_ref().and_then(|all| all.get(place).copied());
        let scored = rows.into_iter().enumerate();
        scored.map(|(at, (name, row))| self.place(name, row, said(at), now_ms)).collect()
    }

    fn place<'a>(
        &self,
        name: &'a str,
        row: Option<&'a Row>,
        verdict: Option<Verdict>,
        now_ms: u64,
    ) -> Scored<'a> {
        let model = match verdict.map(|verdict| (verdict.basis, verdict.score)) {
            Some((Rests::Model, score)) => {
                Points::from_model_nearest(score).map_or(ModelSays::Silent, ModelSays::Points)
            }
            Some((Rests::NoModel | Rests::SetAside, _)) => ModelSays::NoModel,
            Some((Rests::Refused(_) | Rests::Stale { .. }, _)) => ModelSays::Unfit,
            None => ModelSays::Silent,
        };
        let age = row.and_then(|row| row.age(now_ms));
        let market = row.and_then(|row| row.market);
        let placed = place::place(&self.terms, &Candidate { model, age, market });
        Scored { name, row, age, verdict, placed }
    }

    /// What the breaker of a model in another process looks like.
    pub(crate) fn breaker(&self) -> BreakerState {
        self.remote.as_ref().map_or(BreakerState::Closed, RemoteBrain::state)
    }

    /// What scores, in a word.
    pub(crate) fn model(&self) -> String {
        if let Some(remote) = &self.remote {
            return remote.place();
        }
        match self.slot.serving() {
            Some(file) => format!("{} ({})", file.about.name, file.model.kind()),
            None => "none".to_owned(),
        }
    }
}

// === impl Scored ===

impl Scored<'_> {
    /// Why it scores so, in a sentence.
    pub(crate) fn reasoning(&self) -> String {
        match (self.placed.basis, self.row, &self.verdict) {
            (Basis::Model, Some(row), Some(verdict)) => reason(self.name, &row.facts, verdict),
            (basis, _, _) => format!("{}: {}", self.name, basis.words()),
        }
    }

    /// The same as a message.
    pub(crate) fn told(&self) -> NodeTold {
        let fact = |feature| self.row.and_then(|row| row.facts.get(feature));
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        let market = self.row.and_then(|row| row.market);
        NodeTold {
            node: self.name.to_owned(),
            points: points(self.placed.points),
            paid: points(self.placed.paid),
            basis: self.placed.basis.name().to_owned(),
            age_ms: self.age.map(Span::as_ms_floor),
            cpu: finite(fact(NodeFeature::CpuUtilization)),
            memory: finite(fact(NodeFeature::MemoryUtilization)),
            price: market.map(|market| market.price.to_f64()),
            lent_milli: market.map(|market| market.lent.get()),
        }
    }
}

/// Points as a plain number.
pub(crate) fn points(points: Points) -> f64 {
    f64::from(points.hundredths()) / 100.0
}
