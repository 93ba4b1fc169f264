//! The protocol of ledger, agents, machines and guests as a model for `stateright`: the real
//! `core::permit` and `core::vm`, and every order in which anything can arrive.
//!
//! From a settled beginning the loads of two machines change. Then whatever is under way may arrive
//! in any order, and so many times each: an agent wakes up, a load turns round, something fails. A
//! failure is a letter that is lost or arrives twice, or a restart of an agent, of a guest's
//! program or of the scheduler. Nothing else ends a run: every state that can be reached within
//! these numbers is looked at. In each all promises are kept, and where nothing is under way any
//! more, a run that is left in peace comes to its goals. `WALRAS_MODEL_FAULTS`,
//! `WALRAS_MODEL_WAKES` and `WALRAS_MODEL_TURNS` allow more of each.
//!
//! The last test breaks rules one by one, and expects the model to notice each.

#[cfg(test)]
mod tests {
    use stateright::{Checker, Model, Property};
    use walras_core::units::{Ratio, Resources};
    use walras_sim::vms::{Event, Plan, Rule, Town, VmPlan, units};

    const KEPT: &str = "promises are kept";
    const SETTLED: &str = "left in peace, it comes to its goals";
    const GREW: &str = "a machine can grow";

    /// Two machines of one to three units, on a node of four.
    #[derive(Clone, Copy, Debug)]
    struct Node {
        from: [u64; 2],
        wanted: [u64; 2],
        goals: [u64; 2],
        left: Left,
        breaks: Option<Rule>,
    }

