//! How an action of the market is carried out: written at once, or asked of the API server.
//!
//! A wish that one resize cannot reach is asked for as far as it goes, and the rest when that was
//! carried out.

use walras_core::node::Action;
use walras_core::units::WorkloadUid;
use walras_node::drive::{Carried, Outside};

use super::Kubernetes;
use super::held::Held;
use super::wish::lasts;
use crate::agent::publish::{Desired, Urgency};
use crate::pod::Mode;
use crate::settings::Actuation;

impl Kubernetes {
    /// Carries out an action, as far as is allowed.
    pub(super) fn act(&self, held: &mut Held, action: &Action) -> Carried {
        if action.limit.is_unlimited() && held.params.limit.is_none() {
            // It has no limit and needs none, and its weight is the kubelet's.
            return Carried::Done;
        }
        // A limit that was added cannot be taken away in place: the node's size does not limit.
        let limit = Some(action.limit).filter(|limit| !limit.is_unlimited());
        let action = &Action { limit: limit.unwrap_or(self.allocatable), ..action.clone() };
        let urgency = if action.limit > held.limit { Urgency::AtOnce } else { Urgency::InTime };
        match (held.params.mode, self.terms.config.actuation) {
            _ if self.terms.only_watch() => Carried::OnlyWatching(held.limit),
            (Mode::Restore, _) => Carried::OnlyWatching(held.limit),
            (Mode::Off, _) => {
                self.ask(held, action, urgency);
                Carried::OnlyWatching(held.limit)
            }
            (Mode::LimitsOnly | Mode::RequestsAndLimits, Actuation::Direct)
                if held.can_be_written() =>
            {
                self.write_or_ask(held, action, urgency)
            }
            (Mode::LimitsOnly | Mode::RequestsAndLimits, Actuation::Api | Actuation::Direct) => {
                self.ask_and_wait(held, action, urgency)
            }
        }
    }

    /// Asks for the rest of a wish that was too far away, after a resize brought it nearer.
    pub(super) fn ask_for_the_rest(&mut self, uid: &WorkloadUid) {
        let Some(mut held) = self.held.remove(uid) else {
            return;
        };
        if let Some(action) = held.cut_short.take() {
            match (held.params.mode, held.can_be_written()) {
                _ if self.terms.only_watch() => {}
                (Mode::Off | Mode::Restore, _) => {}
                // It has what was decided, whatever the API server says.
                (Mode::LimitsOnly | Mode::RequestsAndLimits, true) => {
                    self.ask(&mut held, &action, Urgency::InTime);
                }
                (Mode::LimitsOnly | Mode::RequestsAndLimits, false) => {
                    self.ask_and_wait(&mut held, &action, Urgency::InTime);
                }
            }
        }
        self.held.insert(uid.clone(), held);
    }

    /// Writes an action to the control groups. What lasts is asked of the API server as well, and
    /// so is what cannot be written.
    fn write_or_ask(&self, held: &mut Held, action: &Action, urgency: Urgency) -> Carried {
        let written = held.write(action);
        if let Carried::Failed { because, in_force: _ } = written {
            // What is asked for is not believed: the market goes by what is in force.
            let desired = self.ask(held, action, urgency);
            let asked = held.asked(desired.limit, false, self.now());
            let is_late = matches!(asked, Carried::Late(_));
            let instead = Carried::AskedInstead { because, in_force: held.limit };
            return if is_late { asked } else { instead };
        }
        if lasts(&action.why) {
            self.ask(held, action, Urgency::InTime);
        }
        written
    }

    /// Asks the API server for an action, whose effect is looked for from now on.
    fn ask_and_wait(&self, held: &mut Held, action: &Action, urgency: Urgency) -> Carried {
        let desired = self.ask(held, action, urgency);
        held.asked(desired.limit, desired.limit == action.limit, self.now())
    }

    /// What is asked of the API server for an action.
    fn ask(&self, held: &mut Held, action: &Action, urgency: Urgency) -> Desired {
        let desired = held.params.desired(action, self.price);
        let is_short = held.params.in_reach(action.limit) != action.limit;
        held.cut_short = is_short.then(|| action.clone());
        if !self.terms.only_watch() {
            self.shared.outbox.put(&held.key, held.whose(), desired.clone(), urgency);
        }
        desired
    }
}
