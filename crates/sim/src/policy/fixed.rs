//! Policies that decide once: limits as declared, no limits, no limits with weights, and an even
//! split.

use walras_core::units::{Millicores, Moment};

use super::{Actuation, Policy, Setting, View};
use crate::scenario::{NodeSpec, PodSpec};

/// The kernel's weight of a group that nobody weighed.
const DEFAULT_WEIGHT: u32 = 100;

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Requests and limits as declared; weights from requests, as Kubernetes has it.
    Declared,
    /// No limits, everybody the same.
    Unlimited,
    /// No limits, weights from requests: the advice to "just drop the limits".
    Weighed,
    /// Everybody a limit of the same size, adding up to capacity.
    Even,
}

/// A policy that decides when a pod starts, and never again.
#[derive(Clone, Debug)]
struct Fixed {
    rule: Rule,
    even_share: Millicores,
}

/// `static`: limits as given.
pub fn declared(node: &NodeSpec, pods: &[PodSpec]) -> Box<dyn Policy> {
    Fixed::boxed(Rule::Declared, node, pods)
}

/// `none`: no limits, equal weights.
pub fn unlimited(node: &NodeSpec, pods: &[PodSpec]) -> Box<dyn Policy> {
    Fixed::boxed(Rule::Unlimited, node, pods)
}

/// `weights`: no limits, the kernel's weights from requests.
pub fn weighed(node: &NodeSpec, pods: &[PodSpec]) -> Box<dyn Policy> {
    Fixed::boxed(Rule::Weighed, node, pods)
}

/// `even`: the node split evenly.
pub fn even(node: &NodeSpec, pods: &[PodSpec]) -> Box<dyn Policy> {
    Fixed::boxed(Rule::Even, node, pods)
}

impl Fixed {
    fn boxed(rule: Rule, node: &NodeSpec, pods: &[PodSpec]) -> Box<dyn Policy> {
        let count = pods.iter().filter(|pod| pod.managed).count();
        let count = u64::try_from(count).unwrap_or(u64::MAX).max(1);
        let even_share = Millicores::new(node.capacity.get() / count);
        Box::new(Self { rule, even_share })
    }
}

impl Policy for Fixed {
    fn pod_started(&mut self, _: usize, pod: &PodSpec, _: Moment) -> Setting {
        let declared = Setting::declared(pod);
        match self.rule {
            Rule::Declared => declared,
            Rule::Unlimited => Setting { limit: None, weight: DEFAULT_WEIGHT, ..declared },
            Rule::Weighed => Setting { limit: None, ..declared },
            Rule::Even => Setting {
                limit: Some(self.even_share),
                request: self.even_share,
                weight: DEFAULT_WEIGHT,
                ..declared
            },
        }
    }

    fn pod_stopped(&mut self, _: usize, _: Moment) {}

    fn period_passed(&mut self, _: Moment, _: &View<'_>, _: &mut Vec<(usize, Setting)>) {}

    fn actuation(&self) -> Actuation {
        Actuation::Cgroup
    }
}
