//! The line of a replay that says that a workload arrived, with everything that is known of it.

use schemars::JsonSchema;
use walras_core::claim::{CameWith, Nature};
use walras_core::need::Bounds;
use walras_core::node::WorkloadFacts;
use walras_core::request::RequestRule;
use walras_core::smooth::weight::KernelWeight;
use walras_core::units::{FamilyKey, Millicores, Weight, WorkloadUid};

use crate::field::Fields;
use crate::kind::{
    BargainingWeight, Cpu, Family, KernelWeightNumber, NatureWord, RequestWord, Uid,
};

/// A workload arrived. One that is here already starts afresh, with these facts.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct WorkloadAdded {
    /// The workload's name for as long as it lives.
    #[schemars(with = "Uid")]
    pub uid: WorkloadUid,
    /// What it has in common with the workloads before and after it. Default: its uid.
    #[schemars(rename = "workload", with = "Option<Family>")]
    pub family: Option<FamilyKey>,
    /// The least it is granted, unless not even the mins fit.
    #[schemars(with = "Cpu")]
    pub min_milli: Millicores,
    /// The most it is granted; at least the min.
    #[schemars(with = "Cpu")]
    pub max_milli: Millicores,
    /// What its claim counts for; rounded to thousandths. Default: 1.
    #[schemars(with = "Option<BargainingWeight>")]
    pub weight: Option<Weight>,
    /// The limit in force; 1024000 or more where there is none.
    #[schemars(with = "Cpu")]
    pub limit_milli: Millicores,
    /// The request in force; at most the limit. Default: its min.
    #[schemars(with = "Option<Cpu>")]
    pub request_milli: Option<Millicores>,
    /// The limit it came with before anybody sized it; 1024000 or more where there was none.
    /// Default: the limit in force.
    #[schemars(with = "Option<Cpu>")]
    pub came_with_limit_milli: Option<Millicores>,
    /// The request it came with before anybody sized it, where that is known.
    #[schemars(with = "Option<Cpu>")]
    pub came_with_request_milli: Option<Millicores>,
    /// The kernel's weight it came with, from 1 to 10000, where that is ours to divide anew.
    #[schemars(with = "Option<KernelWeightNumber>")]
    pub came_with_weight: Option<KernelWeight>,
    /// What kind of work it does, as far as its owner said so. Default: unknown.
    #[schemars(with = "Option<NatureWord>")]
    pub nature: Option<Nature>,
    /// What becomes of its request: it is kept, kept for an autoscaler's sake, or follows what its
    /// family uses. Default: kept.
    #[schemars(with = "Option<RequestWord>")]
    pub request_rule: Option<RequestRule>,
}

// === impl WorkloadAdded ===

impl WorkloadAdded {
    pub(super) fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let uid = fields.required::<Uid>("uid");
        let family = fields.optional::<Family>("workload");
        let min = fields.required::<Cpu>("min_milli");
        let max = fields.required::<Cpu>("max_milli");
        let weight = fields.optional::<BargainingWeight>("weight");
        let limit = fields.required::<Cpu>("limit_milli");
        let request_milli = fields.optional::<Cpu>("request_milli");
        let came_with_limit_milli = fields.optional::<Cpu>("came_with_limit_milli");
        let came_with_request_milli = fields.optional::<Cpu>("came_with_request_milli");
        let came_with_weight = fields.optional::<KernelWeightNumber>("came_with_weight");
        let nature = fields.optional::<NatureWord>("nature");
        let request_rule = fields.optional::<RequestWord>("request_rule");
        if let (Some(min), Some(max)) = (min, max) {
            fields.ordered(("min_milli", min), ("max_milli", max));
        }
        if let (Some(request), Some(limit)) = (request_milli, limit) {
            fields.ordered(("request_milli", request), ("limit_milli", limit));
        }
        let (uid, min_milli, max_milli, limit_milli) = (uid?, min?, max?, limit?);
        Some(Self {
            uid,
            family,
            min_milli,
            max_milli,
            weight,
            limit_milli,
            request_milli,
            came_with_limit_milli,
            came_with_request_milli,
            came_with_weight,
            nature,
            request_rule,
        })
    }

    /// What the core is told.
    #[must_use]
    pub fn facts(&self) -> WorkloadFacts {
        WorkloadFacts {
            uid: self.uid.clone(),
            family: self.family.clone(),
            bounds: Bounds::new(self.min_milli, self.max_milli),
            weight: self.weight.unwrap_or_default(),
            limit: self.limit_milli,
            request: self.request_milli,
            came_with: CameWith {
                request: self.came_with_request_milli,
                limit: Some(self.came_with_limit_milli.unwrap_or(self.limit_milli))
                    .filter(|limit| !limit.is_unlimited()),
                weight: self.came_with_weight,
            },
            nature: self.nature.unwrap_or_default(),
            request_rule: self.request_rule.unwrap_or_default(),
        }
    }
}

impl From<&WorkloadFacts> for WorkloadAdded {
    fn from(facts: &WorkloadFacts) -> Self {
        Self {
            uid: facts.uid.clone(),
            family: facts.family.clone(),
            min_milli: facts.bounds.min(),
            max_milli: facts.bounds.max(),
            weight: Some(facts.weight),
            limit_milli: facts.limit,
            request_milli: facts.request,
            came_with_limit_milli: Some(facts.came_with.limit.unwrap_or(Millicores::UNLIMITED)),
            came_with_request_milli: facts.came_with.request,
            came_with_weight: facts.came_with.weight,
            nature: Some(facts.nature),
            request_rule: Some(facts.request_rule).filter(|rule| *rule != RequestRule::Kept),
        }
    }
}
