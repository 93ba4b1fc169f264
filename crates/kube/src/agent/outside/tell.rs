//! What people are told of a node's pods: who is left alone, and what is wrong. Each thing once.

use tracing::{debug, warn};
use walras_core::units::Span;
use walras_node::drive::Outside;

use super::Kubernetes;
use super::roster::Roster;

/// A running pod without a control group for this long is told of.
const GROUP_LATE: Span = Span::from_s(30);
/// More problems than this are not listed.
const PROBLEMS_MAX: usize = 20;

impl Kubernetes {
    pub(super) fn say_who_is_left_alone(&self, before: &Roster) {
        for (uid, (pod, because)) in &self.roster.left_alone {
            if before.left_alone.get(uid).is_none_or(|(_, known)| known != because) {
                debug!(pod = pod.name(), namespace = pod.namespace(), "left alone: {because}");
            }
        }
    }

    /// Says what is wrong with annotations, once.
    pub(super) fn complain(&mut self) {
        let sized = &self.roster.sized;
        self.complained.retain(|uid, _| sized.contains_key(uid));
        for (uid, (pod, params)) in sized {
            if self.complained.get(uid).map_or(&[][..], Vec::as_slice) == params.complaints {
                continue;
            }
            for complaint in &params.complaints {
                warn!(pod = pod.name(), namespace = pod.namespace(), "{complaint}");
            }
            self.complained.insert(uid.clone(), params.complaints.clone());
        }
    }

    /// What a person should know, in sentences.
    pub(super) fn told_problems(&self) -> Vec<String> {
        let now = self.now();
        let late = self.missing.iter().filter(|(_, since)| now.since(**since) >= GROUP_LATE);
        let missing = late.filter_map(|(uid, _)| {
            let (pod, _) = self.roster.sized.get(uid)?;
            let (namespace, name) = (pod.namespace(), pod.name());
            Some(format!("The pod {namespace}/{name} runs, but its control group is not found."))
        });
        let complaints = self.complained.iter().flat_map(|(uid, complaints)| {
            let pod = self.roster.sized.get(uid).map(|(pod, _)| pod);
            let pod =
                pod.map_or(String::new(), |pod| format!("{}/{}", pod.namespace(), pod.name()));
            complaints.iter().map(move |complaint| format!("{pod}: {complaint}."))
        });
        let shared = &self.shared;
        let background = shared.world.problems().into_iter().chain(shared.outbox.problem());
        let background = background.chain(shared.questions.problems());
        background.chain(missing).chain(complaints).take(PROBLEMS_MAX).collect()
    }
}
