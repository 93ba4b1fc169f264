//! Containment: which pods take all they can get while others need theirs, and what their cap is.
//!
//! A pod whose need the market had to cut for a while is contained: the fast loop raises it no
//! more, and its cap is what its grant allows it or what the others leave idle, whichever is more.
//! Some of the node is kept idle beside it, so that a burst of the others does not have to wait. A
//! burst that is over sooner is not held against anybody.
//!
//! Always: a contained pod keeps its grant, and what nobody uses is not kept from it beyond the
//! guard. Where limits are grants anyway, nobody is contained.

use super::{Node, Note};
use crate::market::Reason;
use crate::profile::CapRule;
use crate::units::{Millicores, Moment, Ratio};

/// How much is used, and how much should be, beside pods that would take everything.
struct Idle {
    used: Millicores,
    wanted: Millicores,
    /// The weights of the contained pods together, in thousandths.
    weights: u64,
}

impl Node {
    /// Decides who is contained until the next clearing.
    pub(super) fn contain(&mut self, now: Moment) {
        if self.profile.cap_rule == CapRule::Grant {
            return;
        }
        let patience = self.profile.contain_after_ms;
        let mut held = alloc::vec::Vec::new();
        for (place, pod) in self.pods.iter_mut().enumerate() {
            let is_cut = pod.grant.is_some_and(|grant| grant.reason == Reason::Cut);
            // What is not known never shrinks a pod.
            if is_cut && !pod.is_known {
                continue;
            }
            pod.cut_since = is_cut.then(|| pod.cut_since.unwrap_or(now));
            if pod.cut_since.is_some_and(|since| now.since(since) >= patience) {
                held.push(place);
            } else {
                pod.contained_at = None;
            }
        }
        if held.is_empty() {
            return;
        }
        let idle = self.idle_beside(&held);
        for place in held {
            let pod = &mut self.pods[place];
            let granted = pod.grant.map_or(Millicores::ZERO, |grant| grant.amount);
            let usage = pod.signal.map_or(Millicores::ZERO, |signal| signal.usage);
            let cap = granted
                .scale_floor(self.profile.contain_factor)
                .max(idle.share(usage, u64::from(pod.weight.thousandths())));
            let is_new = pod.contained_at.replace(cap).is_none();
            let uid = pod.uid().clone();
            if is_new {
                self.note(Note::Contained { uid, cap });
            }
        }
    }

    fn idle_beside(&self, held: &[usize]) -> Idle {
        let usages = self.pods.iter().filter_map(|pod| pod.signal);
        let wanted = Ratio::ONE.saturating_sub(self.profile.idle_guard);
        Idle {
            used: usages.map(|signal| signal.usage).sum(),
            wanted: self.capacity.scale_floor(wanted),
            weights: held
                .iter()
                .map(|&place| u64::from(self.pods[place].weight.thousandths()))
                .sum(),
        }
    }
}

// === impl Idle ===

impl Idle {
    /// What a contained pod that uses `usage` may use from now on.
    fn share(&self, usage: Millicores, weight: u64) -> Millicores {
        let (part, whole) = (Millicores::new(weight), Millicores::new(self.weights.max(1)));
        let room = self.wanted.saturating_sub(self.used).share_floor(part, whole);
        let excess = self.used.saturating_sub(self.wanted).share_floor(part, whole);
        (usage + room).saturating_sub(excess)
    }
}
