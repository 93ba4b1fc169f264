//! What the estimators promise, on random streams: the window against a naive one, the documented
//! estimator for its bounds and directions, and the reading of counters.
//!
//! Every test prints its seed and what it covered, and names the seed of a broken case.

#[cfg(test)]
mod cases;

#[cfg(test)]
mod tests {
    use walras_core::demand::{
        FULL_DEMAND, Reading, Sample, Signal, USAGE_FLOOR, WINDOW_FLOOR, read,
    };
    use walras_core::need::{Bounds, SpecFacts, Window, WindowRule, headroom, spec};
    use walras_core::rng::Rng;
    use walras_core::units::{Millicores, Moment, Ratio, Span};
    use walras_sim::random::draw::{one_of, percent, spread, within};

    use crate::cases::{Cases, Verdict};
    use crate::ensure;

    // === The window estimator ===

    #[test]
    fn the_window_agrees_with_a_naive_one() {
        let mut cases = Cases::of("the_window_agrees_with_a_naive_one", 5000);
        for seed in cases.seeds() {
            let mut rng = Rng::from_seed(seed);
            let rule = rule(&mut rng);
            let bounds = bounds(&mut rng);
            let slots = usize::try_from(within(&mut rng, 1, 40)).unwrap();
            let seconds: Vec<Second> =
                (0..within(&mut rng, 0, 120)).map(|_| second(&mut rng)).collect();
            cases.count(if seconds.len() > slots { "full" } else { "filling" });
            cases.check(seed, &seconds, |seconds| agrees(&rule, bounds, slots, seconds));
        }
        cases.report();
    }

    #[derive(Clone, Copy, Debug)]
    struct Second {
        usage: Millicores,
        period_ratio: Ratio,
    }

    fn agrees(rule: &WindowRule, bounds: Bounds, slots: usize, seconds: &[Second]) -> Verdict {
        let mut window = Window::new(slots, rule);
        let mut headroom = rule.headroom_start.min(rule.headroom_max);
        ensure!(window.need(bounds, rule).is_none(), "an empty window has a need");
        for (place, second) in seconds.iter().enumerate() {
            window.second_passed(second.usage, second.period_ratio, rule);
            let (one, other) = (second.period_ratio, rule.throttle_target);
            // Only one of the two is more than zero.
            headroom = (headroom + one.saturating_sub(other).times_floor(rule.gain))
                .saturating_sub(rule.fade.times_floor(other.saturating_sub(one).over(other)))
                .min(rule.headroom_max);
            ensure!(window.headroom() == headroom, "headroom {:?}", window.headroom());
            let from = (place + 1).saturating_sub(slots);
            let recent: Vec<u64> =
                seconds[from..=place].iter().map(|second| second.usage.get()).collect();
            let base = quantile(&recent, rule.quantile);
            let found = window.quantile(rule.quantile);
            ensure!(found == Some(base), "{found:?} is not {base} of {recent:?}");
            let spread = deviation(&recent).max(base.scale_floor(rule.spread_floor));
            let expected = bounds.clamp(base + spread.scale_ceil(headroom));
            let need = window.need(bounds, rule);
            ensure!(need == Some(expected), "{need:?} is not {expected} of {recent:?}");
            ensure!(
                bounds.min() <= expected && expected <= bounds.max(),
                "{expected} is out of bounds"
            );
        }
        Ok(())
    }

    /// The smallest value that at least `quantile` of all values do not exceed.
    fn quantile(values: &[u64], quantile: Ratio) -> Millicores {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let enough = |count: usize| {
            u128::try_from(count).unwrap() * 1_000_000
                >= u128::try_from(values.len()).unwrap() * u128::from(quantile.millionths())
        };
        let place = (0..sorted.len()).find(|place| enough(place + 1)).expect("all are enough");
        Millicores::new(sorted[place])
    }

    /// In two passes: the mean as a fraction, then the squares of what differs from it.
    fn deviation(values: &[u64]) -> Millicores {
        let count = i128::try_from(values.len()).unwrap();
        let sum: i128 = values.iter().map(|&value| i128::from(value)).sum();
        // All of it times the count, so that the mean is whole.
        let squares: i128 =
            values.iter().map(|&value| (i128::from(value) * count - sum).pow(2)).sum();
        let variance = squares / (count * count * count);
        Millicores::new(u64::try_from(variance.isqrt()).unwrap())
    }

