//! The fast tick and the taking of samples do not allocate while nobody is held back.
//!
//! A host daemon does both several times a second for as long as the machine runs.

#[cfg(test)]
mod tests {
    use walras_core::need::Bounds;
    use walras_core::node::{Node, PodFacts};
    use walras_core::profile::{Profile, ProfileName};
    use walras_core::units::{Millicores, Moment, PodUid, Span, Weight};
    use walras_sim::random::load::{Appetite, Load};

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
            let mut pods: Vec<(PodUid, Load)> = (0..PODS).map(|place| pod(place, now)).collect();
            for (uid, _) in &pods {
                node.pod_added(facts(uid), now);
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

    /// A sample of every pod, and a fast tick.
    fn round(node: &mut Node, pods: &mut [(PodUid, Load)], now: Moment) -> usize {
        for (uid, load) in pods {
            load.run_until(now, Millicores::new(400));
            node.sampled(uid, load.sample(now));
        }
        node.fast_tick(now).actions.len()
    }

    fn pod(place: u64, now: Moment) -> (PodUid, Load) {
        let uid = PodUid::new(&format!("pod-{place:04}"));
        let appetite = Appetite::Pulsing {
            peak: Millicores::new(50 + place % 100),
            on: Span::from_ms(3000 + place),
            off: Span::from_ms(700),
        };
        (uid, Load::new(appetite, place, now))
    }

    fn facts(uid: &PodUid) -> PodFacts {
        PodFacts {
            uid: uid.clone(),
            workload: None,
            bounds: Bounds::new(Millicores::new(10), Millicores::new(2000)),
            weight: Weight::ONE,
            limit: Millicores::new(400),
            request: None,
        }
    }
}
