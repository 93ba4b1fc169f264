//! What the market promises, on more than a million random markets.
//!
//! Every test prints its seed and what it covered, and names the seed of a broken case. The plain
//! promises are checked on every market; the exact reference, permutations and comparisons of two
//! clearings on a part of them, since they cost many times more.
//!
//! Comparisons of two clearings allow one millicore. Whole millicores cannot be divided further,
//! and handing out the last ones by largest remainder is exact in sum but not monotone: with one
//! more millicore to share, the fractions change, and a workload can lose the one it had by
//! rounding up.

#[cfg(test)]
mod cases;

#[cfg(test)]
mod tests {
    use num_rational::Ratio as Exact;
    use walras_core::market::{
        Bid, Clearing, Fairness, HYSTERESIS_BAND, Mode, Reason, SURVIVAL_FLOOR, Terms, clear,
    };
    use walras_core::need::Bounds;
    use walras_core::rng::Rng;
    use walras_core::units::{Millicores, Ratio, Weight};
    use walras_sim::random::draw::{place, shuffle, spread, within};
    use walras_sim::random::market::{Market, Regime, market, market_in};
    use walras_sim::reference::exact;

    use crate::cases::{Cases, Verdict};
    use crate::ensure;

    const ONE: Millicores = Millicores::new(1);

    // === The promises of a single clearing ===

    #[test]
    fn every_clearing_keeps_its_promises() {
        let mut cases = Cases::of("every_clearing_keeps_its_promises", 1_000_000);
        for seed in cases.seeds() {
            let market = market(&mut Rng::from_seed(seed));
            cases.check(seed, &market.bids, |bids| {
                let clearing = clear(&market.terms, bids);
                keeps_bounds_and_sums(&market.terms, bids, &clearing)?;
                keeps_its_label_and_price(&market.terms, bids, &clearing)?;
                explains_its_grants(&market.terms, bids, &clearing)?;
                ensure!(
                    clear(&market.terms, bids) == clearing,
                    "the same market cleared differently under {:?}",
                    market.terms
                );
                Ok(())
            });
            count(&mut cases, &market);
        }
        cases.report();
    }

    #[test]
    fn scarce_markets_agree_with_exact_arithmetic() {
        let mut cases = Cases::of("scarce_markets_agree_with_exact_arithmetic", 1_000_000);
        for seed in cases.seeds() {
            let market = market(&mut Rng::from_seed(seed));
            cases.check(seed, &market.bids, |bids| agrees_with_exact(&market.terms, bids));
            count(&mut cases, &market);
        }
        cases.report();
    }

    #[test]
    fn overloaded_markets_keep_everyone_alive() {
        let mut cases = Cases::of("overloaded_markets_keep_everyone_alive", 200_000);
        for seed in cases.seeds() {
            let mut rng = Rng::from_seed(seed);
            let regime = [Regime::Short, Regime::BelowFloors][place(&mut rng, 2)];
            let workloads = place(&mut rng, 12);
            let market = market_in(&mut rng, regime, workloads);
            cases.check(seed, &market.bids, |bids| keeps_alive(&market.terms, bids));
            count(&mut cases, &market);
        }
        cases.report();
    }

    // === Promises about two clearings ===

    #[test]
    fn who_comes_first_matters_by_one_millicore_at_most() {
        let mut cases = Cases::of("who_comes_first_matters_by_one_millicore_at_most", 200_000);
        for seed in cases.seeds() {
            let mut rng = Rng::from_seed(seed);
            let market = market(&mut rng);
            let shuffling = rng.next_u64();
            cases.check(seed, &market.bids, |bids| {
                let mut order: Vec<usize> = (0..bids.len()).collect();
                shuffle(&mut Rng::from_seed(shuffling), &mut order);
                let moved: Vec<Bid> = order.iter().map(|&from| bids[from]).collect();
                let plain = clear(&market.terms, bids);
                let shuffled = clear(&market.terms, &moved);
                ensure!(
                    (plain.mode, plain.price, plain.total_grant)
                        == (shuffled.mode, shuffled.price, shuffled.total_grant),
                    "order changed the market as a whole under {:?}",
                    market.terms
                );
                for (to, &from) in order.iter().enumerate() {
                    let (one, other) = (plain.grants[from].amount, shuffled.grants[to].amount);
                    ensure!(
                        one.abs_diff(other) <= ONE,
                        "pod {from} got {one} at its place and {other} at place {to} under {:?}",
                        market.terms
                    );
                }
                Ok(())
            });
            count(&mut cases, &market);
        }
        cases.report();
    }

