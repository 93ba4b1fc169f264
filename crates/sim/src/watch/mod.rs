//! Holds a node to its promises: told every fact and every answer, it says which promise broke.
//!
//! The property tests call it. It keeps its own books from facts and actions alone and
//! compares them with what the node reports, so neither can be wrong unnoticed. What is said here
//! about budgets, bands and holds is about limits that are grants or small caps; what loose caps
//! promise is in `loose`, what explanations do in `told`, and what all do in `whole`.
//!
//! Always: it judges only what the core documents; a tick it accepts changed nothing else.

use std::collections::{BTreeMap, BTreeSet};

use walras_core::claim::CameWith;
use walras_core::market::{Mode, Reason, SURVIVAL_FLOOR};
use walras_core::need::Bounds;
use walras_core::node::{Action, Fact, InForce, Loop, Node, Note, Outcome, Why, WorkloadFacts};
use walras_core::profile::{CapRule, Estimator, Profile};
use walras_core::request::RequestRule;
use walras_core::units::{Millicores, Moment, Ratio, WorkloadUid};

use crate::fact::{Happened, Story};

/// A promise that was not kept, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Broken(String);

/// What is known of a node from outside.
#[derive(Clone, Debug)]
pub struct Watch {
    profile: Profile,
    capacity: Millicores,
    workloads: BTreeMap<WorkloadUid, Seen>,
    /// The latest moment the node was told.
    now: Moment,
    last_fast: Moment,
    last_slow: Moment,
    clear_wanted: bool,
    /// Whether one has arrived since the last slow tick.
    joined: bool,
    /// How far all limits together may exceed the budget until the next slow tick.
    brought: Millicores,
    /// Whether what was in force before the current tick added up.
    fitted: bool,
    /// Whether the last slow tick lowered a limit by as much as the controller accepts at once.
    stepped: bool,
    /// What was idle when the machine was last looked at.
    machine: Looked,
}

/// What is known of one workload from outside.
#[derive(Clone, Debug)]
struct Seen {
    bounds: Bounds,
    came_with: CameWith,
    request_rule: RequestRule,
    in_force: InForce,
    added_at: Moment,
    last_change: Option<Moment>,
    limit_set_at: Moment,
    request_set_at: Moment,
    need: Option<Millicores>,
    sampled_ever: bool,
    sampled_since_clearing: bool,
    /// Whether somebody else has set its limit since it arrived.
    found: bool,
}

// === impl Seen ===

impl Seen {
    /// Whether it is to request what it came with.
    fn keeps_request(&self) -> bool {
        match self.request_rule {
            RequestRule::Kept | RequestRule::Scaled => true,
            RequestRule::Follows => false,
        }
    }
}

/// Says which promise broke unless the condition holds.
macro_rules! promise {
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            return Err(Broken(format!($($words)+)));
        }
    };
}

// === impl Watch ===

impl Watch {
    /// A watch on the node at the beginning of a story.
    #[must_use]
    pub fn new(story: &Story) -> Self {
        Self {
            profile: story.profile.clone(),
            capacity: story.capacity,
            workloads: BTreeMap::new(),
            now: Moment::ORIGIN,
            last_fast: Moment::ORIGIN,
            last_slow: Moment::ORIGIN,
            clear_wanted: false,
            joined: false,
            brought: Millicores::ZERO,
            fitted: true,
            stepped: false,
            machine: Looked::default(),
        }
    }

