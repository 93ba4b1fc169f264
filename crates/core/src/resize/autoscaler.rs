//! Others who size pods or go by what they request, and what that leaves for us to do.

use alloc::string::String;

use super::{PodView, QosClass, Rules, SkipReason};

/// An autoscaler that sizes a pod or goes by what it requests, with the name of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Autoscaler {
    /// A VerticalPodAutoscaler sets its requests. Two who set the same undo each other, so the pod
    /// is left alone.
    Vertical(String),
    /// A HorizontalPodAutoscaler goes by use over request. A request that follows use would hide
    /// from it whether there is too much to do, so requests are left alone.
    Utilization(String),
}

/// A pod of this class may be resized, and its autoscaler leaves something to do.
pub(super) fn check_class(pod: &PodView, rules: &Rules) -> Result<(), SkipReason> {
    if let Some(Autoscaler::Vertical(name)) = &pod.autoscaler {
        return Err(SkipReason::VerticalAutoscaler { name: name.clone() });
    }
    match (pod.qos, &pod.autoscaler) {
        (QosClass::Guaranteed, _) if !rules.manage_guaranteed => Err(SkipReason::GuaranteedQos),
        (QosClass::BestEffort, _) => Err(SkipReason::BestEffortQos),
        // Its limit is its request.
        (QosClass::Guaranteed, Some(Autoscaler::Utilization(name))) => {
            Err(SkipReason::HorizontalAutoscaler { name: name.clone() })
        }
        (QosClass::Guaranteed | QosClass::Burstable, _) => Ok(()),
    }
}
