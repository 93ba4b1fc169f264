//! What a node promises, on random sequences of facts.
//!
//! Every test prints its seed and what it covered, and names the seed of a broken case together
//! with the fewest facts that break it.

#[cfg(test)]
mod cases;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use walras_core::node::{Action, Fact, Loop, Outcome, Why};
    use walras_core::profile::Profile;
    use walras_core::rng::Rng;
    use walras_core::units::Moment;
    use walras_sim::fact::{Happened, Story, feed};
    use walras_sim::random::draw::shuffle;
    use walras_sim::random::facts::begin;
    use walras_sim::watch::Watch;

    use crate::cases::{Cases, Verdict, guarded};
    use crate::ensure;

    const FACTS: usize = 100;

    // === Whatever happens ===

    #[test]
    fn a_node_keeps_its_promises_whatever_happens() {
        let mut cases = Cases::of("a_node_keeps_its_promises_whatever_happens", 20_000);
        for seed in cases.seeds() {
            let (story, outcomes) = tell(seed);
            cases.check(seed, &story.facts, |facts| {
                keeps_its_promises(&Story { facts: facts.to_vec(), ..story.clone() })
            });
            count(&mut cases, &story, &outcomes);
        }
        cases.report();
    }

    #[test]
    fn the_same_facts_give_the_same_outcomes() {
        let mut cases = Cases::of("the_same_facts_give_the_same_outcomes", 20_000);
        for seed in cases.seeds() {
            let (story, told) = tell(seed);
            cases.check(seed, &story.facts, |facts| {
                let (mut node, mut other) = (story.node(), story.node());
                for (place, fact) in facts.iter().enumerate() {
                    if place == facts.len() / 2 {
                        other = node.clone();
                    }
                    let outcome = feed(&mut node, fact);
                    let repeated = feed(&mut other, fact);
                    ensure!(outcome == repeated, "{fact:?}: {outcome:?}, but {repeated:?}");
                }
                Ok(())
            });
            let mut node = story.node();
            let repeated: Vec<Outcome> =
                story.facts.iter().filter_map(|fact| feed(&mut node, fact)).collect();
            assert_eq!(told, repeated, "seed {seed}");
            count(&mut cases, &story, &told);
        }
        cases.report();
    }

    #[test]
    fn the_order_of_arrival_does_not_matter() {
        let mut cases = Cases::of("the_order_of_arrival_does_not_matter", 5000);
        for seed in cases.seeds() {
            let (story, outcomes) = tell(seed);
            let now = Moment::from_ms(1000);
            let mut uids = BTreeSet::new();
            let arrivals: Vec<Happened> = story
                .facts
                .iter()
                .filter_map(|happened| match &happened.fact {
                    Fact::WorkloadAdded(workload) if uids.insert(workload.uid.clone()) => {
                        Some(Happened { at: now, fact: happened.fact.clone() })
                    }
                    Fact::WorkloadAdded(_)
                    | Fact::WorkloadRemoved(_)
                    | Fact::Sampled(..)
                    | Fact::MachineSampled(_)
                    | Fact::CapacityChanged(_)
                    | Fact::AllocatableChanged(_)
                    | Fact::LatencyJudged { .. }
                    | Fact::LimitTookEffect(_)
                    | Fact::LimitFound { .. }
                    | Fact::TableRestored { .. }
                    | Fact::UseRestored { .. }
                    | Fact::Ticked(_) => None,
                })
                .collect();
            cases.check(seed, &arrivals, |arrivals| {
                let mut shuffled = arrivals.to_vec();
                shuffle(&mut Rng::from_seed(seed), &mut shuffled);
                let (mut node, mut other) = (story.node(), story.node());
                for (fact, moved) in arrivals.iter().zip(&shuffled) {
                    feed(&mut node, fact);
                    feed(&mut other, moved);
                }
                let now = Moment::from_ms(100_000);
                let (one, other) = (node.slow_tick(now), other.slow_tick(now));
                ensure!(one == other, "{one:?}, but shuffled {other:?}");
                Ok(())
            });
            count(&mut cases, &story, &outcomes);
        }
        cases.report();
    }

    fn tell(seed: u64) -> (Story, Vec<Outcome>) {
        let (mut world, mut story) = begin(seed);
        let mut node = story.node();
        let mut outcomes = Vec::new();
        // A panic ends the story early. It comes again when the story is checked, and is told then.
        let _panicked = guarded(|| {
            outcomes = world.go_on(FACTS, &mut node, &mut story);
            Ok(())
        });
        (story, outcomes)
    }

    fn keeps_its_promises(story: &Story) -> Verdict {
        let mut node = story.node();
        let mut watch = Watch::new(story);
        for fact in &story.facts {
            let outcome = feed(&mut node, fact);
            watch
                .saw(fact, outcome.as_ref(), &node)
                .map_err(|broken| format!("{broken}\nafter {fact:?}\nwith {:?}", story.profile))?;
        }
        Ok(())
    }

    fn count(cases: &mut Cases, story: &Story, outcomes: &[Outcome]) {
        cases.count(story.profile.name.name());
        if story.profile != Profile::named(story.profile.name) {
            cases.count("with overrides");
        }
        for outcome in outcomes {
            let (tick, mode) = (outcome.tick.name(), outcome.mode.name());
            cases.count(match outcome.tick {
                Loop::Fast => "fast ticks",
                Loop::Slow => mode,
            });
            let contained = |action: &Action| matches!(action.why, Why::Contained { .. });
            if outcome.actions.iter().any(contained) {
                cases.count("fast ticks that contain");
            }
            if !outcome.actions.is_empty() {
                cases.count(&format!("{tick} ticks that act"));
            }
        }
    }
}
