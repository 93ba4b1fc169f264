//! Requests that follow what families use, on a whole node: days pass in ticks of five minutes.

use std::collections::BTreeMap;

use walras_core::claim::{CameWith, Nature};
use walras_core::demand::Sample;
use walras_core::need::Bounds;
use walras_core::node::{
    Action, Allocatable, MachineSample, Node, Note, Outcome, RequestReport, Why, WorkloadFacts,
};
use walras_core::profile::Profile;
use walras_core::request::{RequestRule, RequestWhy};
use walras_core::smooth::weight::KernelWeight;
use walras_core::units::{FamilyKey, Millicores, Moment, Span, Weight, WorkloadUid};

const DAY: u64 = 288;
const WEEK: u64 = 7 * DAY;
const NODE: Millicores = Millicores::new(4000);

/// A node of 4 cores with workloads whose use is said, and nobody else.
struct Town {
    node: Node,
    workloads: BTreeMap<&'static str, Load>,
    machine: MachineSample,
    now: Moment,
    notes: Vec<Note>,
    /// When a request moved, in windows, whose, to what and why.
    moved: Vec<(u64, String, u64, Why)>,
}

/// What a workload does.
struct Load {
    used: u64,
    /// What of the time it waits for a CPU, in percent.
    waits: u64,
    counters: Sample,
}

impl Town {
    fn new(profile: Profile) -> Self {
        let mut node = Node::new(Millicores::new(3600), profile);
        node.allocatable_changed(Allocatable { size: NODE, set_aside: Millicores::ZERO });
        let machine = MachineSample::default();
        let (workloads, notes, moved) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { node, workloads, machine, now: Moment::ORIGIN, notes, moved }
    }

    /// A workload with this request comes, which uses this.
    fn comes(&mut self, name: &'static str, request: u64, used: u64) {
        self.comes_with(facts(name, request), name, used);
    }

    fn comes_with(&mut self, facts: WorkloadFacts, name: &'static str, used: u64) {
        let counters = Sample { at: self.now, stalled: Some(Span::ZERO), ..Sample::default() };
        self.workloads.insert(name, Load { used, waits: 0, counters });
        self.node.workload_added(facts, self.now);
        self.node.sampled(&WorkloadUid::new(name), counters);
    }

    fn uses(&mut self, name: &str, used: u64) {
        self.workloads.get_mut(name).expect("it came").used = used;
    }

    /// So many windows of five minutes pass.
    fn pass(&mut self, windows: u64) {
        for _ in 0..windows {
            let step = Span::from_s(300);
            self.now = self.now + step;
            let mut busy = 0;
            for (name, load) in &mut self.workloads {
                let Sample { usage, stalled, .. } = load.counters;
                busy += load.used;
                load.counters.at = self.now;
                load.counters.usage = Span::from_us(usage.as_us() + load.used * 300_000);
                load.counters.stalled =
                    stalled.map(|stalled| Span::from_us(stalled.as_us() + load.waits * 3_000_000));
                self.node.sampled(&WorkloadUid::new(name), load.counters);
            }
            let idle = NODE.get().saturating_sub(busy);
            let more = |span: Span, milli: u64| Span::from_us(span.as_us() + milli * 300_000);
            let MachineSample { idle: idle_before, busy: busy_before, .. } = self.machine;
            self.machine = MachineSample {
                at: self.now,
                idle: more(idle_before, idle),
                busy: more(busy_before, busy),
            };
            self.node.machine_sampled(self.machine);
            let before: Vec<(WorkloadUid, Millicores)> = self
                .node
                .workloads()
                .map(|workload| (workload.uid.clone(), workload.in_force.request))
                .collect();
            let outcome = self.node.slow_tick(self.now);
            self.take_down(outcome, &before);
        }
    }

    fn take_down(&mut self, outcome: Outcome, before: &[(WorkloadUid, Millicores)]) {
        let window = self.now.since(Moment::ORIGIN).as_ms_floor() / 300_000;
        for Action { uid, request, why, .. } in outcome.actions {
            let had = before.iter().find(|(name, _)| *name == uid).map(|(_, had)| *had);
            if had != Some(request) {
                self.moved.push((window, uid.to_string(), request.get(), why));
            }
        }
        self.notes.extend(outcome.notes);
    }

    /// What each request became, one after the other.
    fn requests(&self) -> Vec<u64> {
        self.moved.iter().map(|(_, _, request, _)| *request).collect()
    }

    fn request(&self, name: &str) -> u64 {
        let mut workloads = self.node.workloads();
        workloads
            .find(|workload| workload.uid.as_str() == name)
            .expect("it came")
            .in_force
            .request
            .get()
    }