    /// How often what may still happen.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    struct Left {
        wakes: u8,
        turns: u8,
        faults: u8,
        /// Which agents have yet to hear of a new scheduler.
        unaware: [bool; 2],
    }

    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct State {
        town: Town,
        left: Left,
        broken: Option<String>,
    }

    impl Node {
        /// From what both have, with loads for what they want, to their goals in the end.
        fn new(from: [u64; 2], wanted: [u64; 2], goals: [u64; 2]) -> Self {
            let more = |name: &str| from_environment(name).unwrap_or(0);
            let left = Left {
                wakes: more("WALRAS_MODEL_WAKES"),
                turns: more("WALRAS_MODEL_TURNS"),
                faults: more("WALRAS_MODEL_FAULTS"),
                unaware: [false; 2],
            };
            Self { from, wanted, goals, left, breaks: None }
        }

        /// With so many of each, and what the environment adds.
        fn with(mut self, wakes: u8, turns: u8, faults: u8) -> Self {
            self.left.wakes += wakes;
            self.left.turns += turns;
            self.left.faults += faults;
            self
        }

        fn plan(&self) -> Plan {
            let vm = |_| VmPlan { least: 1, most: 3, is_old: false, may_move: false };
            Plan {
                capacity: units(4),
                others: Resources::ZERO,
                watermark: Ratio::ONE,
                moves_at_once: 0,
                vms: (0..2).map(vm).collect(),
                breaks: self.breaks,
            }
        }
    }

    impl Model for Node {
        type State = State;
        type Action = Event;

        fn init_states(&self) -> Vec<State> {
            let mut town = Town::new(&self.plan());
            town.settles(&self.from).expect("nothing fails yet");
            for vm in 0..2 {
                town.happen(Event::Bounds(vm, 3)).expect("nothing fails yet");
                town.happen(Event::Load(vm, self.wanted[vm] * 10)).expect("nothing fails yet");
            }
            vec![State { town: town.in_any_order(), left: self.left, broken: None }]
        }

        fn actions(&self, state: &State, actions: &mut Vec<Event>) {
            let State { town, left, broken } = state;
            if broken.is_some() {
                return;
            }
            let letters = 0..town.letters();
            actions.extend(letters.clone().map(Event::Deliver));
            if left.wakes > 0 {
                actions.push(Event::Wake);
            }
            for vm in 0..2 {
                if !town.is_listened_to(vm) {
                    actions.push(Event::Connect(vm));
                }
                if left.unaware[vm] {
                    actions.push(Event::HearsOfLedger(vm));
                }
                if left.turns > 0 {
                    actions.push(Event::Load(vm, self.goals[vm] * 10));
                }
            }
            if left.faults > 0 {
                actions.extend(letters.clone().map(Event::Lose));
                actions.extend(letters.map(Event::Repeat));
                actions.extend((0..2).map(Event::AgentRestarts));
                actions.extend((0..2).map(Event::GuestRestarts));
                actions.push(Event::LedgerComes);
            }
        }

        fn next_state(&self, state: &State, event: Event) -> Option<State> {
            let mut next = state.clone();
            let left = &mut next.left;
            match event {
                Event::Wake => left.wakes -= 1,
                Event::Load(..) => left.turns -= 1,
                Event::Lose(_) | Event::Repeat(_) => left.faults -= 1,
                Event::AgentRestarts(_) | Event::GuestRestarts(_) => left.faults -= 1,
                Event::LedgerComes => {
                    left.faults -= 1;
                    left.unaware = [true; 2];
                }
                Event::HearsOfLedger(vm) => left.unaware[vm] = false,
                Event::Deliver(_) | Event::Connect(_) | Event::Pass(_) | Event::Needs(..) => {}
                Event::GuestAsks(_) | Event::Bounds(..) | Event::LedgerGoes => {}
                Event::Suspend(_) | Event::MoveFails(_) | Event::Watch(_) => {}
            }
            next.broken = next.town.happen(event).err();
            next.town = next.town.in_any_order();
            (next != *state).then_some(next)
        }

        fn properties(&self) -> Vec<Property<Self>> {
            vec![
                Property::always(KEPT, |_, state: &State| state.broken.is_none()),
                Property::always(SETTLED, |node: &Self, state: &State| {
                    let is_end = state.town.letters() == 0 && state.broken.is_none();
                    !is_end || state.town.clone().settles(&node.goals).is_ok()
                }),
                Property::sometimes(GREW, |node: &Self, state: &State| {
                    (0..2).any(|vm| !state.town.using(vm).fits(units(node.from[vm])))
                }),
            ]
        }
    }

    /// Looks at everything, and says how much that was.
    fn check(name: &str, node: Node) {
        let checker = node.checker().threads(2).spawn_bfs().join();
        println!(
            "{name}: {:?}: {} states, {} of them different, at most {} events",
            node.left,
            checker.state_count(),
            checker.unique_state_count(),
            checker.max_depth()
        );
        for property in [KEPT, SETTLED] {
            if let Some(path) = checker.discovery(property) {
                let end = path.last_state().clone();
                let words = end.broken.or_else(|| end.town.clone().settles(&node.goals).err());
                panic!("{name}: {property}: {words:?}\nafter {:?}", path.into_actions());
            }
        }
        assert!(checker.is_done(), "{name}: not everything was looked at");
        let moved = checker.discovery(GREW).is_some();
        assert!(moved, "{name}: nothing was ever changed");
    }

    #[test]
    fn two_want_what_one_can_have_and_one_thing_fails() {
        check("two_want_what_one_can_have", Node::new([1, 1], [3, 3], [3, 1]).with(1, 0, 1));
    }

    #[test]
    fn one_grows_by_what_the_other_gives_back_and_one_thing_fails() {
        check(
            "one_grows_by_what_the_other_gives_back",
            Node::new([3, 1], [2, 2], [1, 3]).with(1, 0, 1),
        );
    }

    #[test]
    fn loads_turn_round_on_the_way() {
        check("loads_turn_round_on_the_way", Node::new([2, 2], [1, 3], [3, 1]).with(0, 2, 0));
    }

    /// Every rule is needed: without it the model finds a run that hands out too much, or takes
    /// from a guest what it counts on.
    #[test]
    fn a_rule_that_is_broken_is_noticed() {
        let node = Node::new;
        for (rule, node) in [
            // The scheduler restarts while somebody was permitted more than it has.
            (Rule::HoldUntilHeard, node([1, 1], [3, 3], [3, 1]).with(1, 0, 1)),
            // An agent restarts while a change that it asked for is under way.
            (Rule::ChangeWhatWasSeen, node([1, 1], [3, 1], [3, 1]).with(0, 0, 1)),
            // A question for less comes twice, the second time after one for more.
            (Rule::AnswerInOrder, node([2, 1], [1, 1], [3, 1]).with(0, 1, 1)),
            // The guest is told of more twice, the second time after it agreed to less.
            (Rule::HearInOrder, node([1, 1], [2, 1], [1, 1]).with(0, 1, 1)),
        ] {
            let node = Node { breaks: Some(rule), ..node };
            let checker = node.checker().threads(2).spawn_bfs().join();
            let found = checker.discovery(KEPT);
            let path = found.unwrap_or_else(|| panic!("nobody missed {rule:?}"));
            let broken = path.last_state().broken.clone();
            println!("{rule:?}: {broken:?} after {:?}", path.into_actions());
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a larger model is asked for by its numbers")]
    fn from_environment(name: &str) -> Option<u8> {
        let value = std::env::var(name).ok()?;
        Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a small number")))
    }
}
