//! What the virtual machines of one node may use: a ledger of permits.
//!
//! A server tells the ledger which machines, capacity and other workloads there are, and hands it
//! every question of an agent ([`Ledger::ask`]). Agents ask before they let a machine grow and tell
//! after it shrank, so what is held is at all times the most that a machine can be using.
//!
//! Always: what is asked for unchanged or lower is permitted exactly; an increase ends between what
//! was held and what was asked for, in whole units; and no increase makes what is held, and what
//! other workloads take, more than there is. After a restart a machine holds its maximum until its
//! agent has said what it was last permitted.

mod pressure;

use alloc::collections::BTreeMap;

use thiserror::Error;

use crate::units::{ComputeUnit, Moment, Ratio, Resource, Resources, Span, VmName};

pub use pressure::Standing;

/// What holds for all machines of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// What the node has for workloads.
    pub capacity: Resources,
    /// How much of each resource may be handed out, as a multiple of what there is.
    pub overcommit: PerResource,
    /// The part of that above which machines are moved away before nothing is left.
    pub watermark: PerResource,
    /// What is kept for the system. Other workloads are counted against it first.
    pub system: Resources,
    /// The steps in which an increase is granted where not all of it can be.
    pub unit: ComputeUnit,
    /// So many machines leave the node at the same time; none where it is zero.
    pub moves_at_once: u32,
}

/// A ratio for each resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PerResource {
    /// Of CPU.
    pub cpu: Ratio,
    /// Of memory.
    pub memory: Ratio,
}

/// What a machine is allowed to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VmTerms {
    /// The most it may be permitted.
    pub max: Resources,
    /// Whether an agent sizes it. If not, it holds what it uses.
    pub scales: bool,
    /// Whether it may be moved to another node.
    pub may_move: bool,
}

/// What the agent of a machine asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ask {
    /// Which machine.
    pub vm: VmName,
    /// What it should be permitted.
    pub wanted: Resources,
    /// What it was permitted last, by whomever; nothing where the agent cannot know.
    pub last_permit: Option<Resources>,
    /// The machine's load average of one minute.
    pub load: Option<Ratio>,
    /// Grows with every question of an agent, so that one that was overtaken is not taken for new.
    pub sequence: Option<u64>,
}

/// What it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// What the machine may use from now on.
    pub permit: Resources,
    /// Whether it is moving away; the agent then changes nothing any more.
    pub migrate: bool,
    /// The unit that machines are sized in here.
    pub unit: ComputeUnit,
}

/// Why a question is not answered. Nothing changed because of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// No such machine is on this node.
    #[error("{vm}: no such machine")]
    UnknownVm {
        /// The name asked about.
        vm: VmName,
    },
    /// Nobody should ask for it.
    #[error("{vm}: is not sized by an agent")]
    NotScaled {
        /// The machine.
        vm: VmName,
    },
    /// A machine cannot be without CPU or memory.
    #[error("{vm}: asks for {wanted}; neither may be zero")]
    Nothing {
        /// The machine.
        vm: VmName,
        /// What was asked for.
        wanted: Resources,
    },
    /// More than the machine may ever have.
    #[error("{vm}: asks for {wanted} where its maximum is {max}")]
    AboveMax {
        /// The machine.
        vm: VmName,
        /// What was asked for.
        wanted: Resources,
        /// What it may have.
        max: Resources,
    },
    /// It cannot have been permitted what it says.
    #[error("{vm}: says it was permitted {said} on a node of {most}")]
    Impossible {
        /// The machine.
        vm: VmName,
        /// What it says.
        said: Resources,
        /// What the node has.
        most: Resources,
    },
    /// A later question was answered before.
    #[error("{vm}: question {sequence} was overtaken by question {newest}")]
    Overtaken {
        /// The machine.
        vm: VmName,
        /// The number of this question.
        sequence: u64,
        /// The number of the newest that was answered.
        newest: u64,
    },
    /// What it held before the ledger began is not known, and it asks for more than it is seen to
    /// use while others may hold the rest. It should ask again.
    #[error("{vm}: asks for {wanted}, is seen to use {using}, and others have yet to be heard")]
    Unsettled {
        /// The machine.
        vm: VmName,
        /// What was asked for.
        wanted: Resources,
        /// What it is seen to use.
        using: Resources,
    },
}

/// The permits of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ledger {
    terms: Terms,
    /// What other workloads request, all together.
    others: Resources,
    vms: BTreeMap<VmName, Vm>,
}

/// What is known of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vm {
    /// What it is allowed to be.
    pub terms: VmTerms,
    /// What it is seen to use.
    pub using: Resources,
    /// The most that it can be using.
    pub held: Resources,
    /// What it asked for last and was not given.
    pub denied: Resources,
    /// Whether it, or a predecessor of this ledger's, has yet to say what it holds.
    pub unheard: bool,
    /// While it moves away: what of the pressure that takes away.
    pub leaving: Option<Resources>,
    moved_at: Option<Moment>,
    asked_at: Option<Moment>,
    load: Option<Ratio>,
    newest: Option<u64>,
}

