//! Containment: which workloads take all they can get while others need theirs, and what their cap
//! is.
//!
//! A workload whose need the market had to cut for a while is contained: the fast loop raises it no
//! more, and its cap is what its grant allows it or what the others leave idle, whichever is more.
//! Some of the node is kept idle beside it, so that a burst of the others does not have to wait. A
//! burst that is over sooner is not held against anybody.
//!
//! Always: a contained workload keeps its grant, and what is idle is not kept from it beyond
//! the guard. Where limits are grants anyway, none is contained.

use super::{Node, Note};
use crate::market::Reason;
use crate::profile::CapRule;
use crate::units::{Millicores, Moment, Ratio};

/// How much is used, and how much should be, beside workloads that would take everything.
struct Idle {
    used: Millicores,
    wanted: Millicores,
    /// The weights of the contained workloads together, in thousandths.
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
        for (place, workload) in self.workloads.iter_mut().enumerate() {
            let is_cut = workload.grant.is_some_and(|grant| grant.reason == Reason::Cut);
            // What is not known never shrinks a workload.
            if is_cut && !workload.is_known {
                continue;
            }
            workload.cut_since = is_cut.then(|| workload.cut_since.unwrap_or(now));
            if workload.cut_since.is_some_and(|since| now.since(since) >= patience) {
                held.push(place);
            } else {
                workload.contained_at = None;
            }
        }
        if held.is_empty() {
            return;
        }
        let idle = self.idle_beside(&held);
        for place in held {
            let workload = &mut self.workloads[place];
            let granted = workload.grant.map_or(Millicores::ZERO, |grant| grant.amount);
            let usage = workload.signal.map_or(Millicores::ZERO, |signal| signal.usage);
            let cap = granted
                .scale_floor(self.profile.contain_factor)
                .max(idle.share(usage, u64::from(workload.weight.thousandths())));
            let is_new = workload.contained_at.replace(cap).is_none();
            let uid = workload.uid().clone();
            if is_new {
                self.note(Note::Contained { uid, cap });
            }
        }
    }

    fn idle_beside(&self, held: &[usize]) -> Idle {
        let usages = self.workloads.iter().filter_map(|workload| workload.signal);
        let wanted = Ratio::ONE.saturating_sub(self.profile.idle_guard);
        Idle {
            used: usages.map(|signal| signal.usage).sum(),
            wanted: self.capacity.scale_floor(wanted),
            weights: held
                .iter()
                .map(|&place| u64::from(self.workloads[place].weight.thousandths()))
                .sum(),
        }
    }
}

// === impl Idle ===

impl Idle {
    /// What a contained workload that uses `usage` may use from now on.
    fn share(&self, usage: Millicores, weight: u64) -> Millicores {
        let (part, whole) = (Millicores::new(weight), Millicores::new(self.weights.max(1)));
        let room = self.wanted.saturating_sub(self.used).share_floor(part, whole);
        let excess = self.used.saturating_sub(self.wanted).share_floor(part, whole);
        (usage + room).saturating_sub(excess)
    }
}