    fn report(&self, name: &str) -> RequestReport {
        let mut workloads = self.node.workloads();
        workloads.find(|workload| workload.uid.as_str() == name).expect("it came").request
    }
}

fn facts(name: &str, request: u64) -> WorkloadFacts {
    let (request, limit) = (Millicores::new(request), Millicores::new(4000));
    WorkloadFacts {
        uid: WorkloadUid::new(name),
        family: None,
        bounds: Bounds::new(request, NODE),
        weight: Weight::ONE,
        limit,
        request: Some(request),
        came_with: CameWith { request: Some(request), limit: Some(limit), weight: None },
        nature: Nature::Unknown,
        request_rule: RequestRule::Follows,
    }
}

#[test]
fn the_request_of_an_idle_workload_comes_down_over_a_week() {
    let mut town = Town::new(Profile::API);
    town.comes("web", 400, 50);
    town.pass(WEEK + DAY);
    // By at most a quarter at a time; half is kept for a week; 51m and 15 % are 59m, rounded up.
    assert_eq!(town.requests(), [300, 225, 200, 150, 113, 85, 64, 60]);
    let at: Vec<u64> = town.moved.iter().map(|(window, ..)| *window).collect();
    assert!(at[0] > DAY && at[0] <= DAY + 2, "after a day: {at:?}");
    assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= 12), "an hour apart: {at:?}");
    assert!(at[3] > WEEK && at[3] <= WEEK + 2, "below half after a week: {at:?}");
    let told = town.moved[0].3.to_string();
    let expected = "its request goes from 400m to 300m: it goes down to what the workload uses, by \
                    at most 25 % an hour";
    assert_eq!(told, expected);
    assert_eq!(town.report("web").why, Some(RequestWhy::Followed));
    // The kernel weighs it by its request, as Kubernetes does.
    let weight = town.node.workloads().next().unwrap().in_force.weight;
    assert_eq!(weight, Some(KernelWeight::from_request(Millicores::new(60))));
}

#[test]
fn a_request_that_was_lowered_comes_back_as_soon_as_more_is_used() {
    let mut town = Town::new(Profile::API);
    town.comes("web", 400, 50);
    town.pass(2 * DAY);
    assert_eq!(town.request("web"), 200);
    town.uses("web", 300);
    // A tenth of the windows of a day is what counts: at the latest when the next day began.
    town.pass(DAY + 2);
    assert_eq!(town.request("web"), 350, "300m are told as 303m, and 15 % more");
    let last = town.requests();
    assert_eq!(last[last.len() - 2..], [200, 350], "in one step");
}

#[test]
fn a_request_is_raised_above_what_it_came_with_while_there_is_room() {
    let mut town = Town::new(Profile::API);
    town.comes("a", 1000, 100);
    town.comes("b", 1000, 1100);
    town.pass(3);
    // 1100m are told as 1151m, and 15 % more are 1324m.
    assert_eq!(town.request("b"), 1330);
    let node = &mut town.node;
    node.allocatable_changed(Allocatable { size: NODE, set_aside: Millicores::new(1200) });
    town.comes("c", 100, 120);
    town.pass(3);
    // All of them request 3630m, and nine tenths are 3600m: nobody is raised, and whoever was
    // raised gives up what is too much, after an hour.
    assert_eq!(town.request("c"), 100);
    assert_eq!(town.report("c").why, Some(RequestWhy::NodeFull));
    assert_eq!(town.request("b"), 1330);
    town.pass(12);
    assert_eq!((town.request("b"), town.request("c")), (1300, 100));
}

#[test]
fn use_of_what_is_lent_does_not_count() {
    let mut town = Town::new(Profile::API);
    town.comes("owner", 3500, 100);
    town.comes("guest", 400, 1500);
    town.pass(3);
    // The rights leave 100m, and the guest uses 1100m above its own.
    assert_eq!(
        town.report("guest").suggested,
        Some(Millicores::new(478)),
        "no more than its right"
    );
    assert_eq!(town.request("guest"), 400);
}

#[test]
fn use_of_work_that_takes_what_it_can_get_does_not_count_above_its_right() {
    let mut town = Town::new(Profile::API);
    town.comes_with(WorkloadFacts { nature: Nature::Batch, ..facts("batch", 400) }, "batch", 1500);
    town.pass(3);
    assert_eq!(town.report("batch").suggested, Some(Millicores::new(478)));
    assert_eq!(town.report("batch").why, Some(RequestWhy::Elastic));
    assert_eq!(town.request("batch"), 400);
}