/// A machine moves at most this often, so that it can grow between two moves.
pub const MOVE_PAUSE: Span = Span::from_s(600);
/// Whoever has not asked for so long, which is three ticks of an agent, is not chosen to move: it
/// would not hear of it.
pub const SILENT_AFTER: Span = Span::from_s(45);

// === impl PerResource ===

impl PerResource {
    /// The same for both.
    #[must_use]
    pub const fn both(ratio: Ratio) -> Self {
        Self { cpu: ratio, memory: ratio }
    }

    fn of_floor(self, amount: Resources) -> Resources {
        amount.scale_floor(self.cpu, self.memory)
    }
}

// === impl Ledger ===

impl Ledger {
    /// A node without machines.
    #[must_use]
    pub const fn new(terms: Terms) -> Self {
        Self { terms, others: Resources::ZERO, vms: BTreeMap::new() }
    }

    /// What may be handed out in all: capacity times over-commit.
    #[must_use]
    pub fn budget(&self) -> Resources {
        self.terms.overcommit.of_floor(self.terms.capacity)
    }

    /// What holds for all machines.
    #[must_use]
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The machines by name.
    pub fn vms(&self) -> impl Iterator<Item = (&VmName, &Vm)> {
        self.vms.iter()
    }

    /// A machine.
    #[must_use]
    pub fn vm(&self, name: &VmName) -> Option<&Vm> {
        self.vms.get(name)
    }

    /// Whether there is room for one more machine that uses so much.
    #[must_use]
    pub fn admits(&self, using: Resources) -> bool {
        using.fits(self.free())
    }

    /// The node became larger or smaller, or other terms hold.
    pub const fn terms_changed(&mut self, terms: Terms) {
        self.terms = terms;
    }

    /// Other workloads request so much, all together.
    pub const fn others_changed(&mut self, requested: Resources) {
        self.others = requested;
    }

    /// A machine was started here, or arrived from another node, and holds what it begins with.
    /// Who places machines asks [`Self::admits`] first; that it is here is a fact either way.
    pub fn vm_started(&mut self, vm: VmName, terms: VmTerms, using: Resources) {
        self.vms.insert(vm, Vm::new(terms, using));
    }

    /// A machine was here before this ledger began. What it was permitted is not known, but at most
    /// `most`: its maximum, or where that was lowered, the one before, until an answer permitted
    /// no more than the new one. Who serves permits has to remember that beside the machine.
    pub fn vm_found(&mut self, vm: VmName, terms: VmTerms, using: Resources, most: Resources) {
        let mut found = Vm::new(terms, using);
        if terms.scales {
            found.unheard = true;
            found.held = most.max(terms.max).max(using);
        }
        self.vms.insert(vm, found);
    }

    /// The terms of a machine changed.
    pub fn vm_changed(&mut self, vm: &VmName, terms: VmTerms) {
        if let Some(known) = self.vms.get_mut(vm) {
            known.terms = terms;
            if known.unheard {
                known.held = known.held.max(terms.max);
            } else if !terms.scales {
                known.held = known.held.max(known.using);
            }
        }
    }

    /// A machine was seen to use so much.
    pub fn vm_seen(&mut self, vm: &VmName, using: Resources) {
        if let Some(known) = self.vms.get_mut(vm) {
            known.using = using;
            // Whoever is not asked about cannot shrink by asking.
            known.held = if known.terms.scales { known.held.max(using) } else { using };
        }
    }

    /// A machine is known to have been moved at that time, as to this node: it stays for a while.
    pub fn vm_moved(&mut self, vm: &VmName, at: Moment) {
        if let Some(known) = self.vms.get_mut(vm) {
            known.moved_at = known.moved_at.max(Some(at));
        }
    }

    /// A machine is no longer here: it ended, or its move is over.
    pub fn vm_gone(&mut self, vm: &VmName) {
        self.vms.remove(vm);
    }

    /// Somebody began to move a machine away, whether or not this ledger chose it.
    pub fn move_started(&mut self, vm: &VmName, now: Moment) {
        if let Some(known) = self.vms.get_mut(vm) {
            known.leave(now);
        }
    }

    /// A machine that was to move away stays.
    pub fn move_failed(&mut self, vm: &VmName) {
        if let Some(known) = self.vms.get_mut(vm) {
            known.leaving = None;
        }
    }

