//! The outside of a Kubernetes node: families are pods, and acting is a PodAllocation, which the
//! controller carries out by resizing the pod in place.
//!
//! Where acting is `direct`, what is decided is written to the pod's control groups at once, and
//! only what lasts is asked of the API server. Either way, what is in the pod's control group is
//! what is in force: it is compared with what was asked for, and what the kubelet set is never
//! fought. Nothing here waits for the network.

mod act;
mod held;
mod owing;
mod roster;
mod tell;
mod wish;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tracing::{debug, info};
use walras_cgroup::Layout;
use walras_core::demand::Sample;
use walras_core::node::{Action, Allocatable, MachineSample, WorkloadFacts};
use walras_core::profile::CapRule;
use walras_core::resize::{self, Allocation};
use walras_core::units::{Millicores, Moment, Ratio, Span, WorkloadUid};
use walras_node::board::{WorkloadKind, WorkloadLabel};
use walras_node::drive::{Arrival, Carried, Change, Clock, Machine, Outside, Trouble, cpus_online};
use walras_node::latency::Question;

use self::held::{Held, Seen};
use self::roster::Roster;
use super::find::Finder;
use super::latency;
use super::link::Shared;
use super::params::{Params, Rules, capacity};
use super::publish::{Desired, Pace, Urgency, key_of};
use super::tenants::bound;
use crate::pod::{Mode, Pod};
use crate::settings::{AgentConfig, excluded};

/// A limit that was asked for and is not in force after this is not waited for.
const DEADLINE: Span = Span::from_s(15);
/// Every pod's limit is compared with what is known this often, a few at each look.
const LOOKS_PER_ROUND: u64 = 10;
/// Limits that are this close are the same: the kernel and systemd cannot hold finer ones.
pub const SLACK: Millicores = Millicores::new(10);

/// On which terms pods are sized.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// What is configured.
    pub config: AgentConfig,
    /// The namespace of the agent itself.
    pub own_namespace: String,
    /// Whether that was read. Where it was not, nothing at all is written or deleted.
    pub holds: bool,
    /// Whether nothing at all is written in any case.
    pub dry_run: bool,
}

/// The pods of this node.
#[derive(Debug)]
pub struct Kubernetes {
    layout: Layout,
    terms: Terms,
    shared: Shared,
    finder: Finder,
    generation: u64,
    roster: Roster,
    /// Who is sized and was found.
    held: BTreeMap<WorkloadUid, Held>,
    /// Who is not, and was not given back everything yet.
    owing: BTreeMap<WorkloadUid, Held>,
    /// Since when a pod's control group is looked for.
    missing: BTreeMap<WorkloadUid, Moment>,
    /// What was complained about, so that it is said once.
    complained: BTreeMap<WorkloadUid, Vec<String>>,
    capacity: Millicores,
    price: Ratio,
    looks: u64,
    clock: Clock,
    machine: Machine,
    /// What the node has for pods.
    allocatable: Millicores,
}

// === impl Terms ===

impl Terms {
    /// Whether nothing is written.
    const fn only_watch(&self) -> bool {
        self.dry_run || !self.holds
    }
}

// === impl Kubernetes ===

impl Kubernetes {
    /// The node whose control groups are in `layout`. `origin` is what the clock shows now.
    #[must_use]
    pub fn new(layout: Layout, terms: Terms, shared: Shared, origin: Moment) -> Self {
        let finder = Finder::below(&terms.config.kubelet_root);
        let machine = Machine::of(&layout);
        Self {
            layout,
            terms,
            shared,
            finder,
            generation: 0,
            roster: Roster::default(),
            held: BTreeMap::new(),
            owing: BTreeMap::new(),
            missing: BTreeMap::new(),
            complained: BTreeMap::new(),
            capacity: cpus_online(),
            price: Ratio::ZERO,
            looks: 0,
            clock: Clock::start(origin),
            machine,
            allocatable: Millicores::UNLIMITED,
        }
    }

