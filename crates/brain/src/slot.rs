//! Where the serving model is held: swapped as a whole, and put back if the new one does worse.
//!
//! Whoever scores takes a handle and keeps it for its batch, so a swap never changes a batch in
//! progress and never waits for one. Only checked models come in, since [`crate::file::read`] is
//! where they come from.

use std::sync::{Arc, PoisonError, RwLock};

use crate::features::{NodeFacts, PodFacts};
use crate::file::ModelFile;
use crate::verdict::{Scale, Verdict};

/// The model in service, and the one before it.
#[derive(Debug, Default)]
pub struct Slot {
    held: RwLock<Held>,
}

#[derive(Clone, Debug, Default)]
struct Held {
    serving: Option<Arc<ModelFile>>,
    before: Option<Arc<ModelFile>>,
    swaps: u64,
    /// Whether answers are neutral although there is a model.
    aside: bool,
}

impl Slot {
    /// Without a model: every answer is neutral.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// The model in service.
    #[must_use]
    pub fn serving(&self) -> Option<Arc<ModelFile>> {
        self.look(|held| held.serving.clone())
    }

    /// How often the model was changed, so that whoever shows it knows when to look again.
    #[must_use]
    pub fn swaps(&self) -> u64 {
        self.look(|held| held.swaps)
    }

    /// Whether answers are neutral although there is a model.
    #[must_use]
    pub fn is_aside(&self) -> bool {
        self.look(|held| held.aside)
    }

    /// Sets the model aside, so that answers are neutral, or ends that. Another model ends it, too.
    pub fn set_aside(&self, aside: bool) {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        held.aside = aside;
    }

    /// Puts a model into service, or none. The one before is kept.
    pub fn swap(&self, model: Option<ModelFile>) {
        self.change(|held| {
            held.aside = false;
            let new = model.map(Arc::new);
            held.before = std::mem::replace(&mut held.serving, new);
        });
    }

    /// Puts the model before back into service. What was in service can be put back the same way.
    /// Whether there was one.
    pub fn roll_back(&self) -> bool {
        self.change(|held| {
            if held.before.is_none() {
                return false;
            }
            held.aside = false;
            std::mem::swap(&mut held.serving, &mut held.before);
            true
        })
    }

    /// Scores nodes for a pod with the model in service; neutral without one.
    ///
    /// # Panics
    ///
    /// There are not as many verdicts as nodes.
    pub fn score(&self, pod: &PodFacts, nodes: &[NodeFacts], scale: Scale, out: &mut [Verdict]) {
        self.score_fresh(pod, nodes, |_| None, scale, out);
    }

    /// The same, where a node whose telemetry is too old is neutral on its own: `stale` says of
    /// each node, by its place, how old that is if it is too old.
    ///
    /// # Panics
    ///
    /// There are not as many verdicts as nodes.
    pub fn score_fresh(
        &self,
        pod: &PodFacts,
        nodes: &[NodeFacts],
        stale: impl Fn(usize) -> Option<u64>,
        scale: Scale,
        out: &mut [Verdict],
    ) {
        assert_eq!(nodes.len(), out.len(), "one verdict for each node");
        let (serving, aside) = self.look(|held| (held.serving.clone(), held.aside));
        let Some(file) = serving else { return out.fill(Verdict::NO_MODEL) };
        if aside {
            return out.fill(Verdict::SET_ASIDE);
        }
        file.model.score(pod, nodes, out);
        for (place, verdict) in out.iter_mut().enumerate() {
            if let Some(age_ms) = stale(place) {
                *verdict = Verdict::stale(age_ms);
            }
        }
        scale.apply(out);
    }

