//! Groups below others and groups that are bound to CPUs keep the kernel's promises on random
//! machines: a group runs what its children run, quotas hold at each level, no set of CPUs runs
//! more than it has, nobody waits for nothing, and weights share wherever somebody waits.
//!
//! Prints its seed and what it covered, and names the seed of a broken case.

#[cfg(test)]
mod cases;

#[cfg(test)]
mod tests {
    use walras_core::rng::Rng;
    use walras_core::units::Millicores;
    use walras_sim::machine::{CpuSet, Machine, PERIOD_MS, SLICE_MS, Want};
    use walras_sim::random::draw::{one_of, within};

    use crate::cases::{Cases, Verdict};
    use crate::ensure;

    /// Work is floating point; what differs by less is the same.
    const CLOSE: f64 = 1e-6;
    const PERIODS: u32 = 6;

    /// A group at the top, with what is below it.
    #[derive(Clone, Debug)]
    struct Top {
        own: Terms,
        cpus: Option<CpuSet>,
        children: Vec<Terms>,
    }

    #[derive(Clone, Copy, Debug)]
    struct Terms {
        limit: Option<Millicores>,
        weight: u32,
        threads: u32,
        saturated: bool,
    }

    /// A group as the test knows it, by its place in the machine.
    #[derive(Clone, Debug)]
    struct Known {
        terms: Terms,
        cpus: CpuSet,
        parent: Option<usize>,
        children: Vec<usize>,
        left_core_ms: f64,
    }

    /// What the slices were like, so that nothing is proved of what did not happen.
    #[derive(Clone, Copy, Debug, Default)]
    struct Seen {
        by_parent: u64,
        by_cpus: u64,
        crowded: u64,
    }

    #[test]
    fn groups_in_a_tree_and_on_some_cpus_get_what_is_theirs() {
        let mut cases = Cases::of("groups_in_a_tree_and_on_some_cpus_get_what_is_theirs", 400);
        let mut seen = Seen::default();
        for seed in cases.seeds() {
            let mut rng = Rng::from_seed(seed);
            let cores = one_of(&mut rng, &[1.0, 2.0, 3.5, 4.0, 8.0]);
            let bound = within(&mut rng, 0, 1) == 1;
            let tops: Vec<Top> =
                (0..within(&mut rng, 1, 7)).map(|_| top(&mut rng, cores, bound)).collect();
            cases.check(seed, &tops, |tops| contend(seed, cores, tops, &mut seen));
        }
        let Seen { by_parent, by_cpus, crowded } = seen;
        for (kind, count) in
            [("held by a parent", by_parent), ("short of CPUs", by_cpus), ("crowded", crowded)]
        {
            assert!(count > 0, "no slice was {kind}");
            (0..count).for_each(|_| cases.count(kind));
        }
        cases.report();
    }

    fn contend(seed: u64, cores: f64, tops: &[Top], seen: &mut Seen) -> Verdict {
        let mut rng = Rng::from_seed(seed ^ 0xC0DE);
        let (mut machine, mut known) = machine(cores, tops);
        // The same groups, bound to all CPUs where they are not bound to some: that is no bond.
        let (mut twin, _) = self::machine(cores, tops);
        for (place, group) in known.iter().enumerate().filter(|(_, group)| group.parent.is_none()) {
            twin.bind(place, group.cpus);
        }
        let sets = known.iter().map(|group| group.cpus);
        let regions = CpuSet::regions(sets.chain(CpuSet::all(cores))).expect("few");
        let mut got = vec![0.0; known.len()];
        let mut twins_got = got.clone();
        for _ in 0..PERIODS {
            for _ in 0..PERIOD_MS / SLICE_MS {
                let wants: Vec<Want> = known.iter().map(|group| want(&mut rng, group)).collect();
                machine.run_slice(&wants, &mut got);
                twin.run_slice(&wants, &mut twins_got);
                for (one, other) in got.iter().zip(&twins_got) {
                    ensure!(close(*one, *other), "{got:?}, bound to all CPUs {twins_got:?}");
                }
                let slice = Slice { cores, known: &known, regions: &regions, wants: &wants };
                slice.judge(&got, seen)?;
                for (group, got) in known.iter_mut().zip(&got) {
                    group.left_core_ms -= got;
                }
            }
            for (place, group) in known.iter_mut().enumerate() {
                ensure!(at_most(0.0, group.left_core_ms), "{place} ran beyond its quota");
                group.left_core_ms = per_period(group.terms.limit);
            }
        }
        Ok(())
    }

