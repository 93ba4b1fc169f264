//! Short stories of one node in which one thing must come out right.

#[cfg(test)]
mod town;

#[cfg(test)]
mod tests {
    use walras_core::claim::{CameWith, Nature};
    use walras_core::demand::Sample;
    use walras_core::need::Bounds;
    use walras_core::node::{Node, WorkloadFacts};
    use walras_core::profile::{Profile, ProfileName};
    use walras_core::request::RequestRule;
    use walras_core::units::{Millicores, Moment, Span, Weight, WorkloadUid};
    use walras_sim::random::load::Appetite;

    use crate::town::{Eater, Town};

    const MINUTE: Span = Span::from_s(60);

    /// What a pod has a minute after it woke up from five minutes of doing nothing.
    fn limit_after_sleep(profile: &Profile) -> Millicores {
        let pulse = Appetite::Pulsing {
            peak: Millicores::new(500),
            on: Span::from_us(5 * MINUTE.as_us()),
            off: Span::from_us(5 * MINUTE.as_us()),
        };
        let sleeper = Eater {
            name: "sleeper".to_owned(),
            bounds: Bounds::new(Millicores::ZERO, Millicores::new(2000)),
            limit: Millicores::new(1000),
            appetite: pulse,
        };
        let mut town = Town::new(Millicores::from_cores(4), profile, &[sleeper]);
        // The town starts after 1000 s, which is 100 s into the second sleep.
        while town.age() < Span::from_s(200 + 60) {
            town.tick();
        }
        town.limit("sleeper")
    }

    #[test]
    fn a_pod_without_a_min_gets_cpu_again_when_it_wakes_up() {
        let plain = ProfileName::ALL.map(Profile::named);
        let unlearned = plain.clone().map(|profile| Profile { learning: false, ..profile });
        for profile in plain.iter().chain(&unlearned) {
            let limit = limit_after_sleep(profile);
            let (name, learning) = (profile.name.name(), profile.learning);
            assert!(limit >= Millicores::new(500), "{limit} with {name}, learning {learning}");
        }
    }

    /// Drives one pod by hand, a second at a time.
    struct Hand {
        node: Node,
        uid: WorkloadUid,
        sample: Sample,
    }

    impl Hand {
        fn new(profile: Profile, limit: u64) -> Self {
            let mut node = Node::new(Millicores::from_cores(16), profile);
            let uid = WorkloadUid::new("pod");
            let facts = WorkloadFacts {
                uid: uid.clone(),
                family: None,
                bounds: Bounds::new(Millicores::ZERO, Millicores::from_cores(8)),
                weight: Weight::ONE,
                limit: Millicores::new(limit),
                request: None,
                came_with: CameWith {
                    request: None,
                    limit: Some(Millicores::new(limit)),
                    weight: None,
                },
                nature: Nature::Unknown,
                request_rule: RequestRule::Kept,
            };
            let start = Moment::from_ms(100_000);
            node.workload_added(facts, start);
            let sample = Sample { at: start, ..Sample::default() };
            node.sampled(&uid, sample);
            Self { node, uid, sample }
        }

        /// A while passes in which the pod uses `usage`, and is throttled in all periods or none.
        fn pass(&mut self, ms: u64, usage: u64, throttled: bool, stalled: Option<Span>) -> Moment {
            let sample = &mut self.sample;
            sample.at = sample.at + Span::from_ms(ms);
            sample.usage = Span::from_us(sample.usage.as_us() + usage * ms);
            sample.nr_periods += ms / 100;
            if throttled {
                sample.nr_throttled += ms / 100;
                sample.throttled = Span::from_us(sample.throttled.as_us() + usage * ms);
            }
            sample.stalled = stalled;
            self.node.sampled(&self.uid, self.sample);
            self.sample.at
        }

        fn need(&self) -> Option<Millicores> {
            self.node.workloads().next().and_then(|pod| pod.need)
        }
    }

    #[test]
    fn a_pod_is_still_measured_after_its_waiting_file_was_gone() {
        let mut hand = Hand::new(Profile::DIRECT, 4000);
        for second in 1..=5 {
            hand.pass(1000, 100, false, Some(Span::from_s(second)));
        }
        // The file goes away, and comes back counting from zero.
        hand.pass(500, 100, false, None);
        hand.pass(500, 100, false, Some(Span::ZERO));
        let mut now = Moment::ORIGIN;
        for _ in 0..60 {
            now = hand.pass(1000, 2000, false, Some(Span::ZERO));
        }
        hand.node.slow_tick(now);
        let need = hand.need().expect("the pod was cleared");
        assert!(need >= Millicores::new(2000), "{need} after a minute of using 2000m");
    }

    #[test]
    fn a_late_word_of_an_earlier_raise_does_not_unlock_the_next_one() {
        let mut hand = Hand::new(Profile::API, 100);
        let first = hand.pass(1000, 100, true, None);
        assert_eq!(hand.node.fast_tick(first).actions.len(), 1, "throttled, so raised");
        // A raise needs two seconds to be in force, and a window that began before says nothing.
        let in_force = hand.pass(2100, 200, true, None);
        assert_eq!(hand.node.fast_tick(in_force).actions, [], "the window began too early");
        let second = hand.pass(1000, 200, true, None);
        assert_eq!(
            hand.node.fast_tick(second).actions.len(),
            1,
            "throttled still, so raised again"
        );
        // Only now comes the word of the first raise. It says nothing about the second one.
        let uid = hand.uid.clone();
        hand.node.limit_took_effect(&uid, first + Span::from_ms(1000));
        let soon = hand.pass(1000, 400, true, None);
        assert_eq!(hand.node.fast_tick(soon).actions, [], "the second raise is not in force yet");
    }
}