    /// `happened` was fed to `node`, which answered `outcome`.
    ///
    /// # Errors
    /// The first promise that the node did not keep.
    pub fn saw(
        &mut self,
        happened: &Happened,
        outcome: Option<&Outcome>,
        node: &Node,
    ) -> Result<(), Broken> {
        let Happened { at, fact } = happened;
        match fact {
            Fact::WorkloadAdded(workload) => self.arrived(workload, *at),
            Fact::WorkloadRemoved(uid) => {
                self.workloads.remove(uid);
            }
            Fact::Sampled(uid, _) => {
                if let Some(workload) = self.workloads.get_mut(uid) {
                    workload.sampled_ever = true;
                    workload.sampled_since_clearing = true;
                }
            }
            Fact::MachineSampled(sample) => self.machine.sampled(sample),
            Fact::CapacityChanged(capacity) => {
                let before = self.budget();
                self.capacity = *capacity;
                self.clear_wanted = true;
                self.brought += before.saturating_sub(self.budget());
            }
            Fact::LatencyJudged { .. }
            | Fact::LimitTookEffect(_)
            | Fact::AllocatableChanged(_)
            | Fact::TableRestored { .. }
            | Fact::UseRestored { .. } => {}
            Fact::LimitFound { uid, limit } => self.found(uid, *limit),
            Fact::Ticked(tick) => {
                self.now = self.now.max(*at);
                let Some(outcome) = outcome else {
                    return Err(Broken("a tick without an answer".to_owned()));
                };
                promise!(outcome.tick == *tick, "the other loop answered");
                self.ticked(outcome, node)?;
            }
        }
        self.books_agree(node)
    }

    fn arrived(&mut self, workload: &WorkloadFacts, now: Moment) {
        self.now = self.now.max(now);
        self.joined = true;
        self.brought += workload.limit;
        let request = workload.request.unwrap_or(workload.bounds.min()).min(workload.limit);
        let (limit, burst) = (workload.limit, Millicores::ZERO);
        let in_force = InForce { limit, request, weight: None, burst };
        let seen = Seen {
            bounds: workload.bounds,
            came_with: workload.came_with,
            request_rule: workload.request_rule,
            in_force,
            added_at: self.now,
            last_change: None,
            limit_set_at: self.now,
            request_set_at: self.now,
            need: None,
            sampled_ever: false,
            sampled_since_clearing: false,
            found: false,
        };
        self.workloads.insert(workload.uid.clone(), seen);
    }

    fn found(&mut self, uid: &WorkloadUid, limit: Millicores) {
        if let Some(workload) = self.workloads.get_mut(uid) {
            let request = workload.in_force.request.min(limit);
            workload.found = true;
            if limit != workload.in_force.limit {
                workload.limit_set_at = self.now;
            }
            if request != workload.in_force.request {
                workload.request_set_at = self.now;
            }
            workload.in_force = InForce { limit, request, weight: None, burst: Millicores::ZERO };
            self.brought += limit;
        }
    }

    fn ticked(&mut self, outcome: &Outcome, node: &Node) -> Result<(), Broken> {
        promise!(
            outcome.actions.windows(2).all(|two| two[0].uid < two[1].uid),
            "actions are not in uid order"
        );
        self.fitted = self.total(|in_force| in_force.limit) <= self.budget()
            && self.total(|in_force| in_force.request) <= self.capacity;
        for action in &outcome.actions {
            let Some(workload) = self.workloads.get(&action.uid) else {
                return Err(Broken(format!("an action for a workload that is gone: {action:?}")));
            };
            match (self.profile.cap_rule, outcome.tick) {
                (CapRule::Grant | CapRule::Tight, Loop::Fast) => {
                    self.fast_action_is_right(workload, action)
                }
                (CapRule::Grant | CapRule::Tight, Loop::Slow) => {
                    self.slow_action_is_right(workload, action, outcome)
                }
                (CapRule::Loose, Loop::Fast) => self.loose_raise_is_right(workload, action, node),
                (CapRule::Loose, Loop::Slow) => self.loose_move_is_right(workload, action, node),
            }
            .and_then(|()| told::is_true(&workload.in_force, action))
            .map_err(|Broken(words)| Broken(format!("{words}: {action:?}, from {workload:?}")))?;
        }
        let is_loose = self.profile.cap_rule == CapRule::Loose;
        self.stepped = !is_loose && outcome.actions.iter().any(|action| self.is_full_step(action));
        let held = if is_loose { self.held_back(outcome) } else { BTreeSet::new() };
        self.take_over(outcome);
        if is_loose {
            self.refusals_are_right(outcome, node)?;
        }
        match outcome.tick {
            Loop::Fast => self.last_fast = self.now,
            Loop::Slow => {
                self.last_slow = self.now;
                self.clear_wanted = self.stepped;
                self.joined = false;
                let limits = self.total(|in_force| in_force.limit);
                self.brought = limits.saturating_sub(self.budget());
                if is_loose {
                    self.caps_are_loose(outcome, &held, node)?;
                    self.weights_are_right(node)?;
                } else {
                    self.sums_fit()?;
                }
                self.grants_fit(node)?;
                self.needs_are_right(node)?;
            }
        }
        let no_room = |note: &Note| matches!(note, Note::NoRoom { .. });
        self.clear_wanted |= outcome.notes.iter().any(no_room);
        self.wakes_in_time(outcome)
    }

