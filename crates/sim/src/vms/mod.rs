//! A node of virtual machines that does not exist, driving the real ledger and the real agents over
//! a network that loses, delays, repeats and overtakes.
//!
//! [`Town::happen`] takes one [`Event`] at a time; the order of events is all the chance there is.
//! Every party may restart at any moment. A connection ends with either of its ends, so what was
//! under way to a scheduler or a guest that restarted is gone; what an agent sent before it
//! restarted may still arrive. Used by the property tests (with random events) and by the search
//! over every order of a few. What must hold at all times is in `promise`, what must come about
//! once nothing fails any more in `quiet`.

mod deliver;
mod plan;
mod promise;
mod quiet;

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use walras_core::permit::{Answer, Ask, Ledger, PerResource, Terms, VmTerms};
use walras_core::units::{Bytes, ComputeUnit, Millicores, Moment, Ratio, Resources, Span, VmName};
use walras_core::vm::{Action, Agent, Metrics, RequestId, Seen, Settings, VmBounds};

pub use plan::{Plan, Rule, VmPlan};

/// Everything there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Town {
    now: Moment,
    terms: Terms,
    others: Resources,
    /// Nothing while it is down.
    ledger: Option<Ledger>,
    ledger_life: u32,
    vms: Vec<Vm>,
    mail: VecDeque<Mail>,
    breaks: Option<Rule>,
    /// What was broken, in words; the first only.
    broken: Option<String>,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A letter arrives, whichever that is, counted from the oldest and round again.
    Deliver(usize),
    /// A letter is lost.
    Lose(usize),
    /// A letter arrives, and will once more.
    Repeat(usize),
    /// So many milliseconds pass; agents wake up.
    Pass(u64),
    /// Time passes until the next agent wants to be woken.
    Wake,
    /// A machine has another load, in tenths of a unit's CPU.
    Load(usize, u64),
    /// A guest needs so many units, and does not agree to less.
    Needs(usize, u64),
    /// A guest asks for more.
    GuestAsks(usize),
    /// A machine may have so many units at most.
    Bounds(usize, u64),
    /// An agent restarts.
    AgentRestarts(usize),
    /// The program in a guest restarts.
    GuestRestarts(usize),
    /// The scheduler goes.
    LedgerGoes,
    /// It comes back, with nothing but what it finds.
    LedgerComes,
    /// An agent hears that there is a scheduler, perhaps another.
    HearsOfLedger(usize),
    /// An agent and a guest find each other.
    Connect(usize),
    /// A guest prefers another agent for a while.
    Suspend(usize),
    /// The move of a machine fails.
    MoveFails(usize),
    /// A watch shows a machine to the scheduler, and writes to its agent about it.
    Watch(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Vm {
    name: VmName,
    terms: VmTerms,
    bounds: VmBounds,
    /// The largest maximum that something may still be permitted by. Who serves permits keeps it.
    most: Resources,
    is_old: bool,
    machine: Seen,
    agent: Agent,
    agent_life: u32,
    wake_at: Option<Moment>,
    guest: Guest,
    /// Which life of the guest's program the agent last found.
    guest_known: u32,
    is_moving: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Guest {
    life: u32,
    /// Which agent it listens to.
    agent: Option<u32>,
    /// The number of the last message.
    heard: u64,
    /// Less than this it does not agree to.
    needs: Resources,
    /// What it counts on.
    level: Resources,
}

/// Something under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Mail {
    vm: usize,
    agent_life: u32,
    /// Of the scheduler or the guest that it is from or to.
    other_life: u32,
    id: RequestId,
    letter: Letter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Letter {
    Ask(Ask),
    Answer(Answer),
    Refusal(Option<u64>),
    Read,
    Patch {
        to: Resources,
        version: u64,
        guest_life: u32,
    },
    IsRead(Seen),
    IsPatched(Seen),
    Watched(Seen),
    NotPatched,
    Down(Resources),
    Up(Resources),
    Agreed(bool),
    Heard,
    /// The guest does not know the agent, or does not take what comes late.
    Unknown,
}

/// More letters than this are not kept: the oldest is lost.
const MAIL_MAX: usize = 32;

/// So many units.
#[must_use]
pub fn units(count: u64) -> Resources {
    unit().times(count)
}

/// A quarter of a CPU and 1 GiB.
///
/// # Panics
/// Never: neither is zero.
#[must_use]
pub fn unit() -> ComputeUnit {
    let one = Resources::new(Millicores::new(250), Bytes::new(1 << 30));
    ComputeUnit::new(one).expect("neither is zero")
}

/// The load for which a goal is so many tenths of a unit.
fn load(tenths: u64) -> Metrics {
    // A tenth of a unit's quarter of a CPU, of which 0.9 are right.
    let load1 = Ratio::from_millionths(tenths * 25_000 * 9 / 10);
    Metrics { load1, load5: None, memory: None, touched: Vec::new() }
}

impl Town {
    /// A town where nothing has happened yet.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let terms = Terms {
            capacity: plan.capacity,
            overcommit: PerResource::both(Ratio::ONE),
            watermark: PerResource::both(plan.watermark),
            system: Resources::ZERO,
            unit: unit(),
            moves_at_once: plan.moves_at_once,
        };
        let mut ledger = Ledger::new(terms);
        ledger.others_changed(plan.others);
        let vms: Vec<Vm> =
            plan.vms.iter().enumerate().map(|(place, vm)| Vm::new(place, vm)).collect();
        for vm in &vms {
            ledger.vm_started(vm.name.clone(), vm.terms, vm.machine.using);
        }
        let mut town = Self {
            now: Moment::from_ms(1),
            terms,
            others: plan.others,
            ledger: Some(ledger),
            ledger_life: 0,
            vms,
            mail: VecDeque::new(),
            breaks: plan.breaks,
            broken: None,
        };
        for place in 0..town.vms.len() {
            town.vms[place].agent.scheduler_came();
            town.step(place);
        }
        town
    }

    /// How many machines there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.vms.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.vms.is_empty()
    }

    /// How many letters are under way.
    #[must_use]
    pub fn letters(&self) -> usize {
        self.mail.len()
    }

    /// The same town, told apart from others by what is under way and not by the order in which it
    /// was sent: any letter may arrive next.
    #[must_use]
    pub fn in_any_order(mut self) -> Self {
        self.mail.make_contiguous().sort_by_cached_key(|mail| {
            let mut hasher = DefaultHasher::new();
            mail.hash(&mut hasher);
            hasher.finish()
        });
        self
    }

    /// Whether the program in a guest listens to its agent.
    #[must_use]
    pub fn is_listened_to(&self, place: usize) -> bool {
        let vm = &self.vms[place];
        vm.guest.agent == Some(vm.agent_life)
    }

    /// What a machine has.
    #[must_use]
    pub fn using(&self, place: usize) -> Resources {
        self.vms[place].machine.using
    }

    /// Lets one thing happen, and looks whether all promises are kept.
    ///
    /// # Errors
    /// One is broken; in words.
    pub fn happen(&mut self, event: Event) -> Result<(), String> {
        self.act(event);
        self.keeps_promises()
    }

    fn act(&mut self, event: Event) {
        let count = self.vms.len();
        let vm = |place: usize| place % count;
        match event {
            Event::Deliver(place) => {
                if let Some(mail) = self.take(place) {
                    self.deliver(mail);
                }
            }
            Event::Lose(place) => drop(self.take(place)),
            Event::Repeat(place) => {
                if let Some(mail) = self.take(place) {
                    self.post(mail.clone());
                    self.deliver(mail);
                }
            }
            Event::Pass(ms) => self.pass(self.now + Span::from_ms(ms)),
            Event::Wake => {
                if let Some(at) = self.vms.iter().filter_map(|vm| vm.wake_at).min() {
                    self.pass(at.max(self.now));
                }
            }
            Event::LedgerGoes => self.ledger = None,
            Event::LedgerComes => self.restart_ledger(),
            Event::Load(place, tenths) => {
                let (place, now) = (vm(place), self.now);
                self.vms[place].agent.metrics_read(load(tenths), now);
                self.step(place);
            }
            Event::Needs(place, needs) => self.vms[vm(place)].guest.needs = units(needs),
            Event::GuestAsks(place) => self.ask_for_more(vm(place)),
            Event::Bounds(place, most) => self.change_bounds(vm(place), most),
            Event::AgentRestarts(place) => self.restart_agent(vm(place)),
            Event::GuestRestarts(place) => self.vms[vm(place)].restart_guest(),
            Event::HearsOfLedger(place) => self.hear_of_ledger(vm(place)),
            Event::Connect(place) => self.connect(vm(place)),
            Event::Suspend(place) => self.suspend(vm(place)),
            Event::MoveFails(place) => self.fail_move(vm(place)),
            Event::Watch(place) => {
                let place = vm(place);
                let Vm { name, machine, agent_life, .. } = &self.vms[place];
                if let Some(ledger) = &mut self.ledger {
                    ledger.vm_seen(name, machine.using);
                }
                let (letter, agent_life) = (Letter::Watched(*machine), *agent_life);
                self.post(Mail { vm: place, agent_life, other_life: 0, id: RequestId(0), letter });
            }
        }
    }

    fn take(&mut self, place: usize) -> Option<Mail> {
        let length = self.mail.len();
        if length == 0 { None } else { self.mail.remove(place % length) }
    }

    fn post(&mut self, mail: Mail) {
        if self.mail.len() == MAIL_MAX {
            self.mail.pop_front();
        }
        self.mail.push_back(mail);
    }

    fn pass(&mut self, until: Moment) {
        self.now = until;
        for place in 0..self.vms.len() {
            if self.vms[place].wake_at.is_some_and(|at| at <= until) {
                self.step(place);
            }
        }
    }

    /// Lets an agent decide, and posts what it asks for.
    fn step(&mut self, place: usize) {
        let now = self.now;
        let vm = &mut self.vms[place];
        let outcome = vm.agent.step(now);
        vm.wake_at = outcome.wake_at;
        if outcome.wake_at.is_some_and(|at| at <= now) {
            self.broken.get_or_insert_with(|| format!("{} wakes up in the past", vm.name));
        }
        for action in outcome.actions {
            let mail = self.letter(place, action);
            self.post(mail);
        }
    }

    fn letter(&self, place: usize, action: Action) -> Mail {
        let vm = &self.vms[place];
        let (id, other_life, letter) = match action {
            Action::ReadVm { id } => (id, 0, Letter::Read),
            Action::PatchVm { id, to, version } => {
                (id, 0, Letter::Patch { to, version, guest_life: vm.guest_known })
            }
            Action::AskPermit { id, wanted, last_permit, load, sequence } => {
                let last_permit = last_permit.filter(|_| !vm.is_old);
                let sequence = Some(sequence);
                let ask = Ask { vm: vm.name.clone(), wanted, last_permit, load, sequence };
                (id, self.ledger_life, Letter::Ask(ask))
            }
            Action::AskDownscale { id, to } => (id, vm.guest.life, Letter::Down(to)),
            Action::TellUpscale { id, to } => (id, vm.guest.life, Letter::Up(to)),
        };
        Mail { vm: place, agent_life: vm.agent_life, other_life, id, letter }
    }

    // === What befalls the parties ===

    fn restart_ledger(&mut self) {
        self.ledger_life += 1;
        let mut ledger = Ledger::new(self.terms);
        ledger.others_changed(self.others);
        for vm in &self.vms {
            let (name, using) = (vm.name.clone(), vm.machine.using);
            if self.breaks == Some(Rule::HoldUntilHeard) {
                ledger.vm_started(name, vm.terms, using);
            } else {
                ledger.vm_found(name, vm.terms, using, vm.most);
            }
            if vm.is_moving {
                ledger.move_started(&vm.name, self.now);
            }
        }
        self.ledger = Some(ledger);
    }

    fn restart_agent(&mut self, place: usize) {
        let vm = &mut self.vms[place];
        vm.agent_life += 1;
        vm.agent = new_agent(vm.bounds, vm.agent_life);
        if self.ledger.is_some() {
            vm.agent.scheduler_came();
        }
        self.step(place);
    }

    fn hear_of_ledger(&mut self, place: usize) {
        let agent = &mut self.vms[place].agent;
        if self.ledger.is_some() {
            agent.scheduler_came()
        } else {
            agent.scheduler_gone()
        }
        self.step(place);
    }

    fn connect(&mut self, place: usize) {
        let vm = &mut self.vms[place];
        if vm.guest.agent != Some(vm.agent_life) {
            vm.guest.agent = Some(vm.agent_life);
            vm.guest.heard = 0;
            vm.guest_known = vm.guest.life;
            vm.agent.informant_resumed();
            self.step(place);
        }
    }

    fn suspend(&mut self, place: usize) {
        let vm = &mut self.vms[place];
        if vm.guest.agent == Some(vm.agent_life) {
            vm.guest.agent = None;
            vm.agent.informant_suspended();
            self.step(place);
        }
    }

    fn ask_for_more(&mut self, place: usize) {
        let now = self.now;
        let vm = &mut self.vms[place];
        if vm.guest.agent == Some(vm.agent_life) {
            vm.agent.guest_asked(true, true, now);
            self.step(place);
        }
    }

    fn change_bounds(&mut self, place: usize, most: u64) {
        let vm = &mut self.vms[place];
        vm.bounds = VmBounds::new(vm.bounds.min(), units(most));
        vm.terms.max = vm.bounds.max();
        vm.most = vm.most.max(vm.terms.max);
        vm.agent.bounds_changed(vm.bounds);
        if let Some(ledger) = &mut self.ledger {
            ledger.vm_changed(&vm.name, vm.terms);
        }
        self.step(place);
    }

    fn fail_move(&mut self, place: usize) {
        let vm = &mut self.vms[place];
        if vm.is_moving {
            vm.is_moving = false;
            if let Some(ledger) = &mut self.ledger {
                ledger.move_failed(&vm.name);
            }
            vm.agent.move_failed();
            self.step(place);
        }
    }
}

/// Each life of an agent numbers its questions above those of earlier ones.
fn new_agent(bounds: VmBounds, life: u32) -> Agent {
    Agent::new(Settings::DEFAULT, unit(), bounds, u64::from(life) * 1_000_000)
}

// === impl Vm ===

impl Vm {
    fn new(place: usize, plan: &VmPlan) -> Self {
        let bounds = VmBounds::new(units(plan.least), units(plan.most));
        let using = bounds.min();
        let guest = Guest { life: 0, agent: None, heard: 0, needs: using, level: using };
        Self {
            name: VmName::new(&format!("vm-{place}")),
            terms: VmTerms { max: bounds.max(), scales: true, may_move: plan.may_move },
            bounds,
            most: bounds.max(),
            is_old: plan.is_old,
            machine: Seen { using, version: 0 },
            agent: new_agent(bounds, 0),
            agent_life: 0,
            wake_at: None,
            guest,
            guest_known: 0,
            is_moving: false,
        }
    }

    /// A new program in the guest counts on what the machine has.
    fn restart_guest(&mut self) {
        let Guest { life, needs, .. } = self.guest;
        let level = self.machine.using;
        self.guest = Guest { life: life + 1, agent: None, heard: 0, needs, level };
    }
}
