//! The end of all faults: from then on every machine must come to its goal.

use walras_core::units::{Resources, Span};

use super::{Event, Town, load, units};

/// So much time is enough for everything that can be in the way at first: each wait of an agent is
/// at most 15 s, and a machine shrinks one unit per exchange.
const QUIET: Span = Span::from_s(300);

/// More letters than this at one moment are more than anybody has to say.
const TALK_MAX: u32 = 1000;

impl Town {
    /// Lets nothing fail any more, with goals of so many units each, and looks what comes of it.
    ///
    /// # Errors
    /// A promise is broken on the way, or a machine does not come to its goal; in words.
    pub fn settles(&mut self, goals: &[u64]) -> Result<(), String> {
        if self.ledger.is_none() {
            self.happen(Event::LedgerComes)?;
        }
        for (place, &goal) in goals.iter().enumerate() {
            self.happen(Event::HearsOfLedger(place))?;
            self.happen(Event::Needs(place, 0))?;
            self.happen(Event::Bounds(place, goal))?;
        }
        let end = self.now + QUIET;
        let mut metrics_at = self.now;
        while self.now < end {
            if metrics_at <= self.now {
                metrics_at = self.now + Span::from_s(5);
                self.refresh(goals)?;
            }
            self.deliver_all()?;
            let wake_at = self.vms.iter().filter_map(|vm| vm.wake_at).min();
            self.pass(wake_at.unwrap_or(metrics_at).clamp(self.now, metrics_at));
        }
        self.deliver_all()?;
        goals.iter().enumerate().try_for_each(|(place, &goal)| self.is_there(place, units(goal)))
    }

    fn deliver_all(&mut self) -> Result<(), String> {
        for _ in 0..TALK_MAX {
            if self.mail.is_empty() {
                return Ok(());
            }
            self.happen(Event::Deliver(0))?;
        }
        Err("they talk to each other without end".to_owned())
    }

    /// What happens every few seconds where nothing fails.
    fn refresh(&mut self, goals: &[u64]) -> Result<(), String> {
        for (place, &goal) in goals.iter().enumerate() {
            self.happen(Event::Connect(place))?;
            self.happen(Event::MoveFails(place))?;
            let now = self.now;
            self.vms[place].agent.metrics_read(load(goal * 10), now);
            self.step(place);
        }
        Ok(())
    }

    fn is_there(&self, place: usize, goal: Resources) -> Result<(), String> {
        let vm = &self.vms[place];
        let held = self.ledger.iter().flat_map(|ledger| ledger.vms());
        let held = held.filter(|(name, _)| **name == vm.name).map(|(_, vm)| vm.held).sum();
        let has = [
            ("uses", Some(vm.machine.using)),
            ("is permitted", vm.agent.permit()),
            ("holds", Some(held)),
            ("agreed to", vm.agent.agreed()),
            ("counts on", Some(vm.guest.level)),
        ];
        let wrong = has.into_iter().find(|(_, amount)| *amount != Some(goal));
        wrong.map_or(Ok(()), |(what, amount)| {
            let amount = amount.map_or("nothing".to_owned(), |amount| amount.to_string());
            Err(format!("{} {what} {amount} where {goal} is its goal", vm.name))
        })
    }
}
