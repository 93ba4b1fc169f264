//! The program in a guest: which agent it listens to, what it agrees to, and when it asks for more.
//!
//! A driver hands it every message of an agent and every look at the guest, calls
//! [`Informant::step`], makes the calls that it asks for, and says how each ended. Agents register,
//! and the newest is listened to: the one before is suspended first, then the new one is resumed.
//! Who cannot be reached is forgotten, hears so with its next message, and registers again.
//!
//! Always: at most one agent is listened to; one call at a time is made to each; nobody is
//! suspended or resumed twice; what an agent sends counts only if its number is larger than the
//! last; and nothing is agreed to that would have to be asked for at once.

mod memory;
mod need;
mod refusal;
mod settings;

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::units::{Moment, Resources};

pub use memory::{GroupLimits, Verdict};
pub use need::{Look, MemoryUse, Needs};
pub use refusal::Refusal;
pub use settings::Settings;

use self::need::Looks;

/// The number of an agent, which no other one has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentId(pub [u8; 16]);

/// The number of a call to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// The versions of the protocol that a party speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The first.
    pub min: u32,
    /// The last.
    pub max: u32,
}

/// A call to be made, and its end to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// To be answered with.
    pub call: CallId,
    /// To whom.
    pub agent: AgentId,
    /// Where it listens.
    pub address: String,
    /// What is said.
    pub what: Saying,
    /// When it is too late for an answer.
    pub until: Moment,
}

/// What an agent is told or asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Saying {
    /// Whether it is still there.
    Check,
    /// That another agent is listened to.
    Suspend,
    /// That it is listened to.
    Resume,
    /// That the guest needs more.
    AskMore(Needs),
}

/// What a step decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The calls to make.
    pub actions: Vec<Action>,
    /// When to step again at the latest.
    pub wake_at: Option<Moment>,
}

/// Everything the program knows.
#[derive(Clone, Debug)]
pub struct Informant {
    settings: Settings,
    now: Moment,
    agents: BTreeMap<AgentId, Registered>,
    /// Agents that were asked who they are, with their addresses.
    coming: BTreeMap<AgentId, String>,
    registrations: u64,
    calls: u64,
    looks: Looks,
    granted: Option<Resources>,
    ask_at: Option<Moment>,
    /// How many times in vain more was asked for.
    asked: u32,
}

#[derive(Clone, Debug)]
struct Registered {
    address: String,
    order: u64,
    standing: Standing,
    sequence: u64,
    flight: Option<(CallId, Saying, Moment)>,
    check_at: Moment,
    missed: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Suspended,
    Resuming,
    Active,
    Suspending,
}

// === impl Informant: what agents say ===