    fn look<R>(&self, look: impl FnOnce(&Held) -> R) -> R {
        // What is held is whole at every moment, also where somebody panicked.
        look(&self.held.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<R>(&self, change: impl FnOnce(&mut Held) -> R) -> R {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        held.swaps += 1;
        change(&mut held)
    }
}

#[cfg(test)]
mod tests {
    use walras_core::rng::Rng;

    use super::*;
    use crate::features::Order;
    use crate::file;
    use crate::random;
    use crate::verdict::Basis;

    const PERCEPTRON: &[u8] = include_bytes!("../testdata/models/perceptron.pt");
    const TREES: &[u8] = include_bytes!("../testdata/models/xgboost-squarederror.ubj");

    fn model(bytes: &[u8]) -> ModelFile {
        file::read(bytes, Some(Order::Kubeattention)).unwrap()
    }

    fn scored(slot: &Slot) -> Vec<Verdict> {
        let mut rng = Rng::from_seed(1);
        let (pod, nodes) = (random::pod(&mut rng), random::nodes(&mut rng, 30));
        let mut verdicts = vec![Verdict::NO_MODEL; nodes.len()];
        slot.score(&pod, &nodes, Scale::Absolute, &mut verdicts);
        verdicts
    }

    #[test]
    fn without_a_model_everything_is_neutral() {
        let slot = Slot::empty();
        assert!(scored(&slot).iter().all(|verdict| *verdict == Verdict::NO_MODEL));
        assert!(!slot.roll_back());
        slot.swap(Some(model(TREES)));
        assert!(scored(&slot).iter().all(|verdict| verdict.basis == Basis::Model));
        slot.swap(None);
        assert!(scored(&slot).iter().all(|verdict| *verdict == Verdict::NO_MODEL));
    }

    #[test]
    fn a_model_that_is_set_aside_answers_neutrally_until_another_comes() {
        let slot = Slot::empty();
        slot.swap(Some(model(TREES)));
        slot.set_aside(true);
        assert!(scored(&slot).iter().all(|verdict| *verdict == Verdict::SET_ASIDE));
        assert!(slot.is_aside() && slot.serving().is_some());
        slot.swap(Some(model(PERCEPTRON)));
        assert!(scored(&slot).iter().all(|verdict| verdict.basis == Basis::Model));
    }

    #[test]
    fn a_stale_node_is_neutral_alone_and_stretches_nothing() {
        let slot = Slot::empty();
        slot.swap(Some(model(TREES)));
        let mut rng = Rng::from_seed(2);
        let (pod, nodes) = (random::pod(&mut rng), random::nodes(&mut rng, 9));
        let all = |scale, stale: Option<usize>| {
            let mut out = vec![Verdict::NO_MODEL; nodes.len()];
            let old = |place| (Some(place) == stale).then_some(12_000);
            slot.score_fresh(&pod, &nodes, old, scale, &mut out);
            out
        };
        let fresh = all(Scale::Absolute, None);
        let best = (0..9).max_by(|a, b| fresh[*a].score.total_cmp(&fresh[*b].score)).unwrap();
        let stale = all(Scale::Absolute, Some(best));
        assert_eq!(stale[best], Verdict::stale(12_000));
        let others = (0..9).filter(|place| *place != best);
        assert!(others.clone().all(|place| stale[place] == fresh[place]));
        let stretched = all(Scale::Batch, Some(best));
        assert_eq!(stretched[best].score, 50.0);
        assert!(others.clone().any(|place| stretched[place].score == 100.0));
    }

    #[test]
    fn a_swap_can_be_taken_back_and_made_again() {
        let slot = Slot::empty();
        slot.swap(Some(model(TREES)));
        let trees = scored(&slot);
        slot.swap(Some(model(PERCEPTRON)));
        let perceptron = scored(&slot);
        assert_ne!(trees, perceptron);
        assert!(slot.roll_back());
        assert_eq!(scored(&slot), trees);
        assert!(slot.roll_back());
        assert_eq!(scored(&slot), perceptron);
        assert_eq!(slot.swaps(), 4);
    }

    #[test]
    fn a_batch_in_progress_keeps_its_model() {
        let slot = Slot::empty();
        slot.swap(Some(model(TREES)));
        let held = slot.serving().unwrap();
        slot.swap(Some(model(PERCEPTRON)));
        assert_eq!(held.model.kind(), "trees");
        assert_eq!(slot.serving().unwrap().model.kind(), "mlp");
    }

    #[test]
    fn readers_and_writers_do_not_wait_for_ever() {
        let slot = Slot::empty();
        let (trees, perceptron) = (model(TREES), model(PERCEPTRON));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let verdicts = scored(&slot);
                        let first = verdicts[0].basis;
                        assert!(verdicts.iter().all(|verdict| verdict.basis == first));
                    }
                });
            }
            for round in 0..100 {
                let next = if round % 2 == 0 { &trees } else { &perceptron };
                slot.swap((round % 3 > 0).then(|| next.clone()));
            }
        });
        assert_eq!(slot.swaps(), 100);
    }
}
