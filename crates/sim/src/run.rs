//! One node under one policy: time passes, pods run, the policy is asked, and everything is
//! counted.
//!
//! The same scenario and seed give every policy the same demand. Nothing here decides: the machine
//! says who runs, the policy says what is set.

use walras_core::rng::Rng;
use walras_core::units::{Millicores, Moment, Span};

use crate::containers::Containers;
use crate::load::{Histogram, Load, LoadSpec};
use crate::machine::{Counters, Machine, PERIOD_MS, SLICE_MS, Want};
use crate::measure::PodTally;
use crate::policy::{Actuation, Policy, Setting, View};
use crate::scenario::Scenario;
use crate::target::slo_ms;

/// The least and the most time an API write takes to be in force.
const API_DELAY_MS: (u64, u64) = (160, 2000);

/// Looks on while a node runs; what a report is drawn from.
pub trait Watcher {
    /// A second has passed.
    fn second_passed(&mut self, second: u32, pods: &[PodMoment], price: Option<f64>);

    /// A slice has passed in which pods wanted and ran this, in core-milliseconds.
    fn slice_passed(&mut self, _wants: &[Want], _ran_core_ms: &[f64]) {}

    /// A CFS period has passed, and nothing was decided on it yet.
    fn period_passed(&mut self, _period: &Period<'_>) {}
}

/// What can be seen of a node at the end of a CFS period.
#[derive(Clone, Copy)]
pub struct Period<'a> {
    run: &'a NodeRun<'a>,
}

impl Period<'_> {
    /// What was set on a pod in this period; nothing where it does not run.
    #[must_use]
    pub fn setting(&self, place: usize) -> Option<&Setting> {
        self.run.pods[place].setting.as_ref()
    }

    /// What the kernel tells of a pod.
    #[must_use]
    pub fn counters(&self, place: usize) -> &Counters {
        self.run.machine.group(place).counters()
    }

    /// The CPU time that nobody used so far.
    #[must_use]
    pub fn idle(&self) -> Span {
        self.run.machine.idle_and_busy().0
    }
}

impl std::fmt::Debug for Period<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Period").field("idle", &self.idle()).finish_non_exhaustive()
    }
}

/// What can be seen of a pod in one second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PodMoment {
    /// What it was offered, in cores.
    pub offered_cores: f64,
    /// What it used since the last second, in cores.
    pub used_cores: f64,
    /// The limit in force, in cores; none where there is none or the pod does not run.
    pub limit_cores: Option<f64>,
    /// The request in force, in cores.
    pub request_cores: f64,
    /// Throttled periods so far.
    pub nr_throttled: u64,
}

/// Nobody looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watcher for Unwatched {
    fn second_passed(&mut self, _: u32, _: &[PodMoment], _: Option<f64>) {}
}

/// Runs one node of a scenario and says what became of its pods.
pub fn run_node(
    scenario: &Scenario,
    number: u32,
    policy: &mut dyn Policy,
    watcher: &mut dyn Watcher,
) -> Vec<PodTally> {
    let mut run = NodeRun::new(scenario, number);
    for period in 0..scenario.duration_s * (1000 / PERIOD_MS) {
        run.period(period, policy, watcher);
        watcher.period_passed(&Period { run: &run });
        run.account(period, policy, watcher);
    }
    run.end()
}

/// The random numbers of one pod on one node, whatever the policy.
pub(crate) fn pod_seed(scenario: &Scenario, number: u32, place: usize) -> u64 {
    let place = u64::try_from(place).unwrap_or(u64::MAX);
    let mut rng = Rng::from_seed(scenario.seed ^ (u64::from(number) << 32) ^ place);
    rng.next_u64()
}

struct NodeRun<'a> {
    scenario: &'a Scenario,
    machine: Machine,
    pods: Vec<PodRun>,
    /// What runs outside of all pods, in the group after theirs.
    system: Option<SystemRun>,
    rng: Rng,
    pending: Vec<Pending>,
    // Kept from period to period, so that a period allocates nothing.
    wants: Vec<Want>,
    got: Vec<f64>,
    counters: Vec<Counters>,
    running: Vec<bool>,
    missed: Vec<bool>,
    decided: Vec<(usize, Setting)>,
    moments: Vec<PodMoment>,
}

