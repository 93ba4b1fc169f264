//! A letter arrives: what each party makes of it.
//!
//! The machine changes only where it still has the version that the sender saw. The guest listens
//! to the agent it knows and takes nothing that was overtaken. The scheduler is the real ledger.

use walras_core::permit::{Ask, Refusal};
use walras_core::units::Resources;
use walras_core::vm::Seen;

use super::{Letter, Mail, Rule, Town};

impl Town {
    pub(super) fn deliver(&mut self, mail: Mail) {
        match &mail.letter {
            Letter::Ask(_) => self.at_the_ledger(mail),
            Letter::Read => {
                let seen = self.vms[mail.vm].machine;
                self.answer(mail, Letter::IsRead(seen));
            }
            Letter::Patch { to, version, guest_life } => {
                let (to, version, guest_life) = (*to, *version, *guest_life);
                self.at_the_machine(mail, to, version, guest_life);
            }
            Letter::Down(_) | Letter::Up(_) => self.at_the_guest(mail),
            Letter::Answer(_)
            | Letter::Refusal(_)
            | Letter::IsRead(_)
            | Letter::IsPatched(_)
            | Letter::Watched(_)
            | Letter::NotPatched
            | Letter::Agreed(_)
            | Letter::Heard
            | Letter::Unknown => self.at_the_agent(mail),
        }
    }

    fn answer(&mut self, mail: Mail, letter: Letter) {
        self.post(Mail { letter, ..mail });
    }

    fn at_the_ledger(&mut self, mail: Mail) {
        let Letter::Ask(ask) = &mail.letter else {
            return;
        };
        let Some(ledger) = self.ledger.as_mut().filter(|_| mail.other_life == self.ledger_life)
        else {
            return;
        };
        let sequence = ask.sequence.filter(|_| self.breaks != Some(Rule::AnswerInOrder));
        let ask = Ask { sequence, ..ask.clone() };
        let letter = match ledger.ask(&ask, self.now) {
            Ok(answer) => {
                let vm = &mut self.vms[mail.vm];
                vm.is_moving |= answer.migrate;
                if answer.permit.fits(vm.bounds.max()) {
                    vm.most = vm.bounds.max();
                }
                Letter::Answer(answer)
            }
            Err(Refusal::Overtaken { newest, .. }) => Letter::Refusal(Some(newest)),
            Err(
                Refusal::UnknownVm { .. }
                | Refusal::NotScaled { .. }
                | Refusal::Nothing { .. }
                | Refusal::AboveMax { .. }
                | Refusal::Impossible { .. }
                | Refusal::Unsettled { .. },
            ) => Letter::Refusal(None),
        };
        self.answer(mail, letter);
    }

    fn at_the_machine(&mut self, mail: Mail, to: Resources, version: u64, guest_life: u32) {
        let vm = &mut self.vms[mail.vm];
        if vm.machine.version != version && self.breaks != Some(Rule::ChangeWhatWasSeen) {
            self.answer(mail, Letter::NotPatched);
            return;
        }
        let lower = to.min(vm.machine.using);
        // What a guest's program agreed to before it restarted counts until the agent finds out.
        if vm.guest.life == guest_life && !vm.guest.level.min(vm.machine.using).fits(lower) {
            let (name, level) = (&vm.name, vm.guest.level);
            let words = format!("{name} shrinks to {to} where the guest counts on {level}");
            self.broken.get_or_insert(words);
        }
        vm.machine = Seen { using: to, version: vm.machine.version + 1 };
        // Whatever a guest counts on, it does not have more than there is.
        vm.guest.level = vm.guest.level.min(to);
        let seen = vm.machine;
        self.answer(mail, Letter::IsPatched(seen));
    }

    fn at_the_guest(&mut self, mail: Mail) {
        let guest = &mut self.vms[mail.vm].guest;
        if mail.other_life != guest.life {
            return;
        }
        let is_late = mail.id.0 <= guest.heard && self.breaks != Some(Rule::HearInOrder);
        if guest.agent != Some(mail.agent_life) || is_late {
            self.answer(mail, Letter::Unknown);
            return;
        }
        guest.heard = mail.id.0;
        let letter = match &mail.letter {
            Letter::Down(to) => {
                let agrees = guest.needs.min(guest.level).fits(*to);
                if agrees {
                    guest.level = *to;
                }
                Letter::Agreed(agrees)
            }
            Letter::Up(to) => {
                guest.level = *to;
                Letter::Heard
            }
            Letter::Ask(_) | Letter::Answer(_) | Letter::Refusal(_) | Letter::Read => return,
            Letter::Patch { .. } | Letter::IsRead(_) | Letter::IsPatched(_) => return,
            Letter::Watched(_)
            | Letter::NotPatched
            | Letter::Agreed(_)
            | Letter::Heard
            | Letter::Unknown => return,
        };
        self.answer(mail, letter);
    }

    fn at_the_agent(&mut self, mail: Mail) {
        let now = self.now;
        let vm = &mut self.vms[mail.vm];
        if mail.agent_life != vm.agent_life {
            return;
        }
        let (agent, id) = (&mut vm.agent, mail.id);
        match mail.letter {
            Letter::Answer(_) | Letter::Refusal(_) if mail.other_life != self.ledger_life => return,
            Letter::Answer(answer) => agent.permit_answered(id, &answer, now),
            Letter::Refusal(newest) => agent.permit_failed(id, newest, now),
            Letter::IsRead(seen) => agent.vm_read(id, seen),
            Letter::IsPatched(seen) => agent.vm_patched(id, seen),
            Letter::Watched(seen) => agent.vm_seen(seen),
            Letter::NotPatched => agent.vm_failed(id, now),
            Letter::Agreed(_) | Letter::Heard if mail.other_life != vm.guest.life => return,
            Letter::Agreed(agrees) => agent.downscale_answered(id, agrees, now),
            Letter::Heard => agent.upscale_confirmed(id),
            // Not known to the guest any more: it has to be found again.
            Letter::Unknown if vm.guest.agent == Some(vm.agent_life) => {
                agent.informant_failed(id, now);
            }
            Letter::Unknown => agent.informant_gone(),
            Letter::Ask(_) | Letter::Read | Letter::Patch { .. } => {}
            Letter::Down(_) | Letter::Up(_) => {}
        }
        self.step(mail.vm);
    }
}