    #[test]
    fn more_never_hurts() {
        let mut cases = Cases::of("more_never_hurts", 200_000);
        for seed in cases.seeds() {
            let mut rng = Rng::from_seed(seed);
            let market = market(&mut rng);
            let changes = rng.next_u64();
            cases.check(seed, &market.bids, |bids| {
                let mut rng = Rng::from_seed(changes);
                more_capacity_hurts_nobody(&mut rng, &market.terms, bids)?;
                more_need_and_weight_never_hurt_oneself(&mut rng, &market.terms, bids)
            });
            count(&mut cases, &market);
        }
        cases.report();
    }

    #[test]
    fn equal_workloads_are_treated_alike() {
        let mut cases = Cases::of("equal_pods_are_treated_alike", 200_000);
        for seed in cases.seeds() {
            let mut rng = Rng::from_seed(seed);
            let mut market = market(&mut rng);
            if let Some(&twin) = market.bids.get(place(&mut rng, market.bids.len())) {
                market.bids.insert(place(&mut rng, market.bids.len() + 1), twin);
            }
            cases.check(seed, &market.bids, |bids| {
                let clearing = clear(&market.terms, bids);
                for (one, bid) in clearing.grants.iter().zip(bids) {
                    for (other, other_bid) in clearing.grants.iter().zip(bids) {
                        ensure!(
                            bid != other_bid || one.amount.abs_diff(other.amount) <= ONE,
                            "equal pods got {} and {} under {:?}",
                            one.amount,
                            other.amount,
                            market.terms
                        );
                    }
                }
                Ok(())
            });
            count(&mut cases, &market);
        }
        cases.report();
    }

    // === What is checked ===

    /// Grants lie within bounds and add up.
    fn keeps_bounds_and_sums(terms: &Terms, bids: &[Bid], clearing: &Clearing) -> Verdict {
        let actual = actual_mode(terms, bids);
        let total: Millicores = clearing.grants.iter().map(|grant| grant.amount).sum();
        ensure!(clearing.grants.len() == bids.len(), "a grant is missing");
        ensure!(total == clearing.total_grant, "the total is wrong under {terms:?}");
        ensure!(total <= terms.capacity, "{total} were granted under {terms:?}");
        ensure!(
            total == terms.capacity || actual == Mode::Uncongested,
            "{total} were granted and the rest was left over, though {actual}, under {terms:?}"
        );
        for (grant, bid) in clearing.grants.iter().zip(bids) {
            let (amount, min, max) = (grant.amount, bid.min(), bid.max());
            ensure!(grant.need == need(terms, bid), "the need of {bid:?} is another");
            ensure!(amount <= max, "{amount} for {bid:?} under {terms:?}");
            match actual {
                Mode::Uncongested => {
                    ensure!(amount == grant.need, "{amount} for {bid:?} under {terms:?}");
                }
                Mode::Congested => {
                    ensure!(
                        min <= amount && amount <= grant.need,
                        "{amount} for {bid:?} under {terms:?}"
                    );
                }
                Mode::Overloaded => {
                    ensure!(
                        amount <= min.max(SURVIVAL_FLOOR),
                        "{amount} for {bid:?} under {terms:?}, though mins do not fit"
                    );
                }
            }
        }
        Ok(())
    }

    /// Mode, price and multiplier are what they say they are.
    fn keeps_its_label_and_price(terms: &Terms, bids: &[Bid], clearing: &Clearing) -> Verdict {
        let actual = actual_mode(terms, bids);
        let needs = total(bids.iter().map(|bid| need(terms, bid)));
        ensure!(clearing.total_need.get() == needs, "the total need is wrong");
        ensure!(
            clearing.total_min.get() == total(bids.iter().map(Bid::min)),
            "the total min is wrong"
        );
        let capacity = terms.capacity.get();
        let margin = capacity * HYSTERESIS_BAND.millionths() / Ratio::ONE.millionths();
        let in_band = needs > capacity - margin && needs < capacity + margin;
        let mode = clearing.mode;
        if let Some(scarce) = terms.scarce {
            // What was measured is the label, and only rights that do not fit are worse than that.
            let expected = match (scarce, actual) {
                (false, _) => Mode::Uncongested,
                (true, Mode::Overloaded) => Mode::Overloaded,
                (true, Mode::Congested | Mode::Uncongested) => Mode::Congested,
            };
            ensure!(mode == expected, "{mode}, not {expected} under {terms:?}");
        } else if mode == actual {
            let kept = matches!(terms.previous_mode, Some(Mode::Uncongested | Mode::Congested));
            ensure!(
                !in_band
                    || !kept
                    || actual == Mode::Overloaded
                    || terms.previous_mode == Some(mode),
                "{mode} inside the band under {terms:?}"
            );
        } else {
            ensure!(
                in_band && terms.previous_mode == Some(mode) && actual != Mode::Overloaded,
                "{mode} though {actual} under {terms:?} with needs of {needs}m"
            );
        }
        ensure!(
            clearing.price == price(terms, bids, mode),
            "a price of {:?} under {terms:?}",
            clearing.price
        );
        // The multiplier follows the sums. It rounds to zero where pull is tiny against the pool.
        ensure!(
            actual != Mode::Uncongested || clearing.multiplier == Ratio::ZERO,
            "all needs fit, and yet CPU costs {:?} under {terms:?}",
            clearing.multiplier
        );
        ensure!(
            actual != Mode::Overloaded || clearing.multiplier > Ratio::ZERO,
            "overloaded, and yet CPU is free under {terms:?}"
        );
        Ok(())
    }

