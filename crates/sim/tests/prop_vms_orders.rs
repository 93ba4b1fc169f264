//! Every order of a few events between two agents, one ledger, two machines and two guests.
//!
//! From a settled beginning, goals change, and then whatever is under way may arrive in any order,
//! agents may wake up at any point, and as many faults as are stated may happen anywhere: a letter
//! is lost or arrives twice, an agent, a guest's program or the scheduler restarts. Promises are
//! those of the random test; this one leaves nothing out, up to its size. A sample of the ends is
//! then left in peace, and must come to its goals. `WALRAS_DEPTH=3` searches three events further.

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::hash::{DefaultHasher, Hash, Hasher};

    use walras_core::units::{Ratio, Resources};
    use walras_sim::vms::{Event, Plan, Town, VmPlan, units};

    /// One of so many ends is looked at further.
    const SAMPLE: u64 = 199;

    /// How far a search goes.
    #[derive(Clone, Copy)]
    struct Size {
        events: u32,
        faults: u32,
    }

    struct Search {
        goals: [u64; 2],
        /// What was seen, and with how many events left: with fewer it is not worth another look.
        seen: BTreeMap<(u64, u32), u32>,
        path: Vec<Event>,
        steps: u64,
        ends: u64,
        settled: u64,
    }

    #[test]
    fn two_want_what_one_can_have() {
        // 4 units, both have 1 and want 3.
        search("two_want_what_one_can_have", [1, 1], [3, 3], [3, 1], Size { events: 8, faults: 1 });
    }

    #[test]
    fn one_grows_by_what_the_other_gives_back() {
        search(
            "one_grows_by_what_the_other_gives_back",
            [3, 1],
            [2, 2],
            [1, 3],
            Size { events: 8, faults: 1 },
        );
    }

    #[test]
    fn one_turns_round_with_two_faults() {
        search(
            "one_turns_round_with_two_faults",
            [2, 2],
            [1, 3],
            [2, 2],
            Size { events: 6, faults: 2 },
        );
    }

    /// Searches from where both have `from`, with loads for `wanted`, and ends at `goals`.
    fn search(name: &str, from: [u64; 2], wanted: [u64; 2], goals: [u64; 2], size: Size) {
        let events = size.events + from_environment("WALRAS_DEPTH").unwrap_or(0);
        let mut search = Search {
            goals,
            seen: BTreeMap::new(),
            path: Vec::new(),
            steps: 0,
            ends: 0,
            settled: 0,
        };
        let mut town = begin(from);
        for (vm, wanted) in wanted.into_iter().enumerate() {
            town.happen(Event::Load(vm, wanted * 10)).unwrap();
        }
        search.go_on(&town, Size { events, ..size });
        let Search { seen, steps, ends, settled, .. } = search;
        println!(
            "{name}: every order of {events} events with up to {} faults: {} states, \
             {steps} steps, \
             {ends} ends, of which {settled} were left in peace",
            size.faults,
            seen.len()
        );
        assert!(settled > 0, "no end was looked at");
    }

    fn begin(from: [u64; 2]) -> Town {
        let vm = |_| VmPlan { least: 1, most: 3, is_old: false, may_move: false };
        let mut town = Town::new(&Plan {
            capacity: units(4),
            others: Resources::ZERO,
            watermark: Ratio::ONE,
            moves_at_once: 0,
            vms: (0..2).map(vm).collect(),
            breaks: None,
        });
        town.settles(&from).unwrap();
        for vm in 0..2 {
            town.happen(Event::Bounds(vm, 3)).unwrap();
        }
        town
    }

    impl Search {
        fn go_on(&mut self, town: &Town, left: Size) {
            let state = (hash(town), left.faults);
            if self.seen.get(&state).is_some_and(|&events| events >= left.events) {
                return;
            }
            self.seen.insert(state, left.events);
            if left.events == 0 {
                self.ends += 1;
                if state.0.is_multiple_of(SAMPLE) {
                    self.settled += 1;
                    let settled = town.clone().settles(&self.goals);
                    settled.unwrap_or_else(|words| panic!("{words}\nafter {:?}", self.path));
                }
                return;
            }
            let fewer = Size { events: left.events - 1, ..left };
            for place in 0..town.letters() {
                self.try_out(town, Event::Deliver(place), fewer);
            }
            self.try_out(town, Event::Wake, fewer);
            if left.faults > 0 {
                let fewer = Size { faults: left.faults - 1, ..fewer };
                for place in 0..town.letters() {
                    self.try_out(town, Event::Lose(place), fewer);
                    self.try_out(town, Event::Repeat(place), fewer);
                }
                for vm in 0..town.len() {
                    self.try_out(town, Event::AgentRestarts(vm), fewer);
                    self.try_out(town, Event::GuestRestarts(vm), fewer);
                    // What an agent does about a guest or a scheduler that it lost.
                    self.try_out(town, Event::Connect(vm), fewer);
                    self.try_out(town, Event::HearsOfLedger(vm), fewer);
                }
                self.try_out(town, Event::LedgerComes, fewer);
            }
        }

        fn try_out(&mut self, town: &Town, event: Event, left: Size) {
            let mut next = town.clone();
            self.steps += 1;
            self.path.push(event);
            if let Err(words) = next.happen(event) {
                panic!("{words}\nafter {:?}", self.path);
            }
            self.go_on(&next, left);
            self.path.pop();
        }
    }

    fn hash(town: &Town) -> u64 {
        let mut hasher = DefaultHasher::new();
        town.hash(&mut hasher);
        hasher.finish()
    }

    #[expect(clippy::disallowed_methods, reason = "a longer search is asked for by its depth")]
    fn from_environment(name: &str) -> Option<u32> {
        let value = std::env::var(name).ok()?;
        Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")))
    }
}
