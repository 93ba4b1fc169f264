//! What one tenant writes never takes from another what it has a right to.
//!
//! Random nodes with several owners. One of them then writes whatever it may: mins, maxes,
//! priorities, natures, and how much it seems to need; it creates pods, as many as fit by what they
//! request, and deletes them. Whatever that is, and after each write of a sequence, everybody else
//! keeps its right, its weight, and a grant of the smaller of its need and its right with its part
//! of the rest by weight, where the tenant weighs what the administrator lets it weigh.

#[cfg(test)]
mod cases;

#[cfg(test)]
mod tests {
    use walras_core::claim::{CameWith, Claim, Ground, Known, Nature, claim, share_of_request};
    use walras_core::market::{Bid, Fairness, Terms, clear, mean_weight};
    use walras_core::profile::CapRule;
    use walras_core::rng::Rng;
    use walras_core::tenant::{Leave, Wished, claims};
    use walras_core::units::{Millicores, Weight};
    use walras_sim::random::draw::{one_of, percent, place, spread, within};

    use crate::cases::{Cases, Verdict};
    use crate::ensure;

    /// One workload: whose it is, what is known of it, and what it needs.
    #[derive(Clone, Copy, Debug)]
    struct Workload {
        owner: usize,
        request: Millicores,
        usual_priority: Weight,
        /// What its owner writes in the second clearing.
        wish: Wish,
        need: Millicores,
    }

    #[derive(Clone, Copy, Debug)]
    struct Wish {
        min: Option<Millicores>,
        max: Option<Millicores>,
        priority: Weight,
        nature: Nature,
        need: Millicores,
    }

    /// What there is beside workloads.
    #[derive(Clone, Debug)]
    struct Node {
        capacity: Millicores,
        leaves: Vec<Leave>,
    }

    /// One thing that a tenant writes.
    #[derive(Clone, Copy, Debug)]
    enum Write {
        Create(Workload),
        /// The pod of the tenant at this place, counted round.
        Delete(usize),
        Change(usize, Wish),
    }

    const TENANT: usize = 0;

    #[test]
    fn nothing_that_a_tenant_writes_takes_a_right_from_others() {
        let mut cases = Cases::of("nothing_that_a_tenant_writes_takes_a_right_from_others", 50_000);
        for seed in cases.seeds() {
            let (node, workloads) = draw(&mut Rng::from_seed(seed));
            cases.check(seed, &workloads, |workloads| keeps_others(&node, workloads));
            let requested: Millicores = workloads.iter().map(|one| one.request).sum();
            cases.count(if requested < node.capacity { "with room" } else { "full" });
        }
        cases.report();
    }

    #[test]
    fn no_sequence_of_writes_moves_others_beyond_what_the_administrator_allows() {
        let mut cases = Cases::of(
            "no_sequence_of_writes_moves_others_beyond_what_the_administrator_allows",
            10_000,
        );
        for seed in cases.seeds() {
            let rng = &mut Rng::from_seed(seed);
            let (mut node, workloads) = draw(rng);
            // Whatever an administrator may allow, more than everybody has among it.
            node.leaves[TENANT].priority = weight(within(rng, 1, 20_000));
            let writes: Vec<Write> = (0..1 + place(rng, 12)).map(|_| write(rng)).collect();
            let (mut created, mut refused) = (0, 0);
            cases.check(seed, &writes, |writes| {
                let mut workloads = workloads.clone();
                (created, refused) = (0, 0);
                for write in writes {
                    match written(&node, &mut workloads, write) {
                        Some(true) => created += 1,
                        Some(false) => refused += 1,
                        None => {}
                    }
                    keeps_others(&node, &workloads)
                        .map_err(|broken| format!("after {write:?}: {broken}"))?;
                }
                Ok(())
            });
            (0..created).for_each(|_| cases.count("pods created"));
            (0..refused).for_each(|_| cases.count("pods without room"));
        }
        cases.report();
    }