    fn take_over(&mut self, outcome: &Outcome) {
        let now = self.now;
        for action in &outcome.actions {
            if let Some(workload) = self.workloads.get_mut(&action.uid) {
                if action.limit != workload.in_force.limit {
                    workload.limit_set_at = now;
                    // The cooldown is between two changes by the slow loop, or of who is contained.
                    let follows = matches!(action.why, Why::Contained { .. });
                    if outcome.tick == Loop::Slow || follows {
                        workload.last_change = Some(now);
                    }
                }
                if action.request != workload.in_force.request {
                    (workload.last_change, workload.request_set_at) = (Some(now), now);
                }
                workload.in_force = InForce {
                    limit: action.limit,
                    request: action.request,
                    weight: Some(action.weight),
                    burst: action.burst,
                };
            }
        }
    }

    fn is_full_step(&self, action: &Action) -> bool {
        self.workloads.get(&action.uid).is_some_and(|workload| {
            let step = workload.in_force.limit.min(self.capacity).saturating_sub(action.limit);
            step > Millicores::ZERO && step == self.profile.max_step_milli
        })
    }

    fn budget(&self) -> Millicores {
        self.capacity.scale_floor(self.profile.overcommit)
    }

    fn total(&self, part: impl Fn(&InForce) -> Millicores) -> Millicores {
        self.workloads.values().map(|workload| part(&workload.in_force)).sum()
    }
}

mod forced;
mod loose;
mod told;
mod whole;

use loose::Looked;

// === impl Watch: promises about one action ===

impl Watch {
    fn fast_action_is_right(&self, workload: &Seen, action: &Action) -> Result<(), Broken> {
        let before = &workload.in_force;
        promise!(action.limit > before.limit, "a fast tick did not raise the limit");
        promise!(action.limit <= workload.bounds.max(), "a fast tick raised beyond the max");
        promise!(action.request == before.request, "a fast tick changed the request");
        promise!(
            before.weight.is_none_or(|weight| weight == action.weight),
            "a fast tick changed the weight"
        );
        promise!(
            matches!(action.why, Why::Throttled { .. } | Why::LatencyMissed),
            "a fast tick gave a slow tick's reason"
        );
        self.step_is_accepted(before.limit, action.limit)
    }

    fn slow_action_is_right(
        &self,
        workload: &Seen,
        action: &Action,
        outcome: &Outcome,
    ) -> Result<(), Broken> {
        let before = &workload.in_force;
        let limit_moved = action.limit != before.limit;
        let request_moved = action.request != before.request;
        match action.why {
            Why::Throttled { .. } | Why::LatencyMissed => {
                return Err(Broken("a slow tick gave a fast tick's reason".to_owned()));
            }
            Why::Trimmed => {
                promise!(!limit_moved && !request_moved, "a trim moved limit or request");
                promise!(
                    before.weight != Some(action.weight) || before.burst != action.burst,
                    "a trim changed nothing"
                );
            }
            Why::Forced { .. } => self.force_is_right(workload, action, outcome)?,
            Why::Cap { .. } => {
                promise!(limit_moved, "a cap that did not move");
                self.free_move_is_right(workload, action)?;
            }
            Why::RequestRestored { .. }
            | Why::Request { .. }
            | Why::Contained { .. }
            | Why::Released => {
                return Err(Broken("a reason of loose caps".to_owned()));
            }
            Why::Market { need, grant, reason, .. } => {
                promise!(limit_moved || request_moved, "nothing moved by the market");
                // Whoever takes all it can get may be held to less than it needs.
                let wanted = if reason == Reason::Cut { grant } else { need.max(grant) };
                self.move_follows_market(before, action, wanted, grant)?;
                self.free_move_is_right(workload, action)?;
            }
        }
        if action.limit > before.limit {
            let most = workload.bounds.max().max(SURVIVAL_FLOOR).max(action.request);
            promise!(action.limit <= most, "a limit was raised beyond the max");
        }
        if self.profile.cap_rule == CapRule::Tight {
            promise!(
                action.request <= before.request.max(workload.bounds.max()),
                "a request was raised beyond the max"
            );
            promise!(
                action.request >= before.request.min(workload.bounds.min())
                    || outcome.mode == Mode::Overloaded,
                "a request was lowered below the min"
            );
        }
        Ok(())
    }

