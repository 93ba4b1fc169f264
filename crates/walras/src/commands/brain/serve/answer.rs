//! Answers requests from the model in service, and counts what it answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use walras_brain::drift::Errors;
use walras_brain::features::PodFacts;
use walras_brain::reason::reason;
use walras_brain::slot::Slot;
use walras_brain::verdict::{Basis, Scale, Verdict, too_old};
use walras_rpc::scheduler::{
    BatchScoreRequest, BatchScoreResponse, HealthCheckResponse, NeutralRow, NodeScore,
    NodeTelemetry, ScoreMatrixRequest, ScoreMatrixResponse, ScoreRequest, ScoreResponse,
};
use walras_rpc::{Brain, Refused};

use super::convert::{self, Nodes};
use super::counts::{Call, Counts, Standing};
use super::unix_ms;

/// What serves: the model, how scores are scaled, and what was counted.
#[derive(Debug, Default)]
pub(super) struct Serving {
    pub(super) slot: Slot,
    stretch: AtomicBool,
    pub(super) counts: Counts,
    errors: Mutex<Option<Errors>>,
}

impl Serving {
    pub(super) fn set_scale(&self, scale: Scale) {
        self.stretch.store(scale == Scale::Batch, Ordering::Relaxed);
    }

    /// How far scores are off, as far as that is known.
    pub(super) fn set_errors(&self, errors: Option<Errors>) {
        *self.errors.lock().unwrap_or_else(PoisonError::into_inner) = errors;
    }

    /// What the model is called, and what it is.
    pub(super) fn model_version(&self) -> String {
        self.slot.serving().map_or_else(
            || "none: no model is loaded, so every answer is neutral".to_owned(),
            |file| format!("{} ({})", file.about.name, file.model.kind()),
        )
    }

    pub(super) fn metrics(&self) -> String {
        let serving = self.slot.serving();
        let standing = Standing {
            model: self.model_version(),
            kind: serving.map_or("none", |file| file.model.kind()),
            aside: self.slot.is_aside(),
            swaps: self.slot.swaps(),
            errors: *self.errors.lock().unwrap_or_else(PoisonError::into_inner),
        };
        self.counts.text(&standing)
    }

    fn verdicts(&self, pod: &PodFacts, nodes: &Nodes, call: Call) -> Vec<Verdict> {
        let begun = Instant::now();
        let now_ms = u64::try_from(unix_ms()).unwrap_or_default();
        let scale =
            if self.stretch.load(Ordering::Relaxed) { Scale::Batch } else { Scale::Absolute };
        let stale = |place: usize| too_old((*nodes.taken_ms.get(place)?)?, now_ms);
        let mut verdicts = vec![Verdict::NO_MODEL; nodes.facts.len()];
        self.slot.score_fresh(pod, &nodes.facts, stale, scale, &mut verdicts);
        self.counts.answered(call, &verdicts, begun.elapsed());
        verdicts
    }
}

impl Brain for Serving {
    fn score(&self, request: ScoreRequest) -> Result<ScoreResponse, Refused> {
        let pod = convert::pod(request.pod_requirements.as_ref())?;
        let nodes = match &request.node_telemetry {
            Some(told) => convert::nodes(std::slice::from_ref(told)),
            None => {
                let facts = convert::legacy(&request.telemetry)?;
                Nodes { facts: vec![facts], taken_ms: vec![None] }
            }
        };
        let verdicts = self.verdicts(&pod, &nodes, Call::Score);
        let name = request.node_telemetry.as_ref().map(|told| told.node_name.as_str());
        let name = name.filter(|name| !name.is_empty()).unwrap_or(&request.node_name);
        let verdict = verdicts.first().copied().unwrap_or(Verdict::NO_MODEL);
        let reasoning = nodes.facts.first().map(|facts| reason(name, facts, &verdict));
        Ok(ScoreResponse {
            score: verdict.points_floor().into(),
            reasoning: reasoning.unwrap_or_default(),
            confidence: verdict.confidence.into(),
        })
    }

    fn batch(&self, request: BatchScoreRequest) -> Result<BatchScoreResponse, Refused> {
        let pod = convert::pod(request.pod_requirements.as_ref())?;
        let nodes = convert::nodes(&request.nodes);
        let verdicts = self.verdicts(&pod, &nodes, Call::Batch);
        let told = |((node, facts), verdict): ((NodeTelemetry, _), &Verdict)| NodeScore {
            score: verdict.points_floor().into(),
            reasoning: reason(&node.node_name, facts, verdict),
            confidence: verdict.confidence.into(),
            node_name: node.node_name,
        };
        let scores = request.nodes.into_iter().zip(&nodes.facts).zip(&verdicts).map(told);
        Ok(BatchScoreResponse { scores: scores.collect() })
    }

    fn matrix(&self, request: ScoreMatrixRequest) -> Result<ScoreMatrixResponse, Refused> {
        let pod = convert::pod(request.pod_requirements.as_ref())?;
        let nodes = convert::matrix(&request)?;
        let verdicts = self.verdicts(&pod, &nodes, Call::Matrix);
        let mut scores = Vec::with_capacity(verdicts.len() * 8);
        let mut neutral = Vec::new();
        for (row, (verdict, facts)) in (0..).zip(verdicts.iter().zip(&nodes.facts)) {
            scores.extend(verdict.score.to_le_bytes());
            scores.extend(verdict.confidence.to_le_bytes());
            if verdict.basis != Basis::Model {
                neutral.push(NeutralRow { row, because: reason("", facts, verdict) });
            }
        }
        // Without a model every row says the same; one of them is enough.
        if self.slot.serving().is_none() || self.slot.is_aside() {
            neutral.truncate(1);
        }
        Ok(ScoreMatrixResponse { scores, model_version: self.model_version(), neutral })
    }

    fn health(&self) -> HealthCheckResponse {
        let serving = self.slot.serving();
        let neutral_because = match (&serving, self.slot.is_aside()) {
            (None, _) => "no model is loaded",
            (Some(_), true) => "the model did worse than neutral lately, so it is set aside",
            (Some(_), false) => "",
        };
        HealthCheckResponse {
            healthy: true,
            latency_ms: self.counts.last_ms(),
            model_version: self.model_version(),
            model_kind: serving.map_or("none", |file| file.model.kind()).to_owned(),
            neutral_because: neutral_because.to_owned(),
        }
    }
}