    /// Other terms from now on. Every pod is let go of, and found again by the next look.
    pub fn set_terms(&mut self, terms: Terms) {
        // Pods that are written under the new terms are written anew.
        self.give_back();
        self.finder = Finder::below(&terms.config.kubelet_root);
        let pace = Pace { interval: terms.config.write_interval, band: terms.config.min_change };
        self.shared.outbox.set_pace(pace);
        self.terms = terms;
        self.let_go_of_all();
        self.generation = 0;
    }

    /// Whether anything may change: by what is said for everybody, or for a single pod.
    pub fn is_acting(&self) -> bool {
        let everybody = self.terms.config.mode != Mode::Off;
        !self.terms.only_watch() && (everybody || self.roster.changes_any())
    }

    /// Takes in what the API server said since the last time.
    fn refresh(&mut self) {
        let Some(seen) = self.shared.world.newer_than(self.generation) else {
            return;
        };
        self.generation = seen.generation;
        let rules = self.rules(seen.allocatable);
        let allocatable = seen.allocatable;
        self.allocatable = allocatable;
        // The controller reads the same settings, and refuses what is further away.
        let steps = resize::Rules::of(&self.terms.config.profile);
        let before = std::mem::replace(&mut self.roster, Roster::of(&seen, &rules, &steps));
        let Roster { set_aside, came_with, .. } = self.roster;
        // Where idle CPU is measured, a pod that is left alone takes what it uses.
        let set_aside = match self.terms.config.profile.cap_rule {
            CapRule::Grant | CapRule::Tight => set_aside,
            CapRule::Loose => Millicores::ZERO,
        };
        self.capacity = capacity(allocatable, self.terms.config.reserve, set_aside, came_with);
        let (leave, ground) = (self.terms.config.leave, rules.ground());
        bound(&mut self.roster.sized, &seen.namespaces, leave, &ground, self.capacity);
        self.say_who_is_left_alone(&before);
        self.complain();
        let sized = &self.roster.sized;
        self.missing.retain(|uid, _| sized.contains_key(uid));
        self.ask_prometheus();
        self.keep_allocations();
    }

    /// Tells the background who has a latency target.
    fn ask_prometheus(&self) {
        let config = &self.terms.config;
        let targets = self.roster.sized.iter().filter_map(|(uid, (pod, params))| {
            let missed_above_ms = params.target_latency_ms? * config.latency_factor;
            Some(latency::target(uid.clone(), pod.namespace(), pod.name(), missed_above_ms))
        });
        self.shared.questions.set(Question {
            url: config.prometheus_url.clone(),
            query: config.prometheus_query.clone(),
            targets: targets.collect(),
        });
    }

    /// Tells the background who has a PodAllocation: who is sized, who gets back what it came with,
    /// because the controller gives back by PodAllocations alone, and who is sized by an
    /// autoscaler.
    fn keep_allocations(&self) {
        // What the defaults leave alone may be sized by the configuration that is not known yet.
        if !self.terms.holds {
            return;
        }
        let sized = self.roster.sized.values().map(|(pod, _)| key_of(pod));
        let given = self.roster.giving_back.iter().map(|(pod, _)| key_of(pod));
        let autoscaled = self.roster.autoscaled(self.allocatable).map(|(pod, _)| key_of(pod));
        let outbox = &self.shared.outbox;
        outbox.keep_only(sized.chain(given).chain(autoscaled).collect());
        if self.terms.only_watch() {
            return;
        }
        for (pod, Allocation { request, limit }) in self.roster.autoscaled(self.allocatable) {
            let why = "it has this, and somebody else says what it should have".to_owned();
            // Whatever was decided before must not come into force when the autoscaler is gone.
            let desired = Desired { request, limit, price: self.price, why };
            outbox.put(&key_of(pod), (pod.name(), pod.uid()), desired, Urgency::InTime);
        }
        for (pod, came_with) in &self.roster.giving_back {
            let Allocation { request, limit } = *came_with;
            let why = "it gets back what it came with".to_owned();
            // Whatever was decided before must not come into force when the mode changes again.
            let desired = Desired { request, limit, price: self.price, why };
            outbox.put(&key_of(pod), (pod.name(), pod.uid()), desired, Urgency::InTime);
        }
    }

