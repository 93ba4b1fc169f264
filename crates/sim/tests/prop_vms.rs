//! What ledger and agents of virtual machines promise, whatever is lost, late, repeated, overtaken
//! or restarted.
//!
//! At all times: what machines have, may have, and can become by changes under way fits the node;
//! none uses more than its permit; none shrinks below what its guest counts on. And once nothing
//! fails any more, every machine comes to its goal.

#[cfg(test)]
mod cases;

#[cfg(test)]
mod tests {
    use walras_core::rng::Rng;
    use walras_core::units::{Bytes, Millicores, Ratio, Resources};
    use walras_sim::random::draw::{one_of, percent, place, within};
    use walras_sim::vms::{Event, Plan, Town, VmPlan, units};

    use crate::cases::{Cases, Verdict};

    const EVENTS: usize = 500;

    /// A million events in 2000 towns, and what follows when nothing fails any more.
    #[test]
    fn no_order_of_events_hands_out_more_than_there_is() {
        let mut cases = Cases::of("no_order_of_events_hands_out_more_than_there_is", 2000);
        for seed in cases.seeds() {
            let mut rng = Rng::from_seed(seed);
            let (plan, goals) = draw_plan(&mut rng);
            let trouble = one_of(&mut rng, &TROUBLE);
            let vms = plan.vms.len();
            let events: Vec<Event> =
                (0..EVENTS).map(|_| draw_event(&mut rng, vms, trouble)).collect();
            let mut sizes = Sizes::default();
            cases.check(seed, &events, |events| story(&plan, &goals, events, &mut sizes));
            count(&mut cases, &plan, &events);
            (0..sizes.grown).for_each(|_| cases.count("machines grown"));
            (0..sizes.shrunk).for_each(|_| cases.count("machines shrunk"));
        }
        cases.report();
    }

    /// How often machines changed while things failed.
    #[derive(Default)]
    struct Sizes {
        grown: u32,
        shrunk: u32,
    }

    fn story(plan: &Plan, goals: &[u64], events: &[Event], sizes: &mut Sizes) -> Verdict {
        let mut town = Town::new(plan);
        let all = |town: &Town| (0..town.len()).map(|vm| town.using(vm).cpu).collect::<Vec<_>>();
        let mut before = all(&town);
        for (place, &event) in events.iter().enumerate() {
            town.happen(event).map_err(|words| format!("after {event:?} ({place}): {words}"))?;
            let after = all(&town);
            for (before, after) in before.iter().zip(&after) {
                sizes.grown += u32::from(after > before);
                sizes.shrunk += u32::from(after < before);
            }
            before = after;
        }
        town.settles(goals)
    }

    fn draw_plan(rng: &mut Rng) -> (Plan, Vec<u64>) {
        let vms: Vec<VmPlan> = (0..1 + place(rng, 4))
            .map(|_| {
                let least = within(rng, 1, 2);
                let most = least + within(rng, 1, 6);
                VmPlan { least, most, is_old: percent(rng, 25), may_move: percent(rng, 50) }
            })
            .collect();
        let goals: Vec<u64> = vms.iter().map(|vm| within(rng, vm.least, vm.most)).collect();
        let needed = goals.iter().sum::<u64>();
        // Tight or roomy, and in one case of two not a multiple of the unit in either resource.
        let odd = Resources::new(
            Millicores::new(within(rng, 0, 249)),
            Bytes::new(within(rng, 0, (1 << 30) - 1)),
        );
        let spare = if percent(rng, 50) { odd } else { Resources::ZERO };
        let others = units(within(rng, 0, 2));
        let capacity = units(needed + within(rng, 0, 3)) + others + spare;
        let watermark = Ratio::from_percent(one_of(rng, &[50, 90, 100]));
        let moves_at_once = one_of(rng, &[0, 0, 1, 2]);
        (Plan { capacity, others, watermark, moves_at_once, vms, breaks: None }, goals)
    }

    /// How often something fails, in a thousand events, by town: from nearly never to all the time.
    const TROUBLE: [u64; 4] = [5, 30, 100, 300];

    fn draw_event(rng: &mut Rng, vms: usize, trouble: u64) -> Event {
        let vm = place(rng, vms);
        let amount = within(rng, 0, 8);
        // Mostly in order, and at times any letter.
        let letter = if percent(rng, 80) { place(rng, 3) } else { place(rng, 32) };
        if rng.below(1000) < trouble {
            return draw_fault(rng, vm, letter, amount);
        }
        match rng.below(100) {
            0..66 => Event::Deliver(letter),
            66..76 => Event::Wake,
            76..82 => Event::Pass(within(rng, 1, 4000)),
            82..92 => Event::Load(vm, amount * 10),
            92..94 => Event::Needs(vm, amount / 2),
            94 => Event::GuestAsks(vm),
            95..97 => Event::Watch(vm),
            97 => Event::MoveFails(vm),
            _ => Event::Connect(vm),
        }
    }

    fn draw_fault(rng: &mut Rng, vm: usize, letter: usize, amount: u64) -> Event {
        match rng.below(19) {
            0..5 => Event::Lose(letter),
            5..9 => Event::Repeat(letter),
            9..12 => Event::AgentRestarts(vm),
            12 => Event::GuestRestarts(vm),
            13 => Event::LedgerGoes,
            14..16 => Event::LedgerComes,
            16 => Event::HearsOfLedger(vm),
            17 => Event::Suspend(vm),
            _ => Event::Bounds(vm, amount),
        }
    }

    fn count(cases: &mut Cases, plan: &Plan, events: &[Event]) {
        cases.count(&format!("{} machines", plan.vms.len()));
        for event in events {
            cases.count(match event {
                Event::Deliver(_) => "delivered",
                Event::Lose(_) => "lost",
                Event::Repeat(_) => "repeated",
                Event::Pass(_) | Event::Wake => "waits",
                Event::AgentRestarts(_) => "agent restarts",
                Event::GuestRestarts(_) => "guest restarts",
                Event::LedgerComes => "scheduler restarts",
                Event::Load(..)
                | Event::Needs(..)
                | Event::GuestAsks(_)
                | Event::Bounds(..)
                | Event::LedgerGoes
                | Event::HearsOfLedger(_)
                | Event::Connect(_)
                | Event::Suspend(_)
                | Event::MoveFails(_)
                | Event::Watch(_) => "others",
            });
        }
    }
}