struct PodRun {
    load: Load,
    tally: PodTally,
    containers: Option<Containers>,
    setting: Option<Setting>,
    started_ms: f64,
    used_core_ms: f64,
    /// Whether it has something to run in this slice.
    awake: bool,
}

/// What runs outside of all pods.
struct SystemRun {
    load: Load,
    /// Stays empty, since nobody asks the system anything.
    latencies: Histogram,
}

/// A setting on its way to the kernel.
struct Pending {
    place: usize,
    setting: Setting,
    due: Moment,
}

impl<'a> NodeRun<'a> {
    fn new(scenario: &'a Scenario, number: u32) -> Self {
        let node_cores = cores(scenario.node.capacity);
        let mut pods: Vec<PodRun> = scenario
            .pods
            .iter()
            .enumerate()
            .map(|(place, pod)| {
                let seed = pod_seed(scenario, number, place);
                PodRun {
                    load: Load::new(pod.load.clone(), pod.startup, seed),
                    tally: PodTally::new(&pod.name, node_cores, slo_ms(scenario, place)),
                    containers: None,
                    setting: None,
                    started_ms: 0.0,
                    used_core_ms: 0.0,
                    awake: false,
                }
            })
            .collect();
        let count = pods.len();
        let system = scenario.node.system.as_ref().map(|system| {
            let load = LoadSpec::Usage { cores: system.cores.clone(), threads: node_cores };
            let load = Load::new(load, None, pod_seed(scenario, number, count));
            SystemRun { load, latencies: Histogram::default() }
        });
        let mut machine = Machine::new(node_cores, count + usize::from(system.is_some()));
        if let Some(system) = &scenario.node.system {
            machine.group_mut(count).set_weight(system.weight);
        }
        for (place, spec) in scenario.pods.iter().enumerate() {
            if let Some(cpus) = spec.cpus {
                machine.bind(place, cpus);
            }
            pods[place].containers = Containers::of(&mut machine, place, spec);
        }
        let groups = machine.len();
        Self {
            scenario,
            machine,
            pods,
            system,
            rng: Rng::from_seed(scenario.seed ^ u64::from(number)),
            pending: Vec::new(),
            wants: vec![Want::default(); groups],
            got: vec![0.0; groups],
            counters: vec![Counters::default(); count],
            running: vec![false; count],
            missed: vec![false; count],
            decided: Vec::new(),
            moments: Vec::with_capacity(count),
        }
    }

    /// Lets one CFS period pass.
    fn period(&mut self, period: u32, policy: &mut dyn Policy, watcher: &mut dyn Watcher) {
        let begins_ms = f64::from(period) * f64::from(PERIOD_MS);
        let now = Moment::from_ms(u64::from(period) * u64::from(PERIOD_MS));
        self.start_and_stop(begins_ms, now, policy);
        self.carry_out(now, policy);
        for slice in 0..PERIOD_MS / SLICE_MS {
            let at_ms = begins_ms + f64::from(slice * SLICE_MS);
            self.want(at_ms);
            self.machine.run_slice(&self.wants, &mut self.got);
            self.run(at_ms);
            watcher.slice_passed(&self.wants, &self.got);
        }
    }

    /// What everybody wants in the slice that begins at `at_ms`.
    fn want(&mut self, at_ms: f64) {
        for (place, pod) in self.pods.iter_mut().enumerate() {
            let want = match pod.setting {
                Some(_) => pod.load.want(at_ms - pod.started_ms),
                None => Want::default(),
            };
            pod.awake = want.work_core_ms > 0.0;
            match &pod.containers {
                None => self.wants[place] = want,
                Some(containers) => containers.want(want, &self.machine, &mut self.wants),
            }
        }
        if let Some(system) = &mut self.system {
            self.wants[self.pods.len()] = system.load.want(at_ms);
        }
    }