    #[test]
    fn without_bounds_these_promises_are_broken() {
        let broken = (1..=1000).filter(|seed| {
            let (node, workloads) = draw(&mut Rng::from_seed(*seed));
            judge(&node, &workloads, |wished, _, ground| {
                wished.iter().map(|one| claim(&one.known, ground)).collect()
            })
            .is_err()
        });
        assert!(broken.count() > 500, "what the test above looks for is there to be found");
    }

    fn draw(rng: &mut Rng) -> (Node, Vec<Workload>) {
        let owners = 2 + place(rng, 4);
        let workloads: Vec<Workload> =
            (0..2 + place(rng, 30)).map(|_| workload(rng, owners)).collect();
        let requested: u64 = workloads.iter().map(|one| one.request.get()).sum();
        // Nodes are full by requests, or not; the capacity is never below what was requested.
        let spare = if percent(rng, 50) { spread(rng, 64_000) } else { 0 };
        let leaves = (0..owners).map(|owner| leave(rng, owner)).collect();
        (Node { capacity: Millicores::new(requested + spare), leaves }, workloads)
    }

    fn write(rng: &mut Rng) -> Write {
        let one = Workload { owner: TENANT, ..workload(rng, 1) };
        match place(rng, 3) {
            0 => Write::Create(one),
            1 => Write::Delete(place(rng, 30)),
            _ => Write::Change(place(rng, 30), one.wish),
        }
    }

    /// Does as a cluster does: a pod that requests more than is left is not put on the node.
    /// Whether a pod that was to be created was.
    fn written(node: &Node, workloads: &mut Vec<Workload>, write: &Write) -> Option<bool> {
        let mine = |workloads: &[Workload], nth: usize| {
            let mine = workloads.iter().enumerate().filter(|(_, one)| one.owner == TENANT);
            let places: Vec<usize> = mine.map(|(place, _)| place).collect();
            places.get(nth % places.len().max(1)).copied()
        };
        match write {
            Write::Create(one) => {
                let requested: Millicores = workloads.iter().map(|one| one.request).sum();
                let fits = requested + one.request <= node.capacity;
                workloads.extend(fits.then_some(*one));
                return Some(fits);
            }
            Write::Delete(nth) => {
                if let Some(place) = mine(workloads, *nth) {
                    workloads.remove(place);
                }
            }
            Write::Change(nth, wish) => {
                if let Some(place) = mine(workloads, *nth) {
                    workloads[place].wish = *wish;
                }
            }
        }
        None
    }

    fn leave(rng: &mut Rng, owner: usize) -> Leave {
        // The tenant has what everybody has by default, or less; others may be allowed anything.
        let priority = if owner == TENANT { 1000 } else { within(rng, 1, 20_000) };
        let rights = if percent(rng, 50) { Millicores::UNLIMITED } else { milli(rng) };
        let max = if percent(rng, 80) { Millicores::UNLIMITED } else { milli(rng) };
        Leave { rights, max, priority: weight(priority) }
    }

    fn workload(rng: &mut Rng, owners: usize) -> Workload {
        let some = |rng: &mut Rng| if percent(rng, 60) { Some(milli(rng)) } else { None };
        let wish = Wish {
            min: some(rng),
            max: some(rng),
            priority: weight(within(rng, 100, 10_000)),
            nature: one_of(rng, &Nature::ALL),
            need: milli(rng),
        };
        Workload {
            owner: place(rng, owners),
            request: milli(rng),
            usual_priority: weight(within(rng, 500, 2000)),
            wish,
            need: milli(rng),
        }
    }

    fn milli(rng: &mut Rng) -> Millicores {
        Millicores::new(spread(rng, 1 << 16).max(1))
    }

    fn weight(thousandths: u64) -> Weight {
        Weight::from_thousandths(u32::try_from(thousandths).unwrap()).unwrap()
    }