    fn rule(rng: &mut Rng) -> WindowRule {
        let ratio = |rng: &mut Rng, most: u64| Ratio::from_millionths(within(rng, 0, most));
        let percents = one_of(rng, &[0, 1, 50, 90, 99, 100]);
        WindowRule {
            quantile: Ratio::from_percent(percents),
            throttle_target: ratio(rng, 200_000),
            gain: ratio(rng, 3_000_000),
            fade: ratio(rng, 300_000),
            headroom_start: ratio(rng, 2_000_000),
            headroom_max: ratio(rng, 10_000_000),
            spread_floor: ratio(rng, 200_000),
        }
    }

    fn second(rng: &mut Rng) -> Second {
        let usage = match rng.below(8) {
            0 => 0,
            1 => Millicores::LIMIT.get(),
            2 => 500,
            _ => spread(rng, 10_000),
        };
        let throttled = if percent(rng, 50) { 0 } else { within(rng, 0, 1_000_000) };
        Second { usage: Millicores::new(usage), period_ratio: Ratio::from_millionths(throttled) }
    }

    fn bounds(rng: &mut Rng) -> Bounds {
        let most = one_of(rng, &[100, 10_000, Millicores::LIMIT.get()]);
        let min = spread(rng, most);
        Bounds::new(Millicores::new(min), Millicores::new(within(rng, min, most)))
    }

    // === The documented estimator ===

    #[test]
    fn the_documented_need_grows_with_every_reason_to() {
        let mut cases = Cases::of("the_documented_need_grows_with_every_reason_to", 200_000);
        for seed in cases.seeds() {
            let mut rng = Rng::from_seed(seed);
            let bounds = bounds(&mut rng);
            let (few, many) = (facts(&mut rng), facts(&mut rng));
            cases.count(if few.usage.is_some() { "with usage" } else { "without usage" });
            cases.check(seed, &[(few, many)], |pairs| {
                pairs.iter().try_for_each(|(few, many)| grows(bounds, few, many))
            });
        }
        cases.report();
    }

    /// Raises one fact after the other from `few` to the larger of both.
    fn grows(bounds: Bounds, few: &SpecFacts, many: &SpecFacts) -> Verdict {
        let need = spec(bounds, few);
        ensure!(bounds.clamp(need) == need, "{need} is out of {bounds:?} for {few:?}");
        // No demand at all is a case of its own: a workload that uses its min without being
        // throttled is taken for one whose throttling cannot be seen, and gets more than a little
        // demand gives.
        let demand = few.demand.max(many.demand);
        if few.demand > Ratio::ZERO {
            let more = spec(bounds, &SpecFacts { demand, ..*few });
            ensure!(more >= need, "{more} with a demand of {demand:?}, but {need} for {few:?}");
        }
        let usage = few.usage.max(many.usage);
        let more = spec(bounds, &SpecFacts { usage, ..*few });
        ensure!(more >= need, "{more} with a usage of {usage:?}, but {need} for {few:?}");
        let headroom_misses = few.headroom_misses.max(many.headroom_misses);
        let more = spec(bounds, &SpecFacts { headroom_misses, ..*few });
        ensure!(more >= need, "{more} with {headroom_misses} misses, but {need} for {few:?}");
        for facts in [few, many] {
            let headroom = headroom(facts.demand, facts.headroom_misses);
            let (least, most) = (Ratio::from_percent(10), Ratio::from_percent(50));
            ensure!(least <= headroom && headroom <= most, "headroom {headroom} for {facts:?}");
        }
        Ok(())
    }

    fn facts(rng: &mut Rng) -> SpecFacts {
        let demand = match rng.below(4) {
            0 => 0,
            1 => 1_000_000,
            2 => spread(rng, 2_000_000),
            _ => within(rng, 0, 1_000_000),
        };
        let usage = percent(rng, 70).then(|| Millicores::new(spread(rng, 1_000_000_000)));
        let misses = u32::try_from(spread(rng, u64::from(u32::MAX))).unwrap();
        SpecFacts { demand: Ratio::from_millionths(demand), usage, headroom_misses: misses }
    }

    // === Reading counters ===