    /// Lets everybody run what it got in the slice that began at `at_ms`.
    fn run(&mut self, at_ms: f64) {
        // What wants nothing, as what is not there does, has nothing to run.
        for (place, pod) in self.pods.iter_mut().enumerate().filter(|(_, pod)| pod.awake) {
            let (cores, at_ms) = (self.machine.cores_of(place), at_ms - pod.started_ms);
            let latencies = pod.tally.minute_mut();
            match &pod.containers {
                None => {
                    let got = self.got[place];
                    let ran = pod.load.run(at_ms, got, cores, latencies);
                    self.machine.gave_back(place, got - ran);
                    self.got[place] = ran;
                }
                Some(containers) => {
                    let ran = pod.load.run(at_ms, containers.got(&self.got), cores, latencies);
                    containers.ran(ran, &mut self.machine, &self.got);
                }
            }
        }
        if let Some(system) = &mut self.system {
            let (got, cores) = (self.got[self.pods.len()], self.machine.cores());
            system.load.run(at_ms, got, cores, &mut system.latencies);
        }
    }

    /// Counts the period, asks the policy, and tells the watcher.
    fn account(&mut self, period: u32, policy: &mut dyn Policy, watcher: &mut dyn Watcher) {
        let per_second = 1000 / PERIOD_MS;
        let passed = period + 1;
        for (place, pod) in self.pods.iter_mut().enumerate() {
            self.counters[place] = match &mut pod.containers {
                None => *self.machine.group(place).counters(),
                Some(containers) => containers.period_passed(&self.machine),
            };
            let Some(setting) = &pod.setting else {
                continue;
            };
            pod.tally.period_passed(setting);
            if let Some(memory) = &self.scenario.pods[place].memory {
                pod.tally.memory_seen(memory.in_use_mib(pod.load.in_progress()));
            }
            if passed.is_multiple_of(per_second) {
                pod.tally.second_passed(pod.load.offered_cores(), setting);
            }
            if passed.is_multiple_of(60 * per_second) {
                pod.close_minute();
                let spec = &self.scenario.pods[place];
                self.missed[place] =
                    spec.managed && spec.slo_known && pod.tally.missed_last_minute();
            }
        }
        let now = Moment::from_ms(u64::from(passed) * u64::from(PERIOD_MS));
        let (idle, busy) = self.machine.idle_and_busy();
        let view = View {
            counters: &self.counters,
            running: &self.running,
            latency_missed: &self.missed,
            idle,
            busy,
        };
        self.decided.clear();
        policy.period_passed(now, &view, &mut self.decided);
        self.send(policy.actuation(), now);
        if passed.is_multiple_of(per_second) {
            self.tell(passed / per_second, policy.price(), watcher);
        }
    }

    fn start_and_stop(&mut self, begins_ms: f64, now: Moment, policy: &mut dyn Policy) {
        for (place, spec) in self.scenario.pods.iter().enumerate() {
            let pod = &mut self.pods[place];
            let over = spec.stop_s.is_some_and(|stop_s| begins_ms >= stop_s * 1000.0);
            if pod.setting.is_none() && !over && begins_ms >= spec.start_s * 1000.0 {
                let setting = if spec.managed {
                    policy.pod_started(place, spec, now)
                } else {
                    Setting::declared(spec)
                };
                pod.setting = Some(setting);
                pod.started_ms = begins_ms;
                self.running[place] = spec.managed;
                apply(&mut self.machine, place, pod, &setting);
            } else if pod.setting.is_some() && over {
                pod.setting = None;
                self.running[place] = false;
                self.pending.retain(|pending| pending.place != place);
                if spec.managed {
                    policy.pod_stopped(place, now);
                }
            }
        }
    }

    /// Sends what was decided on its way.
    fn send(&mut self, actuation: Actuation, now: Moment) {
        for &(place, setting) in &self.decided {
            let delay_ms = match actuation {
                Actuation::Cgroup => 0,
                Actuation::Api => {
                    let (least, most) = API_DELAY_MS;
                    least + self.rng.below(most - least)
                }
            };
            // A newer decision overtakes an older one that has not arrived yet.
            self.pending.retain(|pending| pending.place != place);
            let due = now + Span::from_ms(delay_ms);
            self.pending.push(Pending { place, setting, due });
        }
    }

