//! Why a plan is what it is: closed lists, each entry with a stable code and a sentence for people.
//!
//! The codes are what status conditions, events and metrics carry, so they never change; the
//! sentences may. Every sentence names the values that decided.

use alloc::string::String;
use core::fmt;

use super::{Allocation, CONTAINER_LIMIT_MIN, Phase, UNLIMITED};
use crate::units::{Millicores, Span};

/// Why nothing is done about an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The owner asked that the pod be left alone.
    Excluded,
    /// The pod cannot be resized in the state it is in.
    InvalidPodState(PodFault),
    /// A VerticalPodAutoscaler sizes the pod.
    VerticalAutoscaler {
        /// Its name.
        name: String,
    },
    /// The pod is Guaranteed, and a HorizontalPodAutoscaler goes by its request, which is its
    /// limit.
    HorizontalAutoscaler {
        /// Its name.
        name: String,
    },
    /// The pod is Guaranteed and the rules leave those alone.
    GuaranteedQos,
    /// The pod is BestEffort, and would have to change class to gain any CPU.
    BestEffortQos,
    /// The allocation makes no sense.
    InvalidDesiredCpu {
        /// The allocation.
        allocation: Allocation,
        /// What is wrong with it.
        fault: DesiredFault,
    },
    /// The limit is not enough for a millicore per container.
    NoRoomInContainers {
        /// The desired limit of the pod.
        limit: Millicores,
        /// How many containers share it.
        containers: usize,
    },
    /// The node has said that it can never satisfy this.
    Infeasible {
        /// The request that was desired.
        desired: Millicores,
        /// The smallest request the node has refused.
        refused: Millicores,
    },
    /// Nothing may be changed: what the pod should have is for people to read.
    RecommendOnly,
    /// The pod was to get back what it came with, and has it.
    Restored,
    /// Every container has what it should have.
    AlreadyApplied {
        /// What the pod has.
        allocation: Allocation,
    },
}

/// Why a pod cannot be resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodFault {
    /// Its deletion has begun.
    Deleting,
    /// It comes from a file on the node.
    Static,
    /// It is in some other phase.
    NotRunning(Phase),
    /// It has no containers.
    NoContainers,
}

/// What is wrong with an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DesiredFault {
    /// The limit is zero, which Kubernetes would read as no limit.
    NoLimit,
    /// The request or the limit is above [`Millicores::LIMIT`].
    TooLarge,
    /// The request is above the limit.
    RequestAboveLimit,
}

/// Why an allocation must wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// The last patch is too recent.
    RateLimited {
        /// How long ago it was applied.
        waited: Span,
        /// How long it should be.
        cooldown: Span,
    },
    /// The limit would grow by too large a factor.
    StepSizeExceeded {
        /// The pod's limit today.
        current: Millicores,
        /// The limit that is desired.
        desired: Millicores,
        /// The largest limit that one step reaches.
        reach: Millicores,
    },
    /// The limit would change by too much.
    DeltaExceeded {
        /// The pod's limit today.
        current: Millicores,
        /// The limit that is desired.
        desired: Millicores,
        /// The most it may change in one step.
        change_max: Millicores,
    },
}

/// What a person may want to know about a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The request was set to the limit, to keep the pod Guaranteed.
    KeptGuaranteed {
        /// The request that was desired.
        desired: Millicores,
        /// The request in the patch.
        request: Millicores,
    },
    /// Requests stay as they are, because a HorizontalPodAutoscaler goes by them.
    RequestsLeftAlone {
        /// Its name.
        autoscaler: String,
    },
    /// Containers without a limit are given one.
    LimitsAdded {
        /// How many.
        containers: usize,
    },
    /// The limit is not enough for the usual minimum per container.
    BelowContainerMinimum {
        /// The desired limit of the pod.
        limit: Millicores,
        /// How many containers share it.
        containers: usize,
    },
    /// Containers came without a limit, which cannot be taken away again.
    LimitsOutOfReach {
        /// How many.
        containers: usize,
    },
    /// A request was lowered, to keep the pod from becoming Guaranteed.
    KeptBurstable {
        /// The container whose request it is.
        container: String,
        /// Its request in the patch.
        request: Millicores,
    },
}

// === impl SkipReason ===