    /// Nothing moves away from what the market wants: `wanted` is the most a limit could be for,
    /// save for a boost on top.
    fn move_follows_market(
        &self,
        before: &InForce,
        action: &Action,
        wanted: Millicores,
        grant: Millicores,
    ) -> Result<(), Broken> {
        let base = match self.profile.cap_rule {
            CapRule::Grant => grant,
            CapRule::Tight | CapRule::Loose => wanted,
        };
        promise!(
            action.limit >= before.limit || base < before.limit,
            "a limit was lowered though {base} are wanted"
        );
        if self.profile.cap_rule == CapRule::Tight {
            let rounded = grant.round_down_to(self.profile.rounding_milli);
            promise!(
                action.request >= before.request || rounded < before.request,
                "a request was lowered though {grant} are granted"
            );
            promise!(
                action.request <= before.request || grant > before.request,
                "a request was raised though only {grant} are granted"
            );
        }
        Ok(())
    }

    /// A change that the sums did not force is worth it, not too early, and not too large.
    fn free_move_is_right(&self, workload: &Seen, action: &Action) -> Result<(), Broken> {
        let (before, profile) = (&workload.in_force, &self.profile);
        let limit_moved = action.limit != before.limit;
        let request_moved = action.request != before.request;
        let follows_request = action.limit == action.request || before.limit < action.request;
        if limit_moved && !follows_request {
            promise!(
                self.is_outside_band(before.limit, action.limit),
                "a limit moved inside its band"
            );
        }
        if limit_moved {
            self.step_is_accepted(before.limit, action.limit)?;
        }
        if request_moved {
            match profile.cap_rule {
                CapRule::Tight | CapRule::Loose => {
                    // A request below the workload's min is brought up to it, however little that
                    // is.
                    let min = workload.bounds.min();
                    let restored = before.request < min && action.request >= min;
                    promise!(
                        restored || self.is_outside_band(before.request, action.request),
                        "a request moved inside its band"
                    );
                }
                CapRule::Grant => {
                    promise!(
                        limit_moved || before.weight.is_none(),
                        "a request moved without its limit"
                    );
                }
            }
        }
        let shrinks = action.limit < before.limit
            || (action.request < before.request && profile.cap_rule == CapRule::Tight);
        promise!(
            !shrinks || self.now >= workload.added_at + profile.startup_grace_ms,
            "a workload was shrunk while it starts up"
        );
        let held = |set_at: Moment| self.now >= set_at + profile.shrink_hold_ms;
        promise!(
            action.limit >= before.limit || held(workload.limit_set_at),
            "a limit was lowered that was not too large for long enough"
        );
        promise!(
            action.request >= before.request
                || profile.cap_rule == CapRule::Grant
                || held(workload.request_set_at),
            "a request was lowered that was not too large for long enough"
        );
        // The window estimator takes a workload it knows nothing about at its word, which is the
        // limit it came with, and not what somebody else made of that.
        let known = workload.sampled_ever
            || workload.found
            || profile.estimator != Estimator::Window
            || profile.cap_rule != CapRule::Tight
            || profile.learning;
        promise!(
            known || action.limit >= before.limit.min(workload.bounds.max()),
            "a workload was shrunk that was never sampled"
        );
        let first = profile.cap_rule == CapRule::Grant && !limit_moved;
        promise!(
            first || workload.last_change.is_none_or(|at| self.now >= at + profile.cooldown_ms),
            "a workload was changed again too soon"
        );
        Ok(())
    }

