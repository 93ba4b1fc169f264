//! What the market and people are told of a workload that was found.

use tracing::warn;
use walras_cgroup::ceiling;
use walras_core::claim::{Ground, claim};
use walras_core::node::WorkloadFacts;
use walras_core::request::RequestRule;
use walras_core::units::{FamilyKey, Millicores, WorkloadUid};

use super::caps::within;
use super::known::known;
use super::{Cgroups, Fresh, Held, limit_of};
use crate::latency;
use walras_node::board::WorkloadLabel;
use walras_node::drive::Arrival;

/// What a workload may have at least in the documents' market.
const BASELINE: Millicores = Millicores::new(100);

impl Cgroups {
    pub(super) fn arrival(&mut self, fresh: Fresh) -> Arrival {
        let Fresh { handle, adoption, told, user, settings } = fresh;
        for complaint in &adoption.complaints {
            warn!(workload = adoption.uid, "{complaint}");
        }
        let group = handle.group();
        let above = ceiling(&self.layout, group.path()).ok().flatten();
        let limit = limit_of(&settings);
        let ground = Ground {
            cap_rule: self.terms.cap_rule,
            baseline: BASELINE,
            node: self.capacity,
            respect_limits: false,
        };
        let known = known(&adoption, &handle.original(&settings), above.map(|it| it.limit));
        let cap = self.caps.of(&adoption.uid);
        let known = within(cap, known);
        let (came_with, claim) = (known.came_with, claim(&known, &ground));
        let uid = WorkloadUid::new(&adoption.uid);
        let identity = group.identity();
        let judged = adoption.target_latency_ms.map(|target_ms| latency::Judged {
            uid: uid.clone(),
            name: adoption.name.clone(),
            source: adoption.source,
            target_ms,
        });
        let arrival = Arrival {
            facts: WorkloadFacts {
                uid: uid.clone(),
                family: Some(FamilyKey::new(&adoption.family)),
                bounds: claim.bounds,
                weight: claim.weight,
                limit,
                request: None,
                came_with,
                nature: adoption.nature,
                request_rule: RequestRule::Kept,
            },
            label: WorkloadLabel {
                name: adoption.name.clone(),
                kind: adoption.source.into(),
                original_limit: came_with.limit,
                target_latency_ms: adoption.target_latency_ms,
            },
        };
        self.held.insert(uid, Held { handle, identity, adoption, told, user, limit, judged, cap });
        arrival
    }
}
