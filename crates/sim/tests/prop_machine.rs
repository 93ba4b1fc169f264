//! The model of a machine keeps the kernel's promises on random machines and loads: cores are
//! neither made up nor left idle, quotas hold, weights share, and no work is lost or found.
//!
//! Prints its seed and what it covered, and names the seed of a broken case.

#[cfg(test)]
mod cases;

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use walras_core::profile::Profile;
    use walras_core::rng::Rng;
    use walras_core::units::Millicores;
    use walras_sim::fleet::run_fleet;
    use walras_sim::load::{Histogram, Load, LoadSpec, Shape, Startup};
    use walras_sim::machine::{Machine, PERIOD_MS, SLICE_MS, Want};
    use walras_sim::policy::{Actuation, Market, Policy};
    use walras_sim::random::draw::{one_of, place, within};
    use walras_sim::scenario::{NodeSpec, PodSpec, Scenario, Suite};

    use crate::cases::{Cases, Verdict};
    use crate::ensure;

    /// Work is floating point; what differs by less is the same.
    const CLOSE: f64 = 1e-6;
    const SLICES_PER_PERIOD: u32 = PERIOD_MS / SLICE_MS;

    /// One group of a random machine.
    #[derive(Clone, Debug)]
    struct Member {
        limit: Option<Millicores>,
        burst: Millicores,
        weight: u32,
        threads: u32,
        /// Whether it always has more to do than it can.
        saturated: bool,
    }

    #[test]
    fn cores_are_never_exceeded_nor_idle_and_are_shared_by_weight_within_quotas() {
        let test = "cores_are_never_exceeded_nor_idle_and_are_shared_by_weight_within_quotas";
        let mut cases = Cases::of(test, 400);
        let mut seen = Seen::default();
        for seed in cases.seeds() {
            let mut rng = Rng::from_seed(seed);
            let cores = cores_of(&mut rng);
            let members: Vec<Member> =
                (0..within(&mut rng, 1, 12)).map(|_| member(&mut rng)).collect();
            cases.check(seed, &members, |members| contend(seed, cores, members, &mut seen));
        }
        for (kind, count) in seen.kinds() {
            assert!(count > 0, "no slice was {kind}");
            (0..count).for_each(|_| cases.count(kind));
        }
        cases.report();
    }

    /// What the slices were like, so that nothing is proved of what did not happen.
    #[derive(Clone, Copy, Debug, Default)]
    struct Seen {
        crowded: u64,
        spare: u64,
        held_by_quota: u64,
    }

    impl Seen {
        fn kinds(self) -> [(&'static str, u64); 3] {
            [
                ("crowded", self.crowded),
                ("spare", self.spare),
                ("held by quota", self.held_by_quota),
            ]
        }
    }

    fn contend(seed: u64, cores: f64, members: &[Member], seen: &mut Seen) -> Verdict {
        let mut rng = Rng::from_seed(seed ^ 0xC0DE);
        let mut machine = Machine::new(cores, members.len());
        let mut quotas: Vec<Quota> = members.iter().map(|_| Quota::default()).collect();
        for (place, member) in members.iter().enumerate() {
            machine.group_mut(place).set_weight(member.weight);
            set_limit(&mut machine, &mut quotas, place, member.limit, member.burst);
        }
        let mut got = vec![0.0; members.len()];
        let mut used = vec![0.0; members.len()];
        for period in 0..20_u32 {
            // Now and then somebody changes a limit.
            if period % 5 == 4 && !members.is_empty() {
                let place = place(&mut rng, members.len());
                let limit = Some(Millicores::new(within(&mut rng, 10, 8000)));
                set_limit(&mut machine, &mut quotas, place, limit, members[place].burst);
            }
            for quota in &mut quotas {
                quota.ran_core_ms = 0.0;
            }
            for _ in 0..SLICES_PER_PERIOD {
                let wants: Vec<Want> =
                    members.iter().map(|member| want(&mut rng, member)).collect();
                machine.run_slice(&wants, &mut got);
                judge(cores, members, &quotas, &wants, &got, seen)?;
                for (place, quota) in quotas.iter_mut().enumerate() {
                    used[place] += got[place];
                    quota.ran_core_ms += got[place];
                    quota.left_core_ms -= got[place];
                }
            }
            for (place, quota) in quotas.iter_mut().enumerate() {
                let most = quota.most_core_ms();
                ensure!(
                    at_most(quota.ran_core_ms, most),
                    "{place} ran more than {most} in a period"
                );
                quota.refill();
            }
        }
        for (place, used) in used.iter().enumerate() {
            let counters = machine.group(place).counters();
            ensure!(close(counters.usage_core_ms, *used), "{place} used {used}: {counters:?}");
            ensure!(counters.nr_throttled <= counters.nr_periods, "{place}: {counters:?}");
        }
        Ok(())
    }

    /// One slice: everything a scheduler promises.
    fn judge(
        cores: f64,
        members: &[Member],
        quotas: &[Quota],
        wants: &[Want],
        got: &[f64],
        seen: &mut Seen,
    ) -> Verdict {
        let pool = cores * f64::from(SLICE_MS);
        let total: f64 = got.iter().sum();
        ensure!(at_most(total, pool), "{total} core-ms ran on {cores} cores");
        let most: Vec<f64> = wants
            .iter()
            .zip(quotas)
            .map(|(want, quota)| {
                let wanted = want.work_core_ms.min(want.threads.min(cores) * f64::from(SLICE_MS));
                seen.held_by_quota += u64::from(quota.left_core_ms < wanted - CLOSE);
                wanted.min(quota.left_core_ms).max(0.0)
            })
            .collect();
        let has_all = |place: usize| got[place] >= most[place] - CLOSE;
        for place in 0..members.len() {
            ensure!(at_most(0.0, got[place]), "{place} ran {}", got[place]);
            ensure!(
                at_most(got[place], most[place]),
                "{place} ran {} of {}",
                got[place],
                most[place]
            );
            let idle = total < pool - CLOSE;
            ensure!(
                !idle || has_all(place),
                "a core is idle while {place} waits: {got:?} of {most:?}"
            );
        }
        seen.spare += u64::from(total < pool - CLOSE);
        // Whoever waits has the same per weight, and nobody has more per weight than they do.
        let per_weight = |place: usize| got[place] * 1e4 / f64::from(members[place].weight);
        let waiting: Vec<usize> = (0..members.len()).filter(|&place| !has_all(place)).collect();
        seen.crowded += u64::from(waiting.len() > 1);
        if let Some(&first) = waiting.first() {
            let level = per_weight(first);
            for place in 0..members.len() {
                let theirs = per_weight(place);
                let fair = theirs <= level + CLOSE && (has_all(place) || close(theirs, level));
                ensure!(fair, "{place} has {theirs} per weight and {first} {level}: {got:?}");
            }
        }
        Ok(())
    }

    /// A quota as the test counts it, apart from the machine.
    #[derive(Clone, Copy, Debug)]
    struct Quota {
        quota_core_ms: f64,
        burst_core_ms: f64,
        left_core_ms: f64,
        ran_core_ms: f64,
    }

    impl Default for Quota {
        fn default() -> Self {
            let endless = f64::INFINITY;
            Self {
                quota_core_ms: endless,
                burst_core_ms: 0.0,
                left_core_ms: endless,
                ran_core_ms: 0.0,
            }
        }
    }

    impl Quota {
        fn most_core_ms(&self) -> f64 {
            self.quota_core_ms + self.burst_core_ms
        }

        fn refill(&mut self) {
            self.left_core_ms = (self.left_core_ms + self.quota_core_ms).min(self.most_core_ms());
        }
    }

    fn set_limit(
        machine: &mut Machine,
        quotas: &mut [Quota],
        place: usize,
        limit: Option<Millicores>,
        burst: Millicores,
    ) {
        machine.group_mut(place).set_limit(limit, burst);
        let per_period = |cpu: Millicores| milli(cpu) / 1000.0 * f64::from(PERIOD_MS);
        let quota = &mut quotas[place];
        quota.quota_core_ms = limit.map_or(f64::INFINITY, per_period);
        quota.burst_core_ms = limit.map_or(0.0, |limit| per_period(burst.min(limit)));
        quota.refill();
    }

    #[test]
    fn all_work_that_comes_in_is_done_or_still_waiting() {
        let test = "all_work_that_comes_in_is_done_or_still_waiting";
        let mut cases = Cases::of(test, 150);
        for seed in cases.seeds() {
            let mut rng = Rng::from_seed(seed);
            let cores = cores_of(&mut rng);
            let pods: Vec<PodSpec> =
                (0..within(&mut rng, 1, 8)).map(|place| pod(&mut rng, place)).collect();
            cases.count(if cores < 4.0 { "small machines" } else { "large machines" });
            cases.check(seed, &pods, |pods| conserve(seed, cores, pods));
        }
        cases.report();
    }

    fn conserve(seed: u64, cores: f64, pods: &[PodSpec]) -> Verdict {
        let mut machine = Machine::new(cores, pods.len());
        let mut loads: Vec<Load> = Vec::new();
        for (place, pod) in pods.iter().enumerate() {
            let salt = u64::try_from(place).expect("few");
            loads.push(Load::new(pod.load.clone(), pod.startup, seed ^ salt));
            machine.group_mut(place).set_limit(pod.limit, pod.request);
        }
        let mut ran = vec![0.0; pods.len()];
        let mut got = vec![0.0; pods.len()];
        let mut latencies = Histogram::default();
        for slice in 0..3000_u32 {
            let at_ms = f64::from(slice * SLICE_MS);
            let wants: Vec<Want> = loads.iter_mut().map(|load| load.want(at_ms)).collect();
            machine.run_slice(&wants, &mut got);
            for (place, load) in loads.iter_mut().enumerate() {
                let run = load.run(at_ms, got[place], cores, &mut latencies);
                ensure!(at_most(run, got[place]), "{place} ran {run} of {}", got[place]);
                machine.gave_back(place, got[place] - run);
                ran[place] += run;
            }
        }
        for (place, load) in loads.iter().enumerate() {
            let startup = pods[place].startup.map_or(0.0, |startup| startup.work_core_s * 1000.0);
            let (came, done, waits) =
                (load.offered_core_ms() + startup, ran[place], load.left_core_ms());
            ensure!(close(came, done + waits), "{place}: {came} came, {done} done, {waits} waits");
            let used = machine.group(place).counters().usage_core_ms;
            ensure!(close(used, done), "{place}: {done} done, {used} counted");
        }
        Ok(())
    }

    #[test]
    fn the_same_seed_gives_the_same_figures_on_any_number_of_threads() {
        let test = "the_same_seed_gives_the_same_figures_on_any_number_of_threads";
        let mut cases = Cases::of(test, 12);
        for seed in cases.seeds() {
            let mut rng = Rng::from_seed(seed);
            let pods: Vec<PodSpec> =
                (0..within(&mut rng, 1, 6)).map(|place| pod(&mut rng, place)).collect();
            cases.count("scenarios");
            cases.check(seed, &pods, |pods| {
                let figures = |seed, threads| figures(seed, pods, threads);
                ensure!(figures(seed, 1) == figures(seed, 1), "a second run differs");
                ensure!(figures(seed, 1) == figures(seed, 3), "three threads differ");
                Ok(())
            });
        }
        cases.report();
    }

    fn figures(seed: u64, pods: &[PodSpec], threads: usize) -> String {
        let scenario = Scenario {
            name: "random".to_owned(),
            about: String::new(),
            suite: Suite::Other,
            seed,
            duration_s: 30,
            node: NodeSpec::new(Millicores::from_cores(4)),
            nodes: 4,
            pods: pods.to_vec(),
        };
        let make = |scenario: &Scenario, _: u32| -> Box<dyn Policy> {
            let (node, pods) = (&scenario.node, &scenario.pods);
            Box::new(Market::new(Profile::API, Actuation::Api, node, pods))
        };
        let threads = NonZeroUsize::new(threads).expect("at least one");
        format!("{:?}", run_fleet(&scenario, &make, threads, &|| {}).summary)
    }

    fn cores_of(rng: &mut Rng) -> f64 {
        f64::from(one_of(rng, &[1_u16, 2, 3, 4, 8, 64]))
    }

    fn member(rng: &mut Rng) -> Member {
        let limited = within(rng, 0, 3) > 0;
        Member {
            limit: limited.then(|| Millicores::new(within(rng, 10, 6000))),
            burst: Millicores::new(within(rng, 0, 1) * within(rng, 0, 6000)),
            weight: u32::try_from(within(rng, 1, 10_000)).expect("small"),
            threads: u32::try_from(within(rng, 1, 16)).expect("small"),
            saturated: within(rng, 0, 2) == 0,
        }
    }

    fn want(rng: &mut Rng, member: &Member) -> Want {
        let threads = f64::from(member.threads);
        let part = if member.saturated { 2.0 } else { (rng.unit() * 3.0 - 1.0).max(0.0) };
        Want { threads, work_core_ms: threads * f64::from(SLICE_MS) * part }
    }

    fn pod(rng: &mut Rng, place: u64) -> PodSpec {
        let low = rng.unit() * 50.0;
        let rate = Shape::Steps { low, high: low + rng.unit() * 200.0, every_s: 3.0 };
        let threads = f64::from(u32::try_from(within(rng, 1, 8)).expect("small"));
        let load = match within(rng, 0, 2) {
            0 => {
                LoadSpec::Service { rate, cost_ms: 10.0, cost_variation: rng.unit() * 2.0, threads }
            }
            1 => LoadSpec::Batch {
                work_core_s: Some(0.5 + rng.unit() * 5.0),
                threads,
                every_s: Some(4.0),
            },
            _ => LoadSpec::Usage { cores: Shape::Constant { level: rng.unit() * 3.0 }, threads },
        };
        let limit = within(rng, 10, 4000);
        let startup = Startup { work_core_s: 2.0, threads: 2.0 };
        PodSpec {
            startup: (within(rng, 0, 3) == 0).then_some(startup),
            limit: (within(rng, 0, 3) > 0).then_some(Millicores::new(limit)),
            slo_known: within(rng, 0, 1) == 0,
            ..PodSpec::new(&format!("pod-{place}"), load, Millicores::new(within(rng, 1, limit)))
        }
    }

    fn at_most(one: f64, other: f64) -> bool {
        one <= other + CLOSE
    }

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() <= CLOSE * one.abs().max(other.abs()).max(1.0)
    }

    #[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 millicores")]
    fn milli(cpu: Millicores) -> f64 {
        cpu.get() as f64
    }
}
