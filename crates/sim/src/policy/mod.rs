//! What decides over limits, requests and weights in a simulated node: the market, and what people
//! use instead of it.
//!
//! A policy sees what its original could see: pods as they were declared, and counters. It is asked
//! once per CFS period and acts when its own loops say so. What it sets takes effect after the
//! delay of the way it acts.

mod fixed;
mod market;
mod rivals;

use walras_core::smooth::weight::KernelWeight;
use walras_core::units::{Millicores, Moment, Span};

use crate::machine::Counters;
use crate::scenario::{NodeSpec, PodSpec};

pub use fixed::{declared, even, unlimited, weighed};
pub use market::Market;
pub use rivals::{
    AUTOTHROTTLE_TARGETS, Autothrottle, AutothrottleSettings, Classes, CruiseKube,
    CruiseKubeSettings, Koordinator, KoordinatorSettings, Mbcas, MbcasSettings, Vpa, VpaSettings,
    autothrottle_at, cruisekube, koordinator, koordinator_with_best_effort, mbcas, vpa,
};

/// What is set on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The cap; none where the pod may use what it gets.
    pub limit: Option<Millicores>,
    /// The guarantee, which is what packing pays for.
    pub request: Millicores,
    /// The kernel's weight, in cgroup v2's scale.
    pub weight: u32,
    /// The burst buffer.
    pub burst: Millicores,
}

impl Setting {
    /// A pod as its owner declared it, and as Kubernetes sets it up.
    #[must_use]
    pub fn declared(pod: &PodSpec) -> Self {
        Self {
            limit: pod.limit,
            request: pod.request,
            weight: weight_from_request(pod.request),
            burst: Millicores::ZERO,
        }
    }
}

/// How a policy's decisions reach the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actuation {
    /// By a cgroup write: in force at once.
    Cgroup,
    /// By a call to the Kubernetes API: in force after 0.16 to 2 s.
    Api,
}

/// What a policy can see of the pods, by their place in the scenario.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What the kernel tells of each pod, also of those that are not to be sized.
    pub counters: &'a [Counters],
    /// Which of them are running and to be sized.
    pub running: &'a [bool],
    /// Which of them missed their latency target in the last minute.
    pub latency_missed: &'a [bool],
    /// The CPU time that nobody used so far, on all of the node's CPUs together.
    pub idle: Span,
    /// The CPU time that somebody used so far.
    pub busy: Span,
}

/// What decides.
pub trait Policy {
    /// What a pod gets when it starts. Not asked for pods that are not to be sized.
    fn pod_started(&mut self, place: usize, pod: &PodSpec, now: Moment) -> Setting;

    /// A pod is gone.
    fn pod_stopped(&mut self, place: usize, now: Moment);

    /// What was decided for a pod is in force now. Only told to whoever asks the kernel or the API
    /// server for it, as daemons do.
    fn took_effect(&mut self, _place: usize, _setting: &Setting, _now: Moment) {}

    /// A CFS period has passed; what is to be set goes to `settings`.
    fn period_passed(&mut self, now: Moment, view: &View<'_>, settings: &mut Vec<(usize, Setting)>);

    /// How its decisions reach the kernel.
    fn actuation(&self) -> Actuation;

    /// The price of CPU, for those that have one.
    fn price(&self) -> Option<f64> {
        None
    }
}

/// Makes a policy for one node. The same factory serves many nodes, on several threads.
pub type Factory = fn(&NodeSpec, &[PodSpec]) -> Box<dyn Policy>;

/// The kernel's weight as Kubernetes derives it from a request.
fn weight_from_request(request: Millicores) -> u32 {
    KernelWeight::from_request(request).get()
}
