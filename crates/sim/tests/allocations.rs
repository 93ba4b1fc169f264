//! The fast tick and the taking of samples do not allocate while nobody is held back, and what a
//! simulation takes does not grow with its length.
//!
//! A host daemon does the former several times a second for as long as the machine runs.

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use walras_core::claim::{CameWith, Nature};
    use walras_core::need::Bounds;
    use walras_core::node::{Node, WorkloadFacts};
    use walras_core::profile::{Profile, ProfileName};
    use walras_core::request::RequestRule;
    use walras_core::units::{Millicores, Moment, Span, Weight, WorkloadUid};
    use walras_sim::contest::Contestant;
    use walras_sim::random::load::{Appetite, Load};
    use walras_sim::recording;
    use walras_sim::scenario::{Scenario, builtin};
    use walras_sim::target::with_targets;

    const PODS: u64 = 500;
    const WARM_UP_ROUNDS: u64 = 200;
    const COUNTED_ROUNDS: u64 = 100;

    #[test]
    fn a_quiet_node_does_not_allocate_between_clearings() {
        for name in ProfileName::ALL {
            let profile = Profile::named(name);
            let step = profile.fast_loop_interval_ms;
            let mut now = Moment::from_ms(1_000_000);
            let mut node = Node::new(Millicores::from_cores(128), profile);
            let mut pods: Vec<(WorkloadUid, Load)> =
                (0..PODS).map(|place| pod(place, now)).collect();
            for (uid, _) in &pods {
                node.workload_added(facts(uid), now);
            }
            node.slow_tick(now);
            for _ in 0..WARM_UP_ROUNDS {
                now = now + step;
                round(&mut node, &mut pods, now);
            }
            let mut actions = 0;
            let counted = allocation_counter::measure(|| {
                for _ in 0..COUNTED_ROUNDS {
                    now = now + step;
                    actions += round(&mut node, &mut pods, now);
                }
            });
            assert_eq!(actions, 0, "{}: the node was meant to be quiet", name.name());
            assert_eq!(counted.count_total, 0, "{}: {counted:?}", name.name());
            let clearing = allocation_counter::measure(|| drop(node.slow_tick(now)));
            assert!(clearing.count_total > 0, "counting works: a clearing does allocate");
        }
    }

    #[test]
    fn a_simulated_node_takes_as_much_memory_however_long_it_runs() {
        let found = builtin().iter().find(|builtin| builtin.name == "fleet").expect("built in");
        let most_bytes = |duration_s: u32| {
            let mut scenario = Scenario { duration_s, ..found.scenario() };
            // One pod of each kind is enough, and all of them start early.
            scenario.pods.retain(|pod| pod.name.ends_with("-1") || pod.name == "index");
            let scenario = with_targets(&scenario, NonZeroUsize::MIN);
            let places = recording::chosen(&scenario);
            let contestant = Contestant::named("walras").expect("known");
            let mut points = 0;
            let counted = allocation_counter::measure(|| {
                let recording = recording::record(contestant, None, &scenario, &places);
                points = recording.pods.iter().map(|pod| pod.points.len()).max().unwrap_or(0);
            });
            assert!(points <= usize::try_from(recording::POINTS_MAX).expect("small"), "{points}");
            counted.bytes_max
        };
        // By then all pods have started, and the recording has all its points.
        let (short, long) = (most_bytes(1440), most_bytes(2880));
        assert!(long < short + short / 20, "{short} bytes at first, and then {long}");
    }

    /// A sample of every pod, and a fast tick.
    fn round(node: &mut Node, pods: &mut [(WorkloadUid, Load)], now: Moment) -> usize {
        for (uid, load) in pods {
            load.run_until(now, Millicores::new(400));
            node.sampled(uid, load.sample(now));
        }
        node.fast_tick(now).actions.len()
    }

    fn pod(place: u64, now: Moment) -> (WorkloadUid, Load) {
        let uid = WorkloadUid::new(&format!("pod-{place:04}"));
        let appetite = Appetite::Pulsing {
            peak: Millicores::new(50 + place % 100),
            on: Span::from_ms(3000 + place),
            off: Span::from_ms(700),
        };
        (uid, Load::new(appetite, place, now))
    }

    fn facts(uid: &WorkloadUid) -> WorkloadFacts {
        WorkloadFacts {
            uid: uid.clone(),
            family: None,
            bounds: Bounds::new(Millicores::new(10), Millicores::new(2000)),
            weight: Weight::ONE,
            limit: Millicores::new(400),
            request: None,
            came_with: CameWith { request: None, limit: Some(Millicores::new(400)), weight: None },
            nature: Nature::Unknown,
            request_rule: RequestRule::Kept,
        }
    }
}