impl Informant {
    /// A program that nobody has spoken to.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            now: Moment::ORIGIN,
            agents: BTreeMap::new(),
            coming: BTreeMap::new(),
            registrations: 0,
            calls: 0,
            looks: Looks::default(),
            granted: None,
            ask_at: None,
            asked: 0,
        }
    }

    /// An agent wants to be registered. If that may be, it is asked who it is, and
    /// [`Self::identified`] says the answer. The version that is spoken comes back.
    ///
    /// # Errors
    /// It is registered already, speaks other versions, or too many are being asked.
    pub fn register(
        &mut self,
        agent: AgentId,
        address: &str,
        versions: Versions,
    ) -> Result<u32, Refusal> {
        if self.agents.contains_key(&agent) || self.coming.contains_key(&agent) {
            return Err(Refusal::AlreadyRegistered);
        }
        let ours = self.settings.version;
        if !(versions.min..=versions.max).contains(&ours) {
            return Err(Refusal::Version { ours, theirs: versions });
        }
        if self.coming.len() >= self.settings.coming_max {
            return Err(Refusal::TooMany);
        }
        self.coming.insert(agent, address.to_owned());
        Ok(ours)
    }

    /// The agent that is being registered said who it is, or nothing.
    ///
    /// # Errors
    /// It is another one, or cannot be reached; then it is not registered.
    pub fn identified(
        &mut self,
        agent: AgentId,
        said: Option<AgentId>,
        now: Moment,
    ) -> Result<(), Refusal> {
        let now = self.time_passed(now);
        let address = self.coming.remove(&agent).ok_or(Refusal::Unknown)?;
        match said {
            None => return Err(Refusal::Unreachable),
            Some(said) if said != agent => return Err(Refusal::AnotherId { said }),
            Some(_) => {}
        }
        self.make_room();
        self.registrations += 1;
        let registered = Registered {
            address,
            order: self.registrations,
            standing: Standing::Suspended,
            sequence: 0,
            flight: None,
            check_at: now + self.settings.check_every,
            missed: 0,
        };
        self.agents.insert(agent, registered);
        Ok(())
    }

    /// An agent wants to know whether it is still known.
    ///
    /// # Errors
    /// It is not, or its message is an old one.
    pub fn health_checked(&mut self, agent: AgentId, sequence: u64) -> Result<(), Refusal> {
        self.hear(agent, sequence).map(|_| ())
    }

    /// An agent asks whether the guest can make do with `to`.
    ///
    /// # Errors
    /// As [`Self::health_checked`], or the agent is suspended.
    pub fn downscale_asked(
        &mut self,
        agent: AgentId,
        sequence: u64,
        to: Resources,
        now: Moment,
    ) -> Result<Verdict, Refusal> {
        let now = self.time_passed(now);
        self.hear_active(agent, sequence)?;
        let verdict = self.looks.judge(to, self.granted, now, &self.settings);
        if verdict.agrees {
            self.granted = Some(to);
        }
        Ok(verdict)
    }

    /// An agent says that the guest has more.
    ///
    /// # Errors
    /// As [`Self::downscale_asked`].
    pub fn upscaled(
        &mut self,
        agent: AgentId,
        sequence: u64,
        to: Resources,
    ) -> Result<(), Refusal> {
        self.hear_active(agent, sequence)?;
        if self.granted.is_none_or(|granted| !to.fits(granted)) {
            // It grew: whatever is still needed is asked for again soon.
            self.asked = 0;
        }
        self.granted = Some(to);
        Ok(())
    }

    /// An agent takes its leave, from that address. Says whether it was the one listened to.
    ///
    /// # Errors
    /// It is not known, or from another address.
    pub fn unregister(&mut self, agent: AgentId, address: &str) -> Result<bool, Refusal> {
        let known = self.agents.get(&agent).ok_or(Refusal::Unknown)?;
        if known.address != address {
            return Err(Refusal::AnotherAddress { known: known.address.clone() });
        }
        let was_active = known.standing.is_listened_to();
        self.agents.remove(&agent);
        Ok(was_active)
    }

    fn hear(&mut self, agent: AgentId, sequence: u64) -> Result<Standing, Refusal> {
        let known = self.agents.get_mut(&agent).ok_or(Refusal::Unknown)?;
        if sequence <= known.sequence {
            return Err(Refusal::Old { sequence, newest: known.sequence });
        }
        known.sequence = sequence;
        known.missed = 0;
        Ok(known.standing)
    }

    fn hear_active(&mut self, agent: AgentId, sequence: u64) -> Result<(), Refusal> {
        let standing = self.hear(agent, sequence)?;
        if standing.is_listened_to() { Ok(()) } else { Err(Refusal::Suspended) }
    }

    /// Who registers has the key, but nobody needs many agents: the oldest is forgotten.
    fn make_room(&mut self) {
        if self.agents.len() >= self.settings.agents_max {
            let idle = self.agents.iter().filter(|(_, known)| !known.standing.is_listened_to());
            let oldest = idle.min_by_key(|(_, known)| known.order).map(|(agent, _)| *agent);
            oldest.map(|agent| self.agents.remove(&agent));
        }
    }

    fn time_passed(&mut self, now: Moment) -> Moment {
        self.now = self.now.max(now);
        self.now
    }
}

// === impl Informant: what happens otherwise ===

impl Informant {
    /// The guest was looked at.
    pub fn looked(&mut self, look: Look, now: Moment) {
        let now = self.time_passed(now);
        self.looks.add(look, self.granted, now, &self.settings);
        if !self.looks.needs().any() {
            self.asked = 0;
        }
    }

    /// A call was answered, or not.
    pub fn answered(&mut self, call: CallId, fine: bool, now: Moment) {
        let now = self.time_passed(now);
        let mut all = self.agents.iter_mut();
        let Some((agent, known)) = all.find(|(_, known)| known.waits_for(call)) else {
            return;
        };
        let agent = *agent;
        let Some((_, saying, _)) = known.flight.take() else {
            return;
        };
        known.check_at = now + self.settings.check_every;
        known.missed = if fine { 0 } else { known.missed + 1 };
        let forget = match saying {
            // Whether it heard is not known, and it must not be told twice.
            Saying::Suspend | Saying::Resume if !fine => true,
            Saying::Suspend => {
                known.standing = Standing::Suspended;
                false
            }
            Saying::Resume => {
                known.standing = Standing::Active;
                false
            }
            Saying::Check | Saying::AskMore(_) => known.missed >= self.settings.missed_max,
        };
        if forget {
            self.agents.remove(&agent);
        }
    }

