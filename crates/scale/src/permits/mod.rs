//! The permits of one or several nodes, shared by whoever serves, sizes and shows them.
//!
//! Whoever knows the nodes and machines tells [`Permits`] of them; agents ask it, in this process
//! or over HTTP ([`serve`]). What a restart must not forget is kept ([`keep`]) before it takes
//! effect. After a restart machines are *found*, and hold their maximum until they are heard.

pub mod dump;
pub mod keep;
mod metrics;
pub mod serve;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use walras_core::permit::{Answer, Ask, Ledger, Refusal, Standing, Terms, VmTerms};
use walras_core::units::{Moment, Resources, VmName};

use self::keep::{Keep, KeepError, Kept};

/// The permits of some nodes.
#[derive(Debug)]
pub struct Permits {
    state: Mutex<State>,
    origin: Instant,
}

#[derive(Debug)]
struct State {
    nodes: BTreeMap<String, Node>,
    /// On which node a machine is.
    places: BTreeMap<VmName, String>,
    /// What machines may hold that were permitted more than their maximum is now.
    most: Kept,
    keep: Box<dyn Keep>,
    tally: Tally,
}

#[derive(Debug)]
struct Node {
    ledger: Ledger,
    /// What a CPU costs there, where there is a market.
    price: Option<f64>,
}

/// What happened, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answers by their status.
    pub answers: BTreeMap<u16, u64>,
    /// Permits that were as large as was asked for, and more than before or not.
    pub whole: u64,
    /// Permits that were smaller.
    pub partial: u64,
    /// Answers that sent a machine away.
    pub moves: u64,
}

/// An answer, and what CPU costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Priced {
    /// The answer.
    pub answer: Answer,
    /// The price on the machine's node, where there is a market: 0 while all needs fit.
    pub price: Option<f64>,
}

// === impl Permits: what is told ===

impl Permits {
    /// No nodes, and what was kept.
    ///
    /// # Errors
    /// What was kept cannot be read.
    pub fn new(mut keep: Box<dyn Keep>) -> Result<Self, KeepError> {
        let most = keep.load()?;
        let state = State {
            nodes: BTreeMap::new(),
            places: BTreeMap::new(),
            most,
            keep,
            tally: Tally::default(),
        };
        Ok(Self { state: Mutex::new(state), origin: Instant::now() })
    }

    /// There is a node, or other terms hold on it.
    pub fn node_is(&self, node: &str, terms: Terms) {
        let mut state = self.state();
        match state.nodes.get_mut(node) {
            Some(known) => known.ledger.terms_changed(terms),
            None => {
                let ledger = Ledger::new(terms);
                state.nodes.insert(node.to_owned(), Node { ledger, price: None });
            }
        }
    }

    /// A node is gone, with its machines.
    pub fn node_gone(&self, node: &str) {
        let mut state = self.state();
        state.nodes.remove(node);
        state.places.retain(|_, place| place != node);
    }

    /// What is not for machines on a node, and what CPU costs there.
    pub fn others_are(&self, node: &str, requested: Resources, price: Option<f64>) {
        if let Some(known) = self.state().nodes.get_mut(node) {
            known.ledger.others_changed(requested);
            known.price = price;
        }
    }

    /// A machine was started on a node, or arrived there.
    pub fn vm_started(&self, node: &str, vm: &VmName, terms: VmTerms, using: Resources) {
        self.state().place(node, vm, |ledger| ledger.vm_started(vm.clone(), terms, using));
    }

    /// A machine is about to be started on a node, or to come there. Says whether there is room for
    /// it; then it holds that much from now on.
    #[must_use]
    pub fn vm_admitted(&self, node: &str, vm: &VmName, terms: VmTerms, using: Resources) -> bool {
        let mut state = self.state();
        let admitted = state.nodes.get(node).is_some_and(|node| node.ledger.admits(using));
        if admitted {
            state.place(node, vm, |ledger| ledger.vm_started(vm.clone(), terms, using));
        }
        admitted
    }

    /// A machine was on a node before this server was. It holds its maximum until it is heard, or
    /// what it was allowed before that was lowered.
    pub fn vm_found(&self, node: &str, vm: &VmName, terms: VmTerms, using: Resources) {
        let mut state = self.state();
        let most = state.most.get(vm).copied().unwrap_or(terms.max);
        state.place(node, vm, |ledger| ledger.vm_found(vm.clone(), terms, using, most));
    }

    /// The terms of a machine changed. Where its maximum fell, the one before is kept first.
    ///
    /// # Errors
    /// It cannot be kept; then nothing changed.
    pub fn vm_changed(&self, vm: &VmName, terms: VmTerms) -> Result<(), KeepError> {
        let mut state = self.state();
        let Some(known) = state.ledger(vm).and_then(|ledger| ledger.vm(vm).copied()) else {
            return Ok(());
        };
        if !known.terms.max.fits(terms.max) || !known.held.fits(terms.max) {
            let most = known.terms.max.max(known.held);
            state.remember(vm, Some(most))?;
        }
        if let Some(ledger) = state.ledger(vm) {
            ledger.vm_changed(vm, terms);
        }
        Ok(())
    }

    /// A machine was seen to use so much.
    pub fn vm_seen(&self, vm: &VmName, using: Resources) {
        self.with_ledger(vm, |ledger, _| ledger.vm_seen(vm, using));
    }