    fn carry_out(&mut self, now: Moment, policy: &mut dyn Policy) {
        let (machine, pods) = (&mut self.machine, &mut self.pods);
        self.pending.retain(|pending| {
            if pending.due > now {
                return true;
            }
            let pod = &mut pods[pending.place];
            if let Some(in_force) = &mut pod.setting {
                let resized = in_force.limit != pending.setting.limit
                    || in_force.request != pending.setting.request;
                if resized {
                    pod.tally.resized();
                }
                if *in_force != pending.setting {
                    *in_force = pending.setting;
                    apply(machine, pending.place, pod, &pending.setting);
                }
                policy.took_effect(pending.place, &pending.setting, now);
            }
            false
        });
    }

    fn tell(&mut self, second: u32, price: Option<f64>, watcher: &mut dyn Watcher) {
        self.moments.clear();
        for (pod, counters) in self.pods.iter_mut().zip(&self.counters) {
            let used_core_ms = counters.usage_core_ms - pod.used_core_ms;
            pod.used_core_ms = counters.usage_core_ms;
            let request = pod.setting.map_or(Millicores::ZERO, |setting| setting.request);
            self.moments.push(PodMoment {
                offered_cores: pod.load.offered_cores(),
                used_cores: used_core_ms / 1000.0,
                limit_cores: pod.setting.and_then(|setting| setting.limit).map(cores),
                request_cores: cores(request),
                nr_throttled: counters.nr_throttled,
            });
        }
        watcher.second_passed(second, &self.moments, price);
    }

    fn end(mut self) -> Vec<PodTally> {
        for (place, pod) in self.pods.iter_mut().enumerate() {
            pod.tally.ended(&self.counters[place], &pod.load);
        }
        self.pods.into_iter().map(|pod| pod.tally).collect()
    }
}

impl PodRun {
    fn close_minute(&mut self) {
        if !self.tally.answered() && self.load.is_service() && self.load.has_work() {
            self.tally.minute_passed_without_answer();
        } else {
            self.tally.minute_passed();
        }
    }
}

fn apply(machine: &mut Machine, place: usize, pod: &PodRun, setting: &Setting) {
    let group = machine.group_mut(place);
    group.set_limit(setting.limit, setting.burst);
    group.set_weight(setting.weight);
    if let Some(containers) = &pod.containers {
        containers.set(setting, machine);
    }
}

