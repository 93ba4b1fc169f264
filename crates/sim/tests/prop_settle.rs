//! A node under constant load comes to rest: after a while there is nothing left to change.
//!
//! Prints its seed and what it covered, and names the seed of a broken case.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod town;

#[cfg(test)]
mod tests {
    use walras_core::need::Bounds;
    use walras_core::profile::{Profile, ProfileName};
    use walras_core::rng::Rng;
    use walras_core::units::{Millicores, Ratio, Span};
    use walras_sim::random::draw::{one_of, within};
    use walras_sim::random::load::Appetite;

    use crate::cases::{Cases, Verdict};
    use crate::ensure;
    use crate::town::{Eater, Town};

    /// A node that has forgotten its start and had this many slow intervals changes nothing more.
    const SETTLES_WITHIN: u64 = 5;
    /// And that for this many more of them.
    const RESTS_FOR: u64 = 50;

    #[test]
    fn constant_load_with_room_settles_in_two_hundred_seconds_where_caps_are_tight() {
        let test = "constant_load_with_room_settles_in_two_hundred_seconds_where_caps_are_tight";
        // What moves after the first twenty seconds is the headroom of the start, as it fades.
        check(test, ProfileName::Tight, Crowd::Roomy, Span::from_s(195));
    }

    #[test]
    fn constant_load_with_room_settles_once_memories_fade() {
        let test = "constant_load_with_room_settles_once_memories_fade";
        for name in [ProfileName::Direct, ProfileName::Api] {
            check(test, name, Crowd::Roomy, memory(&Profile::named(name)));
        }
    }

    #[test]
    fn where_nobody_is_held_back_nothing_changes_after_the_first_minute() {
        let test = "where_nobody_is_held_back_nothing_changes_after_the_first_minute";
        for name in [ProfileName::Direct, ProfileName::Api] {
            check(test, name, Crowd::Content, Span::from_s(60));
        }
    }

    #[test]
    fn constant_load_on_a_crowded_node_settles_once_memories_fade() {
        let test = "constant_load_on_a_crowded_node_settles_once_memories_fade";
        // One pod's rest is what makes room for the next one, so memories fade one after the other.
        for name in [ProfileName::Tight, ProfileName::Direct, ProfileName::Api] {
            let memory = memory(&Profile::named(name));
            check(test, name, Crowd::Crowded, Span::from_us(2 * memory.as_us()));
        }
    }

    /// Whether the node has more than its pods want, or less.
    #[derive(Clone, Copy, Debug)]
    enum Crowd {
        /// More, and every limit is at least what its pod wants.
        Content,
        Roomy,
        Crowded,
    }

    fn check(test: &'static str, name: ProfileName, crowd: Crowd, memory: Span) {
        let mut cases = Cases::of(test, 200);
        for seed in cases.seeds() {
            let mut rng = Rng::from_seed(seed);
            let mut eaters: Vec<Eater> =
                (0..within(&mut rng, 1, 6)).map(|place| eater(&mut rng, place)).collect();
            if matches!(crowd, Crowd::Content) {
                for eater in &mut eaters {
                    eater.limit = eater.limit.max(wants(eater)).min(eater.bounds.max());
                }
            }
            cases.check(seed, &eaters, |eaters| {
                settles(&Profile::named(name), crowd, eaters, memory)
            });
            cases.count(&format!("{} {crowd:?}", name.name()));
        }
        cases.report();
    }

    fn eater(rng: &mut Rng, place: u64) -> Eater {
        let wants = within(rng, 5, 4000);
        let limit = match rng.below(3) {
            0 => within(rng, 5, wants),
            1 => wants,
            _ => within(rng, wants, 3 * wants),
        };
        let most = one_of(rng, &[0, wants / 2]);
        let min = within(rng, 0, most);
        let max = within(rng, wants, 20_000);
        Eater {
            name: format!("pod-{place}"),
            bounds: Bounds::new(Millicores::new(min), Millicores::new(max)),
            limit: Millicores::new(limit),
            appetite: Appetite::Constant(Millicores::new(wants)),
        }
    }

    /// How long what happened at the start can make a difference: the window, a held shrink, a
    /// boost until it is a thirty-second part, and the headroom a storm collects.
    fn memory(profile: &Profile) -> Span {
        let headroom_s = profile.headroom_max.over(profile.headroom_fade).millionths() / 1_000_000;
        let boost_us = profile.boost_hold_ms.as_us() + 5 * profile.boost_half_life_ms.as_us();
        let window_us = u64::from(profile.window_s) * 1_000_000;
        let hold_us = profile.shrink_hold_ms.as_us();
        Span::from_us(window_us + hold_us + boost_us + headroom_s * 1_000_000)
    }

    fn settles(profile: &Profile, crowd: Crowd, eaters: &[Eater], memory: Span) -> Verdict {
        let wanted: Millicores = eaters.iter().map(wants).sum();
        let capacity = match crowd {
            Crowd::Content | Crowd::Roomy => wanted + wanted + Millicores::from_cores(1),
            Crowd::Crowded => wanted.scale_floor(Ratio::from_percent(70)),
        };
        let mut town = Town::new(capacity, profile, eaters);
        let interval_us = profile.slow_loop_interval_ms.as_us();
        let restless = Span::from_us(memory.as_us() + SETTLES_WITHIN * interval_us);
        let end = Span::from_us(restless.as_us() + RESTS_FOR * interval_us);
        while town.age() < end {
            let outcome = town.tick();
            ensure!(
                town.age() <= restless || outcome.actions.is_empty(),
                "after {} on {capacity}, still {:?}",
                town.age(),
                outcome.actions
            );
        }
        for eater in eaters {
            let (limit, wants) = (town.limit(&eater.name), wants(eater));
            // A raise that is smaller than the band is not worth it, even if it is the last one.
            let at_max = limit + limit.scale_floor(profile.raise_band) >= eater.bounds.max();
            let served = limit >= wants || at_max || matches!(crowd, Crowd::Crowded);
            ensure!(served, "came to rest at {limit} for {eater:?}");
        }
        Ok(())
    }

    fn wants(eater: &Eater) -> Millicores {
        match eater.appetite {
            Appetite::Constant(amount) => amount,
            Appetite::Restless(_) | Appetite::Pulsing { .. } => Millicores::ZERO,
        }
    }
}