    fn rules(&self, allocatable: Millicores) -> Rules {
        let config = &self.terms.config;
        Rules {
            baseline: config.baseline,
            cap_rule: config.profile.cap_rule,
            node: match config.profile.cap_rule {
                CapRule::Grant | CapRule::Tight => {
                    capacity(allocatable, config.reserve, Millicores::ZERO, Millicores::ZERO)
                }
                CapRule::Loose => allocatable,
            },
            guaranteed: config.guaranteed,
            respect_limits: config.respect_limits,
            excluded: excluded(&self.terms.own_namespace, config),
            mode: config.mode,
            target_latency_ms: config.target_latency_ms,
        }
    }

    /// Lets go of who is not sized any more, and takes in who is new or changed.
    fn follow(&mut self, changes: &mut Vec<Change>) {
        self.let_go(changes);
        let now = self.now();
        let mut unfinished = Vec::new();
        let uids: Vec<WorkloadUid> = self.roster.sized.keys().cloned().collect();
        for uid in uids {
            let (pod, params) = self.roster.sized[&uid].clone();
            if let Some(held) = self.held.get_mut(&uid) {
                if held.is_of(&pod, &params) {
                    continue;
                }
                let (same, limit) = (held.params.is_same_claim(&params), held.limit);
                let resized = held.params.step != params.step;
                held.follow(&self.layout, &pod, params, self.terms.config.actuation);
                if resized {
                    unfinished.push(uid.clone());
                }
                if !same {
                    let arrival = arrival(&uid, held);
                    changes.push(Change::Came(Box::new(arrival)));
                } else if held.limit != limit {
                    changes.push(Change::Limited(uid, held.limit));
                }
                continue;
            }
            if let Some(held) = self.take(&uid, &pod, params, now) {
                let arrival = arrival(&uid, &held);
                self.introduce(&held);
                self.held.insert(uid, held);
                changes.push(Change::Came(Box::new(arrival)));
            }
        }
        for uid in &unfinished {
            self.ask_for_the_rest(uid);
        }
    }

    /// Lets go of who is not sized any more. Who is still there is given back what was written.
    fn let_go(&mut self, changes: &mut Vec<Change>) {
        let (stays, goes): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|(uid, _)| self.roster.sized.contains_key(uid));
        self.held = stays;
        for (uid, held) in goes {
            if let Some((pod, _)) = self.roster.left_alone.get(&uid) {
                let pod = Arc::clone(pod);
                self.leave(&uid, held, &pod);
            }
            changes.push(Change::Went(uid));
        }
    }

    /// Opens a pod's control groups. Nothing is written.
    fn take(
        &mut self,
        uid: &WorkloadUid,
        pod: &Arc<Pod>,
        params: Params,
        now: Moment,
    ) -> Option<Held> {
        let path = self.finder.pod(&self.layout, uid.as_str(), params.qos, now);
        let opened = path
            .map(|path| Held::open(&self.layout, &path, pod, params, self.terms.config.actuation));
        match opened {
            Some(Ok(mut held)) => {
                self.missing.remove(uid);
                self.remember(uid, &mut held);
                Some(held)
            }
            Some(Err(error)) => {
                debug!(pod = pod.name(), "its control group cannot be opened: {error}");
                self.missing.entry(uid.clone()).or_insert(now);
                None
            }
            None => {
                self.missing.entry(uid.clone()).or_insert(now);
                None
            }
        }
    }

    /// Every pod has a PodAllocation, also one that has what it should have.
    fn introduce(&self, held: &Held) {
        let (Some(limit), false) = (held.params.limit, self.terms.only_watch()) else {
            return;
        };
        match held.params.mode {
            Mode::Restore => {}
            Mode::Off | Mode::LimitsOnly | Mode::RequestsAndLimits => {
                let why = "it has this now, and nothing else was decided yet".to_owned();
                let request = held.params.request.min(limit);
                let desired = Desired { request, limit, price: self.price, why };
                self.shared.outbox.introduce(&held.key, held.whose(), desired);
            }
        }
    }

    /// Compares limits with what was asked for, and now and then with what was known.
    fn compare(&mut self, changes: &mut Vec<Change>) {
        let (looks, now) = (self.looks, self.now());
        for (place, (uid, held)) in (0_u64..).zip(&mut self.held) {
            let its_turn = (place + looks).is_multiple_of(LOOKS_PER_ROUND);
            if !its_turn && !held.is_waiting() {
                continue;
            }
            match held.compare(now, DEADLINE) {
                Seen::Nothing => {}
                Seen::Took => changes.push(Change::Took(uid.clone())),
                Seen::Other(limit) => changes.push(Change::Limited(uid.clone(), limit)),
                Seen::Late(limit) => changes.push(Change::Late(uid.clone(), limit)),
            }
        }
    }
}

