//! What was written to control groups and is not wanted any more: it is given back, and where that
//! fails it is tried again for as long as the pod is there.
//!
//! What an agent wrote before it crashed counts as well, wherever control groups may be written.

use std::sync::Arc;

use tracing::info;
use walras_core::units::WorkloadUid;

use super::held::Held;
use super::{Kubernetes, LOOKS_PER_ROUND};
use crate::pod::{Mode, Pod};
use crate::settings::Actuation;

impl Kubernetes {
    /// Gives control groups that were written back what the kubelet set. Says how many.
    pub fn give_back(&mut self) -> usize {
        // What the API server has may have changed since the last look.
        self.refresh();
        self.follow(&mut Vec::new());
        let layout = &self.layout;
        let all = self.held.values_mut().chain(self.owing.values_mut());
        all.map(|held| usize::from(held.give_back(layout))).sum()
    }

    /// Lets go of every pod, but not of what is still to be given back.
    pub(super) fn let_go_of_all(&mut self) {
        let all = std::mem::take(&mut self.held);
        self.owing.extend(all.into_iter().filter(|(_, held)| held.owes()));
    }

    /// Gives a pod that is left alone from now on what it had.
    pub(super) fn leave(&mut self, uid: &WorkloadUid, mut held: Held, pod: &Arc<Pod>) {
        if held.leave(&self.layout, pod) {
            tell(&held);
        }
        if held.owes() {
            self.owing.insert(uid.clone(), held);
        }
    }

    /// Takes in what was written to a pod that was just found: before the settings changed, or by
    /// an agent that is no more.
    pub(super) fn remember(&mut self, uid: &WorkloadUid, held: &mut Held) {
        match self.owing.remove(uid) {
            Some(before) => held.inherit(before),
            // Who only watches takes nothing back either.
            None if self.terms.only_watch() => {}
            None => held.remember(&self.layout),
        }
    }

    /// Tries again to give back what is not wanted, now and then.
    pub(super) fn give_back_the_rest(&mut self) {
        if !self.looks.is_multiple_of(LOOKS_PER_ROUND) {
            return;
        }
        let (layout, roster) = (&self.layout, &self.roster);
        self.owing.retain(|uid, held| {
            let Some((pod, _)) = roster.left_alone.get(uid) else {
                return roster.sized.contains_key(uid);
            };
            if held.leave(layout, pod) {
                tell(held);
            }
            held.owes()
        });
        let by_api = self.terms.config.actuation == Actuation::Api;
        for held in self.held.values_mut().filter(|held| held.owes()) {
            let wanted = match held.params.mode {
                Mode::LimitsOnly | Mode::RequestsAndLimits => !by_api,
                Mode::Off | Mode::Restore => false,
            };
            if !wanted && held.give_back(layout) {
                tell(held);
            }
        }
    }
}

fn tell(held: &Held) {
    info!(pod = held.label(), "it has back what was written");
}