    /// What is claimed and granted, where the tenant's wishes count or do not.
    fn cleared(
        node: &Node,
        workloads: &[Workload],
        wishes: bool,
        claims: impl Fn(&[Wished], &Node, &Ground) -> Vec<Claim>,
    ) -> (Vec<Claim>, Vec<Millicores>) {
        let known = |one: &Workload| {
            let came_with = CameWith { request: Some(one.request), limit: None, weight: None };
            let share = share_of_request(one.request);
            let plain = Known {
                came_with,
                min: None,
                max: None,
                share,
                priority: one.usual_priority,
                nature: Nature::Unknown,
            };
            let Wish { min, max, priority, nature, .. } = one.wish;
            let is_wished = wishes && one.owner == TENANT;
            let known =
                if is_wished { Known { min, max, priority, nature, ..plain } } else { plain };
            Wished { owner: one.owner, known, usual_priority: one.usual_priority }
        };
        let wished: Vec<Wished> = workloads.iter().map(known).collect();
        let ground = Ground {
            cap_rule: CapRule::Loose,
            baseline: Millicores::new(100),
            node: node.capacity,
            respect_limits: false,
        };
        let claims = claims(&wished, node, &ground);
        let bids = claims.iter().zip(workloads).map(|(claim, one)| {
            let need = if wishes && one.owner == TENANT { one.wish.need } else { one.need };
            Bid::by_right(CapRule::Loose, claim.bounds, need, claim.weight)
        });
        let bids: Vec<Bid> = bids.collect();
        let terms = Terms {
            capacity: node.capacity,
            fairness: Fairness::Nash,
            demand_capped: true,
            previous_mode: None,
            scarce: Some(true),
            weight_unit: mean_weight(claims.iter().map(|claim| claim.weight)),
        };
        let grants = clear(&terms, &bids).grants.iter().map(|grant| grant.amount).collect();
        (claims, grants)
    }

    fn keeps_others(node: &Node, workloads: &[Workload]) -> Verdict {
        judge(node, workloads, |wished, node, ground| {
            claims(wished, &node.leaves, ground, node.capacity)
        })
    }

    fn judge(
        node: &Node,
        workloads: &[Workload],
        claims: impl Fn(&[Wished], &Node, &Ground) -> Vec<Claim>,
    ) -> Verdict {
        let (before, _) = cleared(node, workloads, false, &claims);
        let (after, grants) = cleared(node, workloads, true, &claims);
        let weights = |claims: &[Claim]| -> u64 {
            claims.iter().map(|claim| u64::from(claim.weight.thousandths())).sum()
        };
        // What the tenant's may weigh together, by what it is allowed.
        let tenants = |claims: &[Claim]| -> u64 {
            let both = claims.iter().zip(workloads).filter(|(_, one)| one.owner == TENANT);
            both.map(|(claim, _)| u64::from(claim.weight.thousandths())).sum()
        };
        // Without a wish it already weighs less, where it is allowed less.
        let factor = u64::from(node.leaves[TENANT].priority.thousandths()).max(1000);
        let all = weights(&before) - tenants(&before) + (tenants(&before) * factor).div_ceil(1000);
        let rights: Millicores = after.iter().map(|claim| claim.bounds.min()).sum();
        ensure!(rights <= node.capacity, "rights of {rights} on {}", node.capacity);
        // Each weight is rounded to a thousandth of one.
        let slack = u64::try_from(workloads.len()).unwrap();
        ensure!(weights(&after) <= all + slack, "all weigh {} instead of {all}", weights(&after));
        let rest = node.capacity.saturating_sub(rights);
        for (place, one) in workloads.iter().enumerate() {
            if one.owner == TENANT {
                continue;
            }
            ensure!(before[place] == after[place], "another's claim changed: {:?}", after[place]);
            let claim = &after[place];
            let part = Millicores::new(u64::from(claim.weight.thousandths()));
            let whole = Millicores::new(all + slack);
            let fair = claim.bounds.min() + rest.share_floor(part, whole);
            let owed = fair.min(one.need).min(claim.bounds.max());
            // Whole millicores cannot be divided further.
            ensure!(
                grants[place] + Millicores::new(1) >= owed,
                "workload {place} is granted {} and owed {owed}",
                grants[place]
            );
        }
        Ok(())
    }
}
