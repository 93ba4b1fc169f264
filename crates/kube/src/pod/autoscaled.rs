//! The annotation by which the controller tells the agent of a node who else sizes a pod.
//!
//! One controller watches autoscalers, so that not every node has to: what it found is on the pod,
//! which the agent sees anyway. A text that means nothing counts as none, and is overwritten.

use walras_core::resize::Autoscaler;

const VERTICAL: &str = "VerticalPodAutoscaler";
const HORIZONTAL: &str = "HorizontalPodAutoscaler";

/// What the annotation says for an autoscaler.
#[must_use]
pub fn mark_of(autoscaler: &Autoscaler) -> String {
    match autoscaler {
        Autoscaler::Vertical(name) => format!("{VERTICAL}/{name}"),
        Autoscaler::Utilization(name) => format!("{HORIZONTAL}/{name}"),
    }
}

/// Whom the annotation names.
#[must_use]
pub fn autoscaler_from(mark: &str) -> Option<Autoscaler> {
    match mark.split_once('/')? {
        (VERTICAL, name) => Some(Autoscaler::Vertical(name.to_owned())),
        (HORIZONTAL, name) => Some(Autoscaler::Utilization(name.to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_nothing_else_is() {
        for kind in [Autoscaler::Vertical, Autoscaler::Utilization] {
            let autoscaler = kind("web".to_owned());
            assert_eq!(autoscaler_from(&mark_of(&autoscaler)), Some(autoscaler));
        }
        for other in ["", "web", "VerticalPodAutoscaler", "Deployment/web"] {
            assert_eq!(autoscaler_from(other), None, "{other}");
        }
    }
}