#[test]
fn who_waits_below_its_right_counts_as_using_what_it_waits_for() {
    let mut town = Town::new(Profile::API);
    town.comes("web", 400, 200);
    town.workloads.get_mut("web").unwrap().waits = 90;
    town.pass(DAY + 13);
    assert_eq!(town.requests(), [450], "380m are told as 383m, and 15 % more");
}

#[test]
fn nothing_is_lowered_while_the_node_itself_peaks() {
    let mut town = Town::new(Profile::API);
    town.comes("web", 400, 50);
    town.comes_with(
        WorkloadFacts { request_rule: RequestRule::Kept, ..facts("busy", 2000) },
        "busy",
        3600,
    );
    town.pass(2 * DAY);
    assert_eq!(town.requests(), [0; 0]);
    assert_eq!(town.report("web").why, Some(RequestWhy::NodeBusy));
    let stopped = |note: &&Note| matches!(note, Note::LoweringStopped { .. });
    let told: Vec<String> = town.notes.iter().filter(stopped).map(ToString::to_string).collect();
    let expected =
        "no request is lowered: the node's use peaks at 3650m, and 3600m would be fine".to_owned();
    assert_eq!(told, [expected], "once");
    town.uses("busy", 1000);
    town.pass(2 * DAY);
    assert!(town.request("web") < 400);
}

#[test]
fn requests_that_are_to_be_kept_are() {
    for (rule, why) in
        [(RequestRule::Kept, RequestWhy::Kept), (RequestRule::Scaled, RequestWhy::Scaled)]
    {
        let mut town = Town::new(Profile::API);
        town.comes_with(WorkloadFacts { request_rule: rule, ..facts("web", 400) }, "web", 50);
        town.pass(2 * DAY);
        assert_eq!(town.requests(), [0; 0], "{rule:?}");
        assert_eq!(town.report("web").why, Some(why));
        assert_eq!(town.node.records().count(), 0, "nobody asks for it");
    }
}

#[test]
fn the_documents_market_and_small_caps_know_nothing_of_it() {
    for profile in [Profile::SEED, Profile::TIGHT] {
        let outcomes = |rule| {
            let mut town = Town::new(profile.clone());
            town.comes_with(WorkloadFacts { request_rule: rule, ..facts("web", 400) }, "web", 50);
            town.pass(2 * DAY);
            (town.requests(), town.node.records().count())
        };
        assert_eq!(outcomes(RequestRule::Follows), outcomes(RequestRule::Kept));
    }
}

#[test]
fn workloads_of_one_family_share_what_is_known_of_it() {
    let mut town = Town::new(Profile::API);
    for (name, used) in [("web-1", 30), ("web-2", 200)] {
        let family = Some(FamilyKey::new("web"));
        town.comes_with(WorkloadFacts { family, ..facts(name, 400) }, name, used);
    }
    town.pass(2 * DAY);
    assert_eq!(town.node.records().count(), 1);
    assert_eq!((town.request("web-1"), town.request("web-2")), (240, 240), "for the larger one");
}

#[test]
fn what_was_seen_outlives_a_restart() {
    let mut town = Town::new(Profile::API);
    town.comes("web", 400, 50);
    town.pass(2 * DAY);
    let (lowered, record) = (town.request("web"), town.node.records().next().unwrap().1.clone());
    assert_eq!(lowered, 200);

    // What was saved may come after the workloads.
    let mut again = Town::new(Profile::API);
    let request = Some(Millicores::new(lowered));
    again.comes_with(WorkloadFacts { request, ..facts("web", 400) }, "web", 50);
    again.pass(2);
    again.node.use_restored(FamilyKey::new("web"), record.save().as_bytes());
    again.pass(DAY);
    assert_eq!(again.requests(), [0; 0], "it stays where it was");

    // Without it, nothing supports less than what it came with.
    let mut amnesiac = Town::new(Profile::API);
    amnesiac.comes_with(WorkloadFacts { request, ..facts("web", 400) }, "web", 50);
    amnesiac.node.use_restored(FamilyKey::new("web"), b"{\"version\":1,\"days\":[{}]}");
    amnesiac.pass(14);
    assert_eq!(amnesiac.requests(), [400]);
    let refused = |note: &&Note| matches!(note, Note::RecordRefused { .. });
    let told: Vec<String> =
        amnesiac.notes.iter().filter(refused).map(ToString::to_string).collect();
    assert_eq!(told.len(), 1);
    let expected = "web: what it used was refused, starts afresh: The saved record cannot be";
    assert!(told[0].starts_with(expected), "{told:?}");
}