    /// A machine is no longer there.
    pub fn vm_gone(&self, vm: &VmName) {
        let mut state = self.state();
        if let Some(ledger) = state.ledger(vm) {
            ledger.vm_gone(vm);
        }
        state.places.remove(vm);
        if let Err(error) = state.remember(vm, None) {
            tracing::warn!("{vm}: is gone, and stays in what is kept: {error}");
        }
    }

    /// Somebody began to move a machine away.
    pub fn move_started(&self, vm: &VmName) {
        self.with_ledger(vm, |ledger, now| ledger.move_started(vm, now));
    }

    /// A machine that was to move away stays.
    pub fn move_failed(&self, vm: &VmName) {
        self.with_ledger(vm, |ledger, _| ledger.move_failed(vm));
    }

    /// A machine came here by a move just now: it stays for a while.
    pub fn vm_moved_here(&self, vm: &VmName) {
        self.with_ledger(vm, |ledger, now| ledger.vm_moved(vm, now));
    }

    fn with_ledger(&self, vm: &VmName, change: impl FnOnce(&mut Ledger, Moment)) {
        let now = self.now();
        if let Some(ledger) = self.state().ledger(vm) {
            change(ledger, now);
        }
    }
}

// === impl Permits: what is asked ===

impl Permits {
    /// Answers an agent.
    ///
    /// # Errors
    /// The question makes no sense, or cannot be answered yet.
    pub fn ask(&self, ask: &Ask) -> Result<Priced, Refusal> {
        let now = self.now();
        let mut state = self.state();
        let Some(place) = state.places.get(&ask.vm).cloned() else {
            return Err(Refusal::UnknownVm { vm: ask.vm.clone() });
        };
        let Some(node) = state.nodes.get_mut(&place) else {
            return Err(Refusal::UnknownVm { vm: ask.vm.clone() });
        };
        let answer = node.ledger.ask(ask, now)?;
        let price = node.price;
        let max = node.ledger.vm(&ask.vm).map(|vm| vm.terms.max);
        state.tally.answered(ask, &answer);
        let settled = max.is_some_and(|max| answer.permit.fits(max));
        if settled && let Err(error) = state.remember(&ask.vm, None) {
            // The larger one goes on to be held after a restart, which is safe.
            tracing::warn!("{}: its former maximum stays kept: {error}", ask.vm);
        }
        Ok(Priced { answer, price })
    }

    /// What a machine holds: what its group may use of the node, and its cap in the market.
    #[must_use]
    pub fn held(&self, vm: &VmName) -> Option<Resources> {
        self.state().ledger(vm).and_then(|ledger| ledger.vm(vm).map(|vm| vm.held))
    }

    /// Whether a machine may be moved to another node.
    #[must_use]
    pub fn may_move(&self, vm: &VmName) -> Option<bool> {
        self.state().ledger(vm).and_then(|ledger| ledger.vm(vm).map(|vm| vm.terms.may_move))
    }

    /// Whether one more machine fits on a node.
    #[must_use]
    pub fn admits(&self, node: &str, using: Resources) -> bool {
        self.state().nodes.get(node).is_some_and(|node| node.ledger.admits(using))
    }

    /// How a node stands.
    #[must_use]
    pub fn standing(&self, node: &str) -> Option<Standing> {
        self.state().nodes.get(node).map(|node| node.ledger.standing())
    }

    /// An answer was given with that status.
    pub(crate) fn count(&self, status: u16) {
        *self.state().tally.answers.entry(status).or_default() += 1;
    }

    /// The time since the start.
    fn now(&self) -> Moment {
        let micros = self.origin.elapsed().as_micros();
        // Not zero, so that a moment is never before everything.
        Moment::from_us(u64::try_from(micros).unwrap_or(u64::MAX).saturating_add(1))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    fn ledger(&mut self, vm: &VmName) -> Option<&mut Ledger> {
        let node = self.nodes.get_mut(self.places.get(vm)?)?;
        Some(&mut node.ledger)
    }

    fn place(&mut self, node: &str, vm: &VmName, add: impl FnOnce(&mut Ledger)) {
        let Some(known) = self.nodes.get_mut(node) else {
            tracing::warn!("{vm}: is said to be on {node}, which is not known");
            return;
        };
        add(&mut known.ledger);
        self.places.insert(vm.clone(), node.to_owned());
    }

    /// Keeps, or forgets, what a machine may hold at most.
    fn remember(&mut self, vm: &VmName, most: Option<Resources>) -> Result<(), KeepError> {
        let before = self.most.get(vm).copied();
        let most = most.map(|most| before.map_or(most, |before| before.max(most)));
        if before == most {
            return Ok(());
        }
        let mut next = self.most.clone();
        match most {
            Some(most) => next.insert(vm.clone(), most),
            None => next.remove(vm),
        };
        self.keep.save(&next)?;
        self.most = next;
        Ok(())
    }
}

// === impl Tally ===

impl Tally {
    fn answered(&mut self, ask: &Ask, answer: &Answer) {
        if answer.permit == ask.wanted {
            self.whole += 1;
        } else {
            self.partial += 1;
        }
        self.moves += u64::from(answer.migrate);
    }
}