    #[test]
    fn two_samples_are_read_for_what_they_are() {
        let mut cases = Cases::of("two_samples_are_read_for_what_they_are", 500_000);
        for seed in cases.seeds() {
            let mut rng = Rng::from_seed(seed);
            let older = sample(&mut rng, &Sample::default());
            let newer = sample(&mut rng, &older);
            cases.count(match read(&older, &newer) {
                Reading::Window(_) => "windows",
                Reading::Reset => "resets",
                Reading::TooShort => "too short",
                Reading::OutOfOrder => "out of order",
            });
            cases.check(seed, &[(older, newer)], |pairs| {
                pairs.iter().try_for_each(|(older, newer)| is_read_right(older, newer))
            });
        }
        cases.report();
    }

    fn is_read_right(older: &Sample, newer: &Sample) -> Verdict {
        let waiting = older.stalled.zip(newer.stalled);
        let backwards = newer.usage < older.usage
            || newer.throttled < older.throttled
            || newer.nr_periods < older.nr_periods
            || newer.nr_throttled < older.nr_throttled
            || waiting.is_some_and(|(before, after)| after < before);
        let reading = read(older, newer);
        let expected = if newer.at <= older.at {
            reading == Reading::OutOfOrder
        } else if backwards {
            reading == Reading::Reset
        } else if newer.at.since(older.at) < WINDOW_FLOOR {
            reading == Reading::TooShort
        } else {
            matches!(reading, Reading::Window(_))
        };
        ensure!(expected, "{reading:?}");
        match reading {
            Reading::Window(signal) => signal_is_right(older, newer, &signal),
            Reading::Reset | Reading::TooShort | Reading::OutOfOrder => Ok(()),
        }
    }

    fn signal_is_right(older: &Sample, newer: &Sample, signal: &Signal) -> Verdict {
        let one = Ratio::ONE;
        ensure!(signal.demand <= one, "a demand of {}", signal.demand);
        ensure!(signal.period_ratio <= one, "throttled in {} of periods", signal.period_ratio);
        ensure!(signal.stall_ratio <= one, "waiting for {} of the time", signal.stall_ratio);
        ensure!(signal.throttled_periods <= signal.periods, "more throttled than periods");
        ensure!(signal.usage <= Millicores::LIMIT, "a usage of {}", signal.usage);
        ensure!(signal.window == newer.at.since(older.at), "a window of {}", signal.window);
        let used_us = newer.usage.as_us() - older.usage.as_us();
        let throttled_us = newer.throttled.as_us() - older.throttled.as_us();
        let exact = u128::from(used_us) * 1000 / u128::from(signal.window.as_us());
        let usage = u128::from(signal.usage.get());
        ensure!(
            usage.abs_diff(exact.min(u128::from(Millicores::LIMIT.get()))) <= 1,
            "a usage of {usage}m, and not {exact}m"
        );
        let idle = used_us < USAGE_FLOOR.as_us();
        ensure!(!idle || signal.demand == Ratio::ZERO, "an idle workload wants {}", signal.demand);
        let never_held_back = throttled_us == 0 && signal.stall_ratio == Ratio::ZERO;
        ensure!(
            !never_held_back || signal.demand == Ratio::ZERO,
            "a workload that was never held back wants {}",
            signal.demand
        );
        if !idle && signal.periods > 0 && Ratio::of(throttled_us, used_us) >= FULL_DEMAND {
            ensure!(signal.demand == one, "a demand of {} at full throttle", signal.demand);
        }
        Ok(())
    }

    /// A sample after `before`, mostly larger in everything, sometimes not.
    fn sample(rng: &mut Rng, before: &Sample) -> Sample {
        let span = |rng: &mut Rng, before: Span, most: u64| {
            let added = spread(rng, most);
            Span::from_us(match rng.below(40) {
                0 => before.as_us().saturating_sub(added),
                _ => before.as_us() + added,
            })
        };
        let count = |rng: &mut Rng, before: u64| match rng.below(40) {
            0 => before.saturating_sub(rng.below(10)),
            1 => before + spread(rng, 1 << 40),
            _ => before + rng.below(200),
        };
        let since_origin = before.at.since(Moment::ORIGIN);
        let most = one_of(rng, &[100, 100_000, 60_000_000, 1 << 50]);
        Sample {
            at: Moment::ORIGIN + span(rng, since_origin, most),
            usage: span(rng, before.usage, most),
            throttled: span(rng, before.throttled, most),
            nr_periods: count(rng, before.nr_periods),
            nr_throttled: count(rng, before.nr_throttled),
            stalled: percent(rng, 70).then(|| span(rng, before.stalled.unwrap_or_default(), most)),
        }
    }
}
