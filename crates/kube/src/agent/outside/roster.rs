//! What becomes of each pod of the node: it is sized, left alone, or gets back what it came with.
//!
//! Made anew whenever the API server said something or the settings changed; nothing is read or
//! written. Every pod is either sized or left alone, and whether it gets something back does not
//! depend on which of the two.

use std::collections::BTreeMap;
use std::sync::Arc;

use walras_core::resize::{self, Allocation, one_step};
use walras_core::units::{Millicores, WorkloadUid};

use crate::agent::params::{LeftAlone, Params, Rules, judge, request_of, to_give_back};
use crate::agent::pods::Snapshot;
use crate::pod::{Mode, Pod, container_views};

/// Every pod of the node.
#[derive(Debug, Default)]
pub(super) struct Roster {
    /// Who is sized.
    pub(super) sized: BTreeMap<WorkloadUid, (Arc<Pod>, Params)>,
    /// Who is left alone, and why.
    pub(super) left_alone: BTreeMap<WorkloadUid, (Arc<Pod>, LeftAlone)>,
    /// Who gets back what it came with.
    pub(super) giving_back: Vec<(Arc<Pod>, Allocation)>,
    /// What those request that are left alone.
    pub(super) set_aside: Millicores,
    /// What the others requested when they came.
    pub(super) came_with: Millicores,
}

impl Roster {
    /// What becomes of each pod that was seen, where one resize goes as far as `steps` say.
    pub(super) fn of(seen: &Snapshot, rules: &Rules, steps: &resize::Rules) -> Self {
        let mut roster = Self::default();
        for (uid, pod) in &seen.pods {
            let (uid, pod) = (WorkloadUid::new(uid), Arc::clone(pod));
            let says = seen.namespaces.get(pod.namespace());
            let mode = says.and_then(|says| says.mode.as_deref());
            if let Some(came_with) = to_give_back(&pod, mode, rules.mode) {
                roster.giving_back.push((Arc::clone(&pod), came_with));
            }
            match judge(&pod, mode, rules) {
                Ok(mut params) => {
                    let views = container_views(&pod).ok();
                    params.step = views.and_then(|views| one_step(&views, steps));
                    roster.came_with += params.original_request;
                    roster.sized.insert(uid, (pod, params));
                }
                Err(because) => {
                    roster.set_aside += request_of(&pod);
                    roster.left_alone.insert(uid, (pod, because));
                }
            }
        }
        roster
    }

    /// Who is left alone for the sake of an autoscaler, and what it has on a node of this size. Its
    /// PodAllocation stays: it is how the controller says why, and hears when that is over.
    pub(super) fn autoscaled(
        &self,
        node: Millicores,
    ) -> impl Iterator<Item = (&Arc<Pod>, Allocation)> {
        self.left_alone.values().filter_map(move |(pod, because)| match because {
            LeftAlone::Autoscaled(_) => Some((pod, has_now(pod, node)?)),
            LeftAlone::OptedOut
            | LeftAlone::Namespace
            | LeftAlone::Static
            | LeftAlone::Guaranteed
            | LeftAlone::BestEffort
            | LeftAlone::NotRunning
            | LeftAlone::BeingDeleted
            | LeftAlone::Finished
            | LeftAlone::Restarts(_)
            | LeftAlone::PodLevel
            | LeftAlone::Unreadable(_) => None,
        })
    }

    /// Whether anybody's CPU may change.
    pub(super) fn changes_any(&self) -> bool {
        let sized = self.sized.values().any(|(_, params)| params.mode != Mode::Off);
        sized || !self.giving_back.is_empty()
    }
}

/// What a pod has, where one without a limit may have all of the node.
fn has_now(pod: &Pod, node: Millicores) -> Option<Allocation> {
    let views = container_views(pod).ok()?;
    let limits: Option<Millicores> = views.iter().map(|view| view.limit).sum();
    let limit = limits.unwrap_or(node);
    let request: Millicores = views.iter().filter_map(|view| view.request.or(view.limit)).sum();
    Some(Allocation { request: request.min(limit), limit })
}