/// Millicores as cores.
#[expect(clippy::cast_precision_loss, reason = "no machine has 2^53 millicores")]
pub(crate) fn cores(amount: Millicores) -> f64 {
    amount.get() as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Shape;
    use crate::machine::CpuSet;
    use crate::policy::declared;
    use crate::scenario::{ContainerSpec, NodeSpec, PodSpec, Suite, SystemSpec};

    /// A policy that knows pods by what it was told, and sets 100m for each of them all the time.
    #[derive(Default)]
    struct Strict {
        started: Vec<usize>,
        stopped: Vec<usize>,
        idle: Span,
        busy: Span,
    }

    const STRICT: Setting = Setting {
        limit: Some(Millicores::new(100)),
        request: Millicores::new(100),
        weight: 100,
        burst: Millicores::ZERO,
    };

    impl Policy for Strict {
        fn pod_started(&mut self, place: usize, _: &PodSpec, _: Moment) -> Setting {
            self.started.push(place);
            STRICT
        }

        fn pod_stopped(&mut self, place: usize, _: Moment) {
            self.stopped.push(place);
        }

        fn period_passed(
            &mut self,
            _: Moment,
            view: &View<'_>,
            settings: &mut Vec<(usize, Setting)>,
        ) {
            let running = view.running.iter().enumerate().filter(|(_, running)| **running);
            settings.extend(running.map(|(place, _)| (place, STRICT)));
            (self.idle, self.busy) = (view.idle, view.busy);
        }

        fn actuation(&self) -> Actuation {
            Actuation::Cgroup
        }
    }

    fn endless(name: &str, request: u64, limit: u64) -> PodSpec {
        let load = LoadSpec::Batch { work_core_s: None, threads: 4.0, every_s: None };
        let limit = Some(Millicores::new(limit));
        PodSpec { limit, ..PodSpec::new(name, load, Millicores::new(request)) }
    }

    /// Ten seconds of a node of four cores.
    fn ten_seconds(node: NodeSpec, pods: Vec<PodSpec>) -> Scenario {
        Scenario {
            name: "test".to_owned(),
            about: String::new(),
            suite: Suite::Other,
            seed: 1,
            duration_s: 10,
            node,
            nodes: 1,
            pods,
        }
    }

    /// What each pod used, in core-seconds to a tenth.
    fn used(scenario: &Scenario, policy: &mut dyn Policy) -> Vec<f64> {
        let pods = run_node(scenario, 0, policy, &mut Unwatched);
        pods.iter().map(|pod| (pod.used_core_hours() * 36_000.0).round() / 10.0).collect()
    }

    fn four_cores() -> NodeSpec {
        NodeSpec::new(Millicores::from_cores(4))
    }

    #[test]
    fn a_pod_that_is_not_to_be_sized_keeps_what_was_declared_whatever_the_policy() {
        let neighbour = PodSpec { managed: false, ..endless("neighbour", 1000, 2500) };
        let leaver = PodSpec { stop_s: Some(5.0), ..neighbour.clone() };
        let pods = vec![leaver, endless("ours", 1000, 4000), neighbour];
        let mut policy = Strict::default();
        let used = used(&ten_seconds(four_cores(), pods), &mut policy);
        // Ours has 100m. For five seconds the other two share what is left.
        assert_eq!(used, [9.8, 1.0, 22.3]);
        assert_eq!((policy.started.as_slice(), policy.stopped.as_slice()), (&[1][..], &[][..]));
        // The node is as busy as all of them together make it.
        let ms = |span: Span| (span.as_us() + 500) / 1000;
        assert_eq!((ms(policy.idle), ms(policy.busy)), (7000, 33_000));
    }

    fn container(name: &str, share: f64, limit: u64) -> ContainerSpec {
        let limit = Some(Millicores::new(limit));
        ContainerSpec { name: name.to_owned(), share, limit, weight: 100 }
    }

    #[test]
    fn the_container_that_is_held_back_holds_up_its_pod_and_is_what_is_told_of_it() {
        // The proxy has a tenth of the pod's limit and a fifth of its work.
        let containers = vec![container("app", 4.0, 1800), container("proxy", 1.0, 200)];
        let pod = PodSpec { containers, ..endless("pod", 500, 2000) };
        let scenario = ten_seconds(four_cores(), vec![pod]);
        let mut policy = declared(&scenario.node, &scenario.pods);
        let pods = run_node(&scenario, 0, &mut *policy, &mut Unwatched);
        assert!((pods[0].used_core_hours() * 3600.0 - 10.0).abs() < 0.01, "five times 200m");
        assert_eq!((pods[0].throttled(), pods[0].periods()), (100.0, 100.0));
        // Another limit of the pod is divided as the declared one was.
        assert_eq!(used(&scenario, &mut Strict::default()), [0.5]);
    }

    #[test]
    fn a_pod_that_is_bound_to_cpus_leaves_the_others_to_its_neighbours() {
        let cpus = CpuSet::of([0]);
        let pods = vec![PodSpec { cpus, ..endless("a", 1000, 4000) }, endless("b", 10, 4000)];
        let scenario = ten_seconds(four_cores(), pods);
        let mut policy = declared(&scenario.node, &scenario.pods);
        assert_eq!(used(&scenario, &mut *policy), [10.0, 30.0]);
    }

    #[test]
    fn what_runs_outside_of_all_pods_takes_its_share_by_weight_and_makes_the_node_busy() {
        // A request of one core has a weight of 39.
        let system = |weight| SystemSpec { cores: Shape::Constant { level: 3.0 }, weight };
        for (weight, expected) in [(39, 20.0), (13, 30.0), (10_000, 10.0)] {
            let node = NodeSpec { system: Some(system(weight)), ..four_cores() };
            let scenario = ten_seconds(node, vec![endless("pod", 1000, 4000)]);
            let mut policy = declared(&scenario.node, &scenario.pods);
            let used = used(&scenario, &mut *policy);
            assert!((used[0] - expected).abs() < 0.2, "weight {weight}: {used:?}");
        }
    }
}
