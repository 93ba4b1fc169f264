//! What must hold in a town at all times, whatever happens in whichever order.

use walras_core::units::Resources;

use super::{Letter, Town, Vm};

impl Town {
    /// Whether everything that must hold does.
    pub(super) fn keeps_promises(&self) -> Result<(), String> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let budget = self.terms.capacity;
        let reached: Vec<Resources> = (0..self.vms.len()).map(|place| self.reach(place)).collect();
        let all: Resources = reached.iter().copied().sum();
        if !(all + self.others).fits(budget) {
            return Err(format!("machines can come to use {all} beside {}", self.others));
        }
        for (vm, reached) in self.vms.iter().zip(reached) {
            self.keeps_within_its_permit(vm, reached)?;
        }
        Ok(())
    }

    /// The most that a machine has, may be given, or can become by changes that are under way.
    fn reach(&self, place: usize) -> Resources {
        let vm = &self.vms[place];
        let coming = self.mail.iter().filter(|mail| mail.vm == place);
        let coming = coming.filter_map(|mail| match mail.letter {
            Letter::Patch { to, version, .. } if version == vm.machine.version => Some(to),
            Letter::Patch { .. }
            | Letter::Ask(_)
            | Letter::Answer(_)
            | Letter::Refusal(_)
            | Letter::Read
            | Letter::IsRead(_)
            | Letter::IsPatched(_)
            | Letter::Watched(_)
            | Letter::NotPatched
            | Letter::Down(_)
            | Letter::Up(_)
            | Letter::Agreed(_)
            | Letter::Heard
            | Letter::Unknown => None,
        });
        let permit = vm.agent.permit().unwrap_or_default();
        coming.fold(vm.machine.using.max(permit), Resources::max)
    }

    fn keeps_within_its_permit(&self, vm: &Vm, reached: Resources) -> Result<(), String> {
        let Vm { name, machine, agent, .. } = vm;
        if let Some(permit) = agent.permit()
            && !machine.using.fits(permit)
        {
            return Err(format!("{name} uses {} of a permit of {permit}", machine.using));
        }
        let Some(ledger) = &self.ledger else {
            return Ok(());
        };
        let held = ledger.vms().find(|(other, _)| *other == name).map(|(_, vm)| vm.held);
        let held = held.unwrap_or_default();
        if !reached.fits(held) {
            return Err(format!("{name} can come to use {reached}, and the ledger says {held}"));
        }
        Ok(())
    }
}