impl Outside for Kubernetes {
    fn now(&self) -> Moment {
        self.clock.now()
    }

    fn unix_ms(&self) -> u64 {
        Clock::unix_ms()
    }

    fn capacity(&mut self) -> Millicores {
        self.refresh();
        self.capacity
    }

    fn allocatable(&mut self) -> Option<Allocatable> {
        let Roster { set_aside, .. } = self.roster;
        // Before the node was seen, nothing is known of it.
        let size = Some(self.allocatable).filter(|size| !size.is_unlimited())?;
        Some(Allocatable { size, set_aside })
    }

    fn look(&mut self) -> Vec<Change> {
        self.looks += 1;
        self.refresh();
        let mut changes = Vec::new();
        self.follow(&mut changes);
        self.give_back_the_rest();
        self.compare(&mut changes);
        changes
    }

    fn sample(&mut self, uid: &WorkloadUid, now: Moment) -> Result<Sample, Trouble> {
        let Some(held) = self.held.get_mut(uid) else {
            return Err(Trouble::Gone);
        };
        match held.sample(now) {
            Ok(sample) => Ok(sample),
            Err(error) if error.is_gone() => {
                self.held.remove(uid);
                Err(Trouble::Gone)
            }
            Err(error) => Err(Trouble::Unreadable(error.to_string())),
        }
    }

    fn set_price(&mut self, price: Ratio) {
        if price != self.price {
            self.price = price;
            self.shared.outbox.set_price(price);
        }
    }

    fn machine(&mut self, now: Moment) -> Option<MachineSample> {
        self.machine.sample(now)
    }

    fn carry_out(&mut self, action: &Action) -> Carried {
        let Some(mut held) = self.held.remove(&action.uid) else {
            return Carried::Gone;
        };
        let carried = self.act(&mut held, action);
        if carried != Carried::Gone {
            self.held.insert(action.uid.clone(), held);
        }
        carried
    }

    fn problems(&self) -> Vec<String> {
        self.told_problems()
    }
}

fn arrival(uid: &WorkloadUid, held: &Held) -> Arrival {
    let params = &held.params;
    info!(pod = held.label(), mode = %params.mode, "a pod is sized");
    Arrival {
        facts: WorkloadFacts {
            uid: uid.clone(),
            family: Some(params.family.clone()),
            bounds: params.bounds,
            weight: params.weight,
            limit: held.limit,
            request: Some(params.request),
            came_with: params.came_with(),
            nature: params.nature,
            request_rule: params.request_rule,
        },
        label: WorkloadLabel {
            name: held.label(),
            kind: WorkloadKind::Kubernetes,
            original_limit: params.original_limit,
            target_latency_ms: params.target_latency_ms,
        },
    }
}

/// The layout of the machine: at `root` where that is said.
///
/// # Errors
/// Control groups are not mounted.
pub fn layout(root: Option<&PathBuf>) -> Result<Layout, walras_cgroup::LayoutError> {
    match root {
        Some(root) => Ok(super::find::layout_at(root)),
        None => Layout::of_this_machine(),
    }
}

#[cfg(test)]
mod tests;