    /// Decides whom to call at `now`.
    pub fn step(&mut self, now: Moment) -> Outcome {
        let now = self.time_passed(now);
        self.give_up_overdue(now);
        let mut actions = Vec::new();
        actions.extend(self.plan_listening(now));
        actions.extend(self.plan_asking(now));
        actions.extend(self.plan_check(now));
        Outcome { actions, wake_at: self.wake_at(now) }
    }

    fn give_up_overdue(&mut self, now: Moment) {
        let overdue = |known: &Registered| known.flight.filter(|(_, _, until)| *until <= now);
        let calls: Vec<CallId> =
            self.agents.values().filter_map(overdue).map(|(call, ..)| call).collect();
        for call in calls {
            self.answered(call, false, now);
        }
    }

    /// The newest agent is to be listened to, and nobody else.
    fn plan_listening(&mut self, now: Moment) -> Option<Action> {
        let newest = *self.agents.iter().max_by_key(|(_, known)| known.order)?.0;
        let current = self.agents.iter().find(|(_, known)| known.standing != Standing::Suspended);
        let (agent, saying, standing, patience) = match current.map(|(agent, _)| *agent) {
            Some(current) if current == newest => return None,
            Some(current) => {
                (current, Saying::Suspend, Standing::Suspending, self.settings.suspend_within)
            }
            None => (newest, Saying::Resume, Standing::Resuming, self.settings.resume_within),
        };
        let known = self.agents.get_mut(&agent)?;
        if known.flight.is_some() {
            return None;
        }
        known.standing = standing;
        self.call(agent, saying, now + patience)
    }

    fn plan_asking(&mut self, now: Moment) -> Option<Action> {
        let needs = self.looks.needs();
        if !needs.any() || self.ask_at.is_some_and(|at| at > now) {
            return None;
        }
        let agent = self.listened_to().filter(|agent| self.agents[agent].flight.is_none())?;
        if self.agents[&agent].standing != Standing::Active {
            return None;
        }
        self.asked = self.asked.saturating_add(1);
        self.ask_at = Some(now + self.settings.pause_after(self.asked));
        self.call(agent, Saying::AskMore(needs), now + self.settings.ask_within)
    }

    fn plan_check(&mut self, now: Moment) -> Option<Action> {
        let mut all = self.agents.iter();
        let (agent, _) = all.find(|(_, known)| known.flight.is_none() && known.check_at <= now)?;
        self.call(*agent, Saying::Check, now + self.settings.check_within)
    }

    fn call(&mut self, agent: AgentId, what: Saying, until: Moment) -> Option<Action> {
        let known = self.agents.get_mut(&agent)?;
        self.calls += 1;
        let call = CallId(self.calls);
        known.flight = Some((call, what, until));
        Some(Action { call, agent, address: known.address.clone(), what, until })
    }

    fn wake_at(&self, now: Moment) -> Option<Moment> {
        let flights = self.agents.values().filter_map(|known| known.flight).map(|(.., at)| at);
        let idle = self.agents.values().filter(|known| known.flight.is_none());
        let checks = idle.map(|known| known.check_at);
        let ask = self.ask_at.filter(|_| self.looks.needs().any());
        flights.chain(checks).chain(ask).filter(|at| *at > now).min()
    }
}

// === impl Informant: questions ===

impl Informant {
    /// Whom it listens to.
    #[must_use]
    pub fn listened_to(&self) -> Option<AgentId> {
        let mut all = self.agents.iter();
        all.find(|(_, known)| known.standing.is_listened_to()).map(|(agent, _)| *agent)
    }

    /// Whether an agent is registered.
    #[must_use]
    pub fn knows(&self, agent: AgentId) -> bool {
        self.agents.contains_key(&agent)
    }

    /// What the guest has, as far as it was told.
    #[must_use]
    pub const fn granted(&self) -> Option<Resources> {
        self.granted
    }

    /// What the guest needs more of.
    #[must_use]
    pub const fn needs(&self) -> Needs {
        self.looks.needs()
    }
}

// === impl Registered ===

impl Registered {
    fn waits_for(&self, call: CallId) -> bool {
        self.flight.is_some_and(|(flying, ..)| flying == call)
    }
}

// === impl Standing ===

impl Standing {
    /// An agent that was just told may be faster than its answer.
    const fn is_listened_to(self) -> bool {
        matches!(self, Self::Resuming | Self::Active)
    }
}

// === impl AgentId ===

impl fmt::Debug for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            if [4, 6, 8, 10].contains(&place) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}