    /// One slice: everything a scheduler promises.
    struct Slice<'a> {
        cores: f64,
        known: &'a [Known],
        regions: &'a [CpuSet],
        wants: &'a [Want],
    }

    impl Slice<'_> {
        fn judge(&self, got: &[f64], seen: &mut Seen) -> Verdict {
            for (place, group) in self.known.iter().enumerate() {
                let most = self.most(place);
                ensure!(
                    at_most(0.0, got[place]) && at_most(got[place], most),
                    "{place} ran {} of {most}",
                    got[place]
                );
                if !group.children.is_empty() {
                    let below: f64 = group.children.iter().map(|&child| got[child]).sum();
                    ensure!(close(got[place], below), "{place} ran {}, below {below}", got[place]);
                    self.judge_siblings(&group.children, got, got[place], seen)?;
                    seen.by_parent += u64::from(self.runnable(place) > most + CLOSE);
                }
            }
            for &region in self.regions {
                let (ran, has) = (self.ran_on(region, got), self.has(region));
                ensure!(at_most(ran, has), "{region:?} ran {ran} of {has}: {got:?}");
            }
            self.judge_tops(got, seen)
        }

        /// Siblings share by weight what their parent got.
        fn judge_siblings(
            &self,
            places: &[usize],
            got: &[f64],
            pool: f64,
            seen: &mut Seen,
        ) -> Verdict {
            let waits = |place: usize| got[place] < self.most(place) - CLOSE;
            for &one in places.iter().filter(|&&place| waits(place)) {
                seen.crowded += 1;
                for &other in places {
                    ensure!(
                        at_most(self.per_weight(other, got), self.per_weight(one, got)),
                        "{one} waits and {other} has more of {pool}: {got:?}"
                    );
                }
            }
            Ok(())
        }

        /// Whoever waits at the top is in a region that is full, of which nobody has more for its
        /// weight.
        fn judge_tops(&self, got: &[f64], seen: &mut Seen) -> Verdict {
            for (place, group) in self.known.iter().enumerate() {
                if group.parent.is_some() || got[place] >= self.most(place) - CLOSE {
                    continue;
                }
                let is_cause = |region: CpuSet| {
                    let full = self.ran_on(region, got) >= self.has(region) - CLOSE;
                    let level = self.per_weight(place, got);
                    let mut members = self.members(region);
                    full && members.all(|other| self.per_weight(other, got) <= level + CLOSE)
                };
                let mut around =
                    self.regions.iter().filter(|region| group.cpus.is_within(**region));
                ensure!(
                    around.any(|&region| is_cause(region)),
                    "{place} waits without a cause: {got:?}"
                );
                seen.by_cpus += u64::from(self.ran(got) < self.cores * f64::from(SLICE_MS) - CLOSE);
            }
            Ok(())
        }

        /// What a group can run at most, by its work and by the quotas of itself and below.
        fn most(&self, place: usize) -> f64 {
            self.runnable(place).min(self.known[place].left_core_ms).max(0.0)
        }

        fn runnable(&self, place: usize) -> f64 {
            let (group, want) = (&self.known[place], &self.wants[place]);
            let cores = group.cpus.cores(self.cores);
            let below: f64 = group.children.iter().map(|&child| self.most(child)).sum();
            let own = want.work_core_ms.min(want.threads.min(cores) * f64::from(SLICE_MS));
            (below + own).min(cores * f64::from(SLICE_MS))
        }

        fn per_weight(&self, place: usize, got: &[f64]) -> f64 {
            got[place] * 1e3 / f64::from(self.known[place].terms.weight)
        }

        fn members(&self, region: CpuSet) -> impl Iterator<Item = usize> {
            let groups = self.known.iter().enumerate();
            groups
                .filter(move |(_, group)| group.parent.is_none() && group.cpus.is_within(region))
                .map(|(place, _)| place)
        }

        fn ran_on(&self, region: CpuSet, got: &[f64]) -> f64 {
            self.members(region).map(|place| got[place]).sum()
        }

        fn has(&self, region: CpuSet) -> f64 {
            region.cores(self.cores) * f64::from(SLICE_MS)
        }

        fn ran(&self, got: &[f64]) -> f64 {
            CpuSet::all(self.cores).map_or(0.0, |all| self.ran_on(all, got))
        }
    }

    fn machine(cores: f64, tops: &[Top]) -> (Machine, Vec<Known>) {
        let mut machine = Machine::new(cores, tops.len());
        let all = CpuSet::all(cores).expect("a small machine");
        let group = |terms: Terms, cpus, parent| Known {
            terms,
            cpus,
            parent,
            children: Vec::new(),
            left_core_ms: per_period(terms.limit),
        };
        let mut known: Vec<Known> =
            tops.iter().map(|top| group(top.own, top.cpus.unwrap_or(all), None)).collect();
        for (place, top) in tops.iter().enumerate() {
            if let Some(cpus) = top.cpus {
                machine.bind(place, cpus);
            }
            for &child in &top.children {
                known[place].children.push(machine.add_child(place));
                known.push(group(child, known[place].cpus, Some(place)));
            }
        }
        for (place, group) in known.iter().enumerate() {
            machine.group_mut(place).set_weight(group.terms.weight);
            machine.group_mut(place).set_limit(group.terms.limit, Millicores::ZERO);
        }
        (machine, known)
    }

    fn top(rng: &mut Rng, cores: f64, bound: bool) -> Top {
        let count = (0..8).take_while(|&cpu| f64::from(cpu) < cores).count();
        let count = u32::try_from(count).expect("small");
        let some = (0..count).filter(|_| within(rng, 0, 2) == 0);
        let some: Vec<u32> = some.collect();
        let cpus = CpuSet::of(some).filter(|_| bound && within(rng, 0, 2) > 0);
        let children = (0..within(rng, 0, 3)).map(|_| terms(rng)).collect();
        Top { own: terms(rng), cpus, children }
    }

    fn terms(rng: &mut Rng) -> Terms {
        Terms {
            limit: (within(rng, 0, 2) > 0).then(|| Millicores::new(within(rng, 10, 3000))),
            weight: u32::try_from(within(rng, 1, 1000)).expect("small"),
            threads: u32::try_from(within(rng, 1, 8)).expect("small"),
            saturated: within(rng, 0, 1) == 0,
        }
    }

    fn want(rng: &mut Rng, group: &Known) -> Want {
        if !group.children.is_empty() {
            return Want::default();
        }
        let threads = f64::from(group.terms.threads);
        let part = if group.terms.saturated { 2.0 } else { (rng.unit() * 3.0 - 1.0).max(0.0) };
        Want { threads, work_core_ms: threads * f64::from(SLICE_MS) * part }
    }

    #[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 millicores")]
    fn per_period(limit: Option<Millicores>) -> f64 {
        limit.map_or(f64::INFINITY, |limit| limit.get() as f64 / 1000.0 * f64::from(PERIOD_MS))
    }

    fn at_most(one: f64, other: f64) -> bool {
        one <= other + CLOSE
    }

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() <= CLOSE * one.abs().max(other.abs()).max(1.0)
    }
}