    /// Answers an agent, and takes down what it asked for. This is the one call that both changes
    /// the ledger and decides.
    ///
    /// # Errors
    /// The question makes no sense, or cannot be answered yet; then nothing changes.
    pub fn ask(&mut self, ask: &Ask, now: Moment) -> Result<Answer, Refusal> {
        let vm = self.check(ask)?;
        let held = if vm.unheard { self.first_held(ask, &vm)? } else { vm.held };
        let most = vm.terms.max.max(held);
        if !ask.wanted.fits(most) {
            let (vm, wanted) = (ask.vm.clone(), ask.wanted);
            return Err(Refusal::AboveMax { vm, wanted, max: most });
        }
        let granted = self.grant(ask, &vm, held);
        let mut next = Vm {
            held: granted,
            unheard: false,
            asked_at: Some(now),
            load: ask.load,
            newest: ask.sequence.or(vm.newest),
            ..vm
        };
        if vm.leaving.is_none() {
            next.denied = ask.wanted.saturating_sub(granted);
        }
        self.vms.insert(ask.vm.clone(), next);
        if vm.leaving.is_none() && self.chooses(&ask.vm, now) {
            // It changes nothing any more, so an increase would only be kept from others.
            next.held = granted.min(held);
            next.denied = ask.wanted.saturating_sub(next.held);
            next.leave(now);
            self.vms.insert(ask.vm.clone(), next);
        }
        let migrate = next.leaving.is_some();
        Ok(Answer { permit: next.held, migrate, unit: self.terms.unit })
    }

    fn check(&self, ask: &Ask) -> Result<Vm, Refusal> {
        let vm = || ask.vm.clone();
        let known = *self.vms.get(&ask.vm).ok_or_else(|| Refusal::UnknownVm { vm: vm() })?;
        if !known.terms.scales {
            return Err(Refusal::NotScaled { vm: vm() });
        }
        if ask.wanted.lacks_one() {
            return Err(Refusal::Nothing { vm: vm(), wanted: ask.wanted });
        }
        match (ask.sequence, known.newest) {
            (Some(sequence), Some(newest)) if sequence <= newest => {
                Err(Refusal::Overtaken { vm: vm(), sequence, newest })
            }
            (Some(_) | None, Some(_) | None) => Ok(known),
        }
    }

    /// What a machine holds of which this ledger hears for the first time.
    fn first_held(&self, ask: &Ask, vm: &Vm) -> Result<Resources, Refusal> {
        let name = || ask.vm.clone();
        if let Some(said) = ask.last_permit {
            let most = self.budget().max(vm.held);
            if !said.fits(most) {
                return Err(Refusal::Impossible { vm: name(), said, most });
            }
            return Ok(said.max(vm.using));
        }
        // The agent knows no permit, so by the protocol it asks for what the machine has. That is
        // so where it is seen to use it, or where nobody else can hold it.
        let room = self.budget().saturating_sub(self.taken() + self.held_by_others(&ask.vm));
        if !ask.wanted.fits(vm.using.max(room)) {
            let (wanted, using) = (ask.wanted, vm.using);
            return Err(Refusal::Unsettled { vm: name(), wanted, using });
        }
        Ok(ask.wanted)
    }

    /// What is permitted, where the machine holds `held`.
    fn grant(&self, ask: &Ask, vm: &Vm, held: Resources) -> Resources {
        let taken = self.taken() + self.held_by_others(&ask.vm) + held;
        let free = self.budget().saturating_sub(taken);
        Resources::of(|resource| {
            let (wanted, held) = (ask.wanted.get(resource), held.get(resource));
            if wanted <= held {
                return wanted;
            }
            if vm.leaving.is_some() {
                return held;
            }
            if wanted - held <= free.get(resource) {
                return wanted;
            }
            let units = self.terms.unit.count_floor(free, resource);
            held + units * self.terms.unit.one().get(resource)
        })
    }

    /// What nobody holds.
    fn free(&self) -> Resources {
        let held: Resources = self.vms.values().map(|vm| vm.held).sum();
        self.budget().saturating_sub(self.taken() + held)
    }

    /// What is not for machines: the system's part, and others' as far as it exceeds that.
    fn taken(&self) -> Resources {
        self.terms.system.max(self.others)
    }

    fn held_by_others(&self, name: &VmName) -> Resources {
        self.vms.iter().filter(|(other, _)| *other != name).map(|(_, vm)| vm.held).sum()
    }
}

// === impl Vm ===

impl Vm {
    const fn new(terms: VmTerms, using: Resources) -> Self {
        Self {
            terms,
            using,
            held: using,
            denied: Resources::ZERO,
            unheard: false,
            leaving: None,
            moved_at: None,
            asked_at: None,
            load: None,
            newest: None,
        }
    }

    /// Its move accounts once for what it holds and was denied, as that is at the start.
    fn leave(&mut self, now: Moment) {
        if self.leaving.is_none() {
            self.leaving = Some(self.counted() + self.denied);
            self.moved_at = Some(now);
        }
    }

    /// What it counts for where pressure is concerned: not what it might hold, if that is unknown.
    const fn counted(&self) -> Resources {
        if self.unheard { self.using } else { self.held }
    }
}

impl Resource {
    /// Whether `question` holds of one of the resources.
    pub(crate) fn any(question: impl Fn(Self) -> bool) -> bool {
        Self::ALL.into_iter().any(question)
    }
}