    /// Reductions and reasons fit the grants they belong to.
    fn explains_its_grants(terms: &Terms, bids: &[Bid], clearing: &Clearing) -> Verdict {
        let actual = actual_mode(terms, bids);
        for (grant, bid) in clearing.grants.iter().zip(bids) {
            let (reduction, missing) =
                (grant.reduction, grant.need.get() - grant.amount.min(grant.need).get());
            let surplus = grant.need.saturating_sub(bid.min()).get();
            let expected = match (missing, surplus) {
                (0, _) => Ratio::ZERO,
                (_, 0) => Ratio::ONE,
                (missing, surplus) => Ratio::of(missing, surplus).at_most_one(),
            };
            ensure!(reduction == expected, "{grant:?} for {bid:?} under {terms:?}");
            ensure!(reduction <= Ratio::ONE, "{grant:?} for {bid:?} under {terms:?}");
            let idle = terms.scarce == Some(false);
            let fits = match grant.reason {
                Reason::NeedMet | Reason::AtMax => actual == Mode::Uncongested && missing == 0,
                Reason::AtMin => actual != Mode::Overloaded && grant.amount == bid.min(),
                Reason::Filled => actual == Mode::Congested && missing == 0,
                Reason::Cut => actual == Mode::Congested && missing > 0 && !idle,
                Reason::MinScaled => {
                    actual == Mode::Overloaded && grant.amount <= bid.min() && !idle
                }
                Reason::SurvivalFloor => {
                    actual == Mode::Overloaded && grant.amount == SURVIVAL_FLOOR.min(bid.max())
                }
                Reason::EqualSplit => actual == Mode::Overloaded && !idle,
                Reason::IfAllAsked => actual != Mode::Uncongested && idle,
            };
            ensure!(fits, "{grant:?} for {bid:?} under {terms:?}, which is {actual}");
        }
        Ok(())
    }

    /// Whole millicores are within one of the exact fractions.
    fn agrees_with_exact(terms: &Terms, bids: &[Bid]) -> Verdict {
        let clearing = clear(terms, bids);
        let exact = exact::grants(terms, bids);
        for ((grant, exact), bid) in clearing.grants.iter().zip(&exact).zip(bids) {
            let amount = Exact::from(i128::from(grant.amount.get()));
            let off = if amount > *exact { amount - exact } else { exact - amount };
            ensure!(
                off < Exact::from(1),
                "{} is not within one of {exact} for {bid:?} under {terms:?}",
                grant.amount
            );
        }
        let equal_weights = bids.windows(2).all(|two| two[0].weight() == two[1].weight());
        if actual_mode(terms, bids) == Mode::Congested
            && terms.fairness == Fairness::Proportional
            && equal_weights
        {
            // extra / surplus is the same for all, so extra * surpluses is surplus * pool.
            let mins = total(bids.iter().map(Bid::min));
            let pool = u128::from(terms.capacity.get() - mins);
            let surpluses = u128::from(clearing.total_need.get() - mins);
            for (grant, bid) in clearing.grants.iter().zip(bids) {
                let extra = u128::from(grant.amount.get() - bid.min().get());
                let surplus = u128::from(grant.need.get() - bid.min().get());
                ensure!(
                    (extra * surpluses).abs_diff(surplus * pool) < surpluses,
                    "{extra}m of a surplus of {surplus}m is another ratio under {terms:?}"
                );
            }
        }
        Ok(())
    }

    /// Everyone has the floor where there is enough for all; else all have the same.
    fn keeps_alive(terms: &Terms, bids: &[Bid]) -> Verdict {
        if actual_mode(terms, bids) != Mode::Overloaded {
            return Ok(());
        }
        let clearing = clear(terms, bids);
        let floors = total(bids.iter().map(|bid| SURVIVAL_FLOOR.min(bid.max())));
        let most = clearing.grants.iter().map(|grant| grant.amount).max().unwrap_or_default();
        for (grant, bid) in clearing.grants.iter().zip(bids) {
            let amount = grant.amount;
            if terms.capacity.get() >= floors {
                ensure!(
                    amount >= SURVIVAL_FLOOR.min(bid.max()),
                    "{amount} for {bid:?} under {terms:?}"
                );
            } else {
                ensure!(
                    amount + ONE >= most.min(bid.max()),
                    "{amount} for {bid:?} under {terms:?}, where another has {most}"
                );
            }
        }
        Ok(())
    }