    fn is_outside_band(&self, before: Millicores, after: Millicores) -> bool {
        let part = |band: Ratio| before.scale_floor(band);
        after > before + part(self.profile.raise_band)
            || after < before.saturating_sub(part(self.profile.shrink_band))
    }

    /// The controller refuses larger steps than these.
    fn step_is_accepted(&self, before: Millicores, after: Millicores) -> Result<(), Broken> {
        let base = before.max(Millicores::new(100));
        promise!(
            after <= base.scale_floor(self.profile.max_step_factor),
            "a step to {after} grows too fast"
        );
        promise!(
            after.abs_diff(before) <= self.profile.max_step_milli,
            "a step from {before} to {after} is too large"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::feed;
    use walras_core::claim::Nature;
    use walras_core::units::Weight;

    /// Feeds `facts` to a node of four cores, and to a watch that was told `capacity`.
    fn check(capacity: u32, facts: &[Happened], untold: usize) -> String {
        let story = Story {
            capacity: Millicores::from_cores(4),
            profile: Profile::TIGHT,
            facts: facts.to_vec(),
        };
        let mut node = story.node();
        let mut watch =
            Watch::new(&Story { capacity: Millicores::from_cores(capacity), ..story.clone() });
        for (place, fact) in facts.iter().enumerate() {
            let outcome = feed(&mut node, fact);
            if place == untold {
                continue;
            }
            if let Err(broken) = watch.saw(fact, outcome.as_ref(), &node) {
                return broken.to_string();
            }
        }
        "kept".to_owned()
    }

    fn two_workloads_and_a_clearing() -> Vec<Happened> {
        let now = Moment::from_ms(1000);
        let workload = |name: &str| WorkloadFacts {
            uid: WorkloadUid::new(name),
            family: None,
            bounds: Bounds::new(Millicores::new(100), Millicores::from_cores(4)),
            weight: Weight::ONE,
            limit: Millicores::from_cores(2),
            request: None,
            came_with: CameWith {
                request: None,
                limit: Some(Millicores::from_cores(2)),
                weight: None,
            },
            nature: Nature::Unknown,
            request_rule: RequestRule::Kept,
        };
        [
            Fact::WorkloadAdded(Box::new(workload("one"))),
            Fact::WorkloadAdded(Box::new(workload("two"))),
            Fact::Ticked(Loop::Slow),
        ]
        .map(|fact| Happened { at: now, fact })
        .to_vec()
    }

    #[test]
    fn a_node_that_keeps_its_promises_passes() {
        assert_eq!(check(4, &two_workloads_and_a_clearing(), usize::MAX), "kept");
    }

    #[test]
    fn sums_that_do_not_fit_are_told() {
        let words = check(1, &two_workloads_and_a_clearing(), usize::MAX);
        assert_eq!(words, "requests of 4000m exceed a capacity of 1000m");
    }

    #[test]
    fn a_loose_cap_below_what_the_workload_came_with_is_told() {
        let facts = two_workloads_and_a_clearing();
        let profile = Profile::DIRECT;
        let story = Story { capacity: Millicores::from_cores(4), profile, facts };
        let (mut node, mut watch) = (story.node(), Watch::new(&story));
        let mut words = String::new();
        for mut fact in story.facts {
            let outcome = feed(&mut node, &fact);
            // The node does not know what the watch does: that it came with more.
            if let Fact::WorkloadAdded(workload) = &mut fact.fact {
                workload.came_with.limit = Some(Millicores::from_cores(3));
            }
            if let Err(broken) = watch.saw(&fact, outcome.as_ref(), &node) {
                words = broken.to_string();
            }
        }
        let expected = "one has 2000m and came with Some(Millicores(3000)), of at most 1024000m";
        assert_eq!(words, expected);
    }

    #[test]
    fn a_workload_that_should_not_be_there_is_told() {
        let words = check(4, &two_workloads_and_a_clearing(), 0);
        assert!(words.starts_with("reported ["), "{words}");
    }
}