impl SkipReason {
    /// The code a program matches on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Excluded => "Excluded",
            Self::InvalidPodState(_) => "InvalidPodState",
            Self::VerticalAutoscaler { .. } => "VerticalPodAutoscaler",
            Self::HorizontalAutoscaler { .. } => "HorizontalPodAutoscaler",
            Self::GuaranteedQos => "GuaranteedQoS",
            Self::BestEffortQos => "BestEffortQoS",
            Self::InvalidDesiredCpu { .. } => "InvalidDesiredCPU",
            Self::NoRoomInContainers { .. } => "NoRoomInContainers",
            Self::Infeasible { .. } => "Infeasible",
            Self::RecommendOnly => "RecommendOnly",
            Self::Restored => "Restored",
            Self::AlreadyApplied { .. } => "AlreadyApplied",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Excluded => write!(f, "The pod is excluded from resizing by its owner."),
            Self::InvalidPodState(fault) => write!(f, "{fault}"),
            Self::VerticalAutoscaler { name } => write!(
                f,
                "The VerticalPodAutoscaler {name} sizes the pod, and two who do would undo each \
                 other."
            ),
            Self::HorizontalAutoscaler { name } => write!(
                f,
                "The pod is Guaranteed, so its limit is its request, and the \
                 HorizontalPodAutoscaler {name} goes by use over request."
            ),
            Self::GuaranteedQos => {
                write!(f, "The pod is Guaranteed, and Guaranteed pods are not managed.")
            }
            Self::BestEffortQos => write!(
                f,
                "The pod is BestEffort: it has no requests or limits, and none can be added while \
                 it lives."
            ),
            Self::InvalidDesiredCpu { allocation: Allocation { request, limit }, fault } => {
                write!(f, "The desired request {request} and limit {limit} make no sense: {fault}.")
            }
            Self::NoRoomInContainers { limit, containers } => write!(
                f,
                "The desired limit {limit} is too small to be split among {containers} containers."
            ),
            Self::Infeasible { desired, refused } => write!(
                f,
                "The desired request is {desired}, and the node has refused {refused} as more than \
                 it can ever give."
            ),
            Self::RecommendOnly => write!(
                f,
                "The mode is off: this is what the pod should have, and nothing is changed."
            ),
            Self::Restored => {
                write!(f, "The pod has what it came with, and is left alone in this mode.")
            }
            Self::AlreadyApplied { allocation: Allocation { request, limit } } => {
                write!(f, "The pod already has the request {request} and the limit {limit}.")
            }
        }
    }
}

// === impl PodFault, DesiredFault ===

impl fmt::Display for PodFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleting => write!(f, "The pod is being deleted."),
            Self::Static => write!(
                f,
                "The pod is static: it comes from a file on its node, and only that can change it."
            ),
            Self::NotRunning(phase) => {
                write!(f, "The pod is {}, and only Running pods are resized.", phase.name())
            }
            Self::NoContainers => write!(f, "The pod has no containers."),
        }
    }
}

impl fmt::Display for DesiredFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLimit => write!(f, "a limit of zero would mean no limit at all"),
            Self::TooLarge => write!(f, "no machine has more than {}", Millicores::LIMIT),
            Self::RequestAboveLimit => write!(f, "a request cannot be above its limit"),
        }
    }
}

// === impl HoldReason ===

impl HoldReason {
    /// The code a program matches on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::RateLimited { .. } => "RateLimited",
            Self::StepSizeExceeded { .. } => "StepSizeExceeded",
            Self::DeltaExceeded { .. } => "DeltaExceeded",
        }
    }
}

impl fmt::Display for HoldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RateLimited { waited, cooldown } => write!(
                f,
                "The pod was resized {waited} ago, and resizes are at least {cooldown} apart."
            ),
            Self::StepSizeExceeded { current, desired, reach } => write!(
                f,
                "The limit would grow from {current} to {desired}, and one step reaches at most \
                 {reach}."
            ),
            Self::DeltaExceeded { current, desired, change_max } => write!(
                f,
                "The limit would go from {current} to {desired}, which is {} away, and one step \
                 covers at most {change_max}.",
                current.abs_diff(*desired)
            ),
        }
    }
}

// === impl Note ===

impl Note {
    /// The code a program matches on.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::KeptGuaranteed { .. } => "KeptGuaranteed",
            Self::RequestsLeftAlone { .. } => "RequestsLeftAlone",
            Self::LimitsAdded { .. } => "LimitsAdded",
            Self::BelowContainerMinimum { .. } => "BelowContainerMinimum",
            Self::LimitsOutOfReach { .. } => "LimitsOutOfReach",
            Self::KeptBurstable { .. } => "KeptBurstable",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeptGuaranteed { desired, request } => write!(
                f,
                "The request becomes {request} instead of {desired}, equal to the limit, so that \
                 the pod stays Guaranteed."
            ),
            Self::RequestsLeftAlone { autoscaler } => write!(
                f,
                "Requests stay as they are: the HorizontalPodAutoscaler {autoscaler} goes by use \
                 over request."
            ),
            Self::LimitsAdded { containers } => write!(
                f,
                "Limits are set where there were none ({containers} of the containers), and cannot \
                 be removed while the pod lives."
            ),
            Self::BelowContainerMinimum { limit, containers } => write!(
                f,
                "The limit {limit} leaves less than {CONTAINER_LIMIT_MIN} per container (there are \
                 {containers}), and a node rounds a smaller limit up to that."
            ),
            Self::LimitsOutOfReach { containers } => write!(
                f,
                "Limits cannot be removed while a pod lives; where there was none ({containers} of \
                 the containers), it becomes {UNLIMITED}, which no node has."
            ),
            Self::KeptBurstable { container, request } => write!(
                f,
                "The request of {container} is lowered by 1m to {request}, so that the pod stays \
                 Burstable."
            ),
        }
    }
}

// === impl Phase ===

impl Phase {
    const fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }
}