    /// More capacity hurts nobody, except a workload whose min is below the survival floor: it is
    /// lifted to the floor in an overloaded market, and falls back to its min when that is over.
    fn more_capacity_hurts_nobody(rng: &mut Rng, terms: &Terms, bids: &[Bid]) -> Verdict {
        let more = match rng.below(3) {
            0 => 1,
            1 => within(rng, 1, 50),
            _ => spread(rng, terms.capacity.get().max(100)),
        };
        let roomier = Terms { capacity: terms.capacity + Millicores::new(more), ..*terms };
        let (before, after) = (clear(terms, bids), clear(&roomier, bids));
        let leaves_overload = actual_mode(terms, bids) == Mode::Overloaded
            && actual_mode(&roomier, bids) != Mode::Overloaded;
        for ((one, other), bid) in before.grants.iter().zip(&after.grants).zip(bids) {
            if leaves_overload && bid.min() < SURVIVAL_FLOOR {
                continue;
            }
            ensure!(
                other.amount + ONE >= one.amount,
                "{more}m more took {bid:?} from {} to {} under {terms:?}",
                one.amount,
                other.amount
            );
        }
        Ok(())
    }

    fn more_need_and_weight_never_hurt_oneself(
        rng: &mut Rng,
        terms: &Terms,
        bids: &[Bid],
    ) -> Verdict {
        let chosen = place(rng, bids.len());
        let (more_need, more_weight) = (rng.next_u64(), rng.next_u64());
        let Some(bid) = bids.get(chosen) else {
            return Ok(());
        };
        let bounds = Bounds::new(bid.min(), bid.max());
        let need = bid.need().get() + more_need % (bid.max().get() - bid.need().get() + 1);
        let room = Weight::LIMIT_THOUSANDTHS - bid.weight().thousandths();
        let added = u32::try_from(more_weight % (u64::from(room) + 1)).unwrap();
        let weight = Weight::from_thousandths(bid.weight().thousandths() + added).unwrap();
        let changes = [
            ("need", Bid::new(bounds, Millicores::new(need), bid.weight())),
            ("weight", Bid::new(bounds, bid.need(), weight)),
        ];
        let before = clear(terms, bids).grants[chosen].amount;
        for (what, changed) in changes {
            let mut others = bids.to_vec();
            others[chosen] = changed;
            let after = clear(terms, &others).grants[chosen].amount;
            ensure!(
                after + ONE >= before,
                "more {what} took {bid:?} from {before} to {after} as {changed:?} under {terms:?}"
            );
        }
        Ok(())
    }

    // === What the checks know by themselves ===

    fn need(terms: &Terms, bid: &Bid) -> Millicores {
        if terms.demand_capped { bid.need() } else { bid.max() }
    }

    fn total(amounts: impl Iterator<Item = Millicores>) -> u64 {
        amounts.map(Millicores::get).sum()
    }

    /// The mode by sums alone, without the label's memory.
    fn actual_mode(terms: &Terms, bids: &[Bid]) -> Mode {
        if total(bids.iter().map(Bid::min)) > terms.capacity.get() {
            Mode::Overloaded
        } else if total(bids.iter().map(|bid| need(terms, bid))) > terms.capacity.get() {
            Mode::Congested
        } else {
            Mode::Uncongested
        }
    }

    /// How far bids exceed capacity, as a share of it, times the mean weight; to the nearest.
    fn price(terms: &Terms, bids: &[Bid], mode: Mode) -> Ratio {
        let bid_total = total(bids.iter().map(Bid::need));
        let capacity = terms.capacity.get();
        if mode == Mode::Uncongested || bid_total <= capacity {
            return Ratio::ZERO;
        }
        let weights: u64 = bids.iter().map(|bid| u64::from(bid.weight().thousandths())).sum();
        let mean = Exact::new(i128::from(weights), 1000 * i128::try_from(bids.len()).unwrap());
        let excess = Exact::new(i128::from(bid_total - capacity), i128::from(capacity.max(1)));
        let millionths = (mean * excess * Exact::from(1_000_000)).round().to_integer();
        Ratio::from_millionths(u64::try_from(millionths).unwrap_or(u64::MAX))
    }

    fn count(cases: &mut Cases, market: &Market) {
        cases.count(actual_mode(&market.terms, &market.bids).name());
        cases.count(market.terms.fairness.name());
        cases.count(match market.regime {
            Regime::Roomy => "roomy",
            Regime::Scarce => "scarce",
            Regime::Short => "short",
            Regime::Hovering => "hovering",
            Regime::Empty => "empty",
            Regime::BelowFloors => "below floors",
            Regime::AtMins => "at mins",
            Regime::AtNeeds => "at needs",
            Regime::Any => "any",
        });
    }
}
