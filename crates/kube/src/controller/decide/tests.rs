//! A pod and its allocation in, what is done about them out.

use super::*;
use crate::crd::PodAllocation;
use crate::pod::Pod;
use serde_json::{Value, json};
use walras_core::profile::CapRule;

const NOW_MS: u64 = 1_800_000_000_000;
const NOW: Moment = Moment::from_ms(NOW_MS);

/// A pod and its allocation, as the API server has them, and what else is known.
struct Case {
    pod: Value,
    allocation: Value,
    settings: Settings,
    memory: Memory,
    autoscaler: Option<Autoscaler>,
    siblings: Option<u64>,
    acts_since: Moment,
    can_resize: bool,
}

impl Case {
    fn usual() -> Self {
        let cpu = json!({ "requests": { "cpu": "100m" }, "limits": { "cpu": "200m" } });
        Self {
            pod: json!({
                "metadata": { "name": "web", "namespace": "shop", "uid": "u1", "generation": 1,
                    "resourceVersion": "7",
                    "managedFields": [{ "manager": "walras-controller", "fieldsV1": {
                        "f:metadata": { "f:annotations": {
                            "f:walras.dev/original-resources": {},
                            "f:walras.dev/autoscaler": {} } } } }] },
                "spec": { "containers": [{ "name": "app", "resources": cpu }] },
                "status": { "phase": "Running", "qosClass": "Burstable",
                    "observedGeneration": 1,
                    "containerStatuses": [{ "name": "app", "resources": cpu,
                        "allocatedResources": { "cpu": "100m" } }] },
            }),
            allocation: json!({
                "apiVersion": "allocation.mbcas.io/v1alpha1", "kind": "PodAllocation",
                "metadata": { "name": "shop-web", "namespace": "shop", "generation": 4,
                    "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "web",
                        "uid": "u1" }] },
                "spec": { "namespace": "shop", "podName": "web",
                    "desiredCPURequest": "150m", "desiredCPULimit": "300m" },
            }),
            settings: Settings::default(),
            memory: Memory::default(),
            autoscaler: None,
            siblings: None,
            acts_since: Moment::ORIGIN,
            can_resize: true,
        }
    }

    fn decide(&self) -> Decision {
        self.with_situation(decide)
    }

    fn with_situation<T>(&self, then: impl FnOnce(&Situation<'_>) -> T) -> T {
        let pod: Pod = serde_json::from_value(self.pod.clone()).unwrap();
        let object: PodAllocation = serde_json::from_value(self.allocation.clone()).unwrap();
        let key = Key::of(&object.metadata);
        then(&Situation {
            key: &key,
            allocation: &AllocationFacts::of(object),
            pod: Some(&PodFacts::of(&pod)),
            autoscaler: self.autoscaler.as_ref(),
            siblings: self.siblings.map(Millicores::new),
            namespace_mode: None,
            own_namespace: "mbcas-system",
            can_resize: self.can_resize,
            settings: &self.settings,
            memory: &self.memory,
            acts_since: self.acts_since,
            now: NOW,
        })
    }

    fn check(&self) -> String {
        match self.decide() {
            Decision::Wait(until) => format!("wait {}", until.since(NOW)),
            Decision::Tell(told) => format!("{:?} {}", told.phase, told.reason),
            Decision::Resize { containers, .. } => {
                let part = |c: &ContainerPatch| format!("{} {}/{}", c.name, c.request, c.limit);
                containers.iter().map(part).collect::<Vec<_>>().join(", ")
            }
        }
    }

    fn change(mut self, place: &str, value: Value) -> Self {
        let (object, path) = place.split_once('/').unwrap();
        let mut at = if object == "pod" { &mut self.pod } else { &mut self.allocation };
        for name in path.split('/') {
            at = match name.parse::<usize>() {
                Ok(place) => &mut at[place],
                Err(_) => &mut at[name],
            };
        }
        *at = value;
        self
    }

    /// The pod's spec has what is wanted.
    fn asked(self) -> Self {
        let cpu = json!({ "requests": { "cpu": "150m" }, "limits": { "cpu": "300m" } });
        let asked = self.change("pod/spec/containers/0/resources", cpu);
        asked.change("pod/metadata/generation", json!(2))
    }
}

#[test]
fn what_is_wanted_is_asked_for() {
    assert_eq!(Case::usual().check(), "app 150m/300m");
}

#[test]
fn what_may_not_speak_for_the_pod_or_change_it_is_refused() {
    let annotations = "pod/metadata/annotations";
    for (place, value, told) in [
        ("allocation/spec/namespace", json!("bank"), "Failed ForeignNamespace"),
        ("allocation/metadata/ownerReferences/0/uid", json!("u0"), "Failed StalePod"),
        ("allocation/metadata/labels", json!({"walras.dev/node": "n2"}), "Failed ForeignNode"),
        ("allocation/metadata/name", json!("mine"), "Failed WrongName"),
        ("allocation/spec/desiredCPULimit", json!("much"), "Failed InvalidDesiredCPU"),
        (annotations, json!({"walras.dev/mode": "x"}), "Failed InvalidMode"),
        (annotations, json!({"walras.dev/mode": "off"}), "Pending RecommendOnly"),
        (
            annotations,
            json!({"walras.dev/original-resources": "rubbish"}),
            "Failed InvalidOriginals",
        ),
        ("pod/spec/resources", json!({"limits": {"cpu": "1"}}), "Failed InvalidPodState"),
        (
            "pod/spec/containers/0/resizePolicy",
            json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]),
            "Failed InvalidPodState",
        ),
        ("pod/status/phase", json!("Pending"), "Pending InvalidPodState"),
    ] {
        assert_eq!(Case::usual().change(place, value).check(), told, "{place}");
    }
}

impl Case {
    fn under(mut self, autoscaler: Autoscaler) -> Self {
        self.autoscaler = Some(autoscaler);
        self
    }

    /// What the agent is to be told of the autoscaler: nothing, to forget it, or its name.
    fn mark(&self) -> String {
        match self.with_situation(mark_due) {
            None => "nothing".to_owned(),
            Some(None) => "forget it".to_owned(),
            Some(Some(mark)) => mark,
        }
    }
}

fn vertical() -> Autoscaler {
    Autoscaler::Vertical("web".to_owned())
}

fn by_use() -> Autoscaler {
    Autoscaler::Utilization("web".to_owned())
}

#[test]
fn a_pod_that_a_vertical_autoscaler_sizes_is_left_alone() {
    let case = Case::usual().under(vertical());
    let Decision::Tell(told) = case.decide() else { panic!("not told") };
    assert_eq!((told.phase, told.reason), (Phase::Applied, "VerticalPodAutoscaler"));
    assert_eq!(told.standing, Standing::LeftAlone);
    assert!(told.message.starts_with("The VerticalPodAutoscaler web sizes the pod"));
    // Whoever was changed before it came gets that back like everybody else.
    let written = r#"{"app":{"cpuRequestMilli":50,"cpuLimitMilli":60}}"#;
    let restore = json!({"walras.dev/mode": "restore", "walras.dev/original-resources": written});
    assert_eq!(case.change("pod/metadata/annotations", restore).check(), "app 50m/60m");
}

#[test]
fn requests_are_left_alone_where_a_horizontal_autoscaler_goes_by_them() {
    let case = Case::usual().under(by_use());
    assert_eq!(case.check(), "app 100m/300m");
    let Decision::Resize { notes, .. } = case.decide() else { panic!("not asked") };
    assert_eq!(notes, [Note::RequestsLeftAlone { autoscaler: "web".to_owned() }]);
}

#[test]
fn a_request_is_not_lowered_below_what_siblings_on_other_nodes_need() {
    let request = |request| json!(request);
    let mut case = Case::usual().change("allocation/spec/desiredCPURequest", request("60m"));
    assert_eq!(case.check(), "app 60m/300m");
    case.siblings = Some(80);
    assert_eq!(case.check(), "app 80m/300m");
    case.siblings = Some(900);
    assert_eq!(case.check(), "app 100m/300m", "no more than it came with");
    // Where requests follow limits, each pod has its own.
    case.settings.held.agent.profile.cap_rule = CapRule::Tight;
    assert_eq!(case.check(), "app 60m/300m");
}

#[test]
fn the_agent_is_told_of_an_autoscaler_by_the_pod_and_only_when_that_is_news() {
    let (mark, annotations) = ("walras.dev/autoscaler", "pod/metadata/annotations");
    assert_eq!(Case::usual().mark(), "nothing");
    assert_eq!(Case::usual().under(vertical()).mark(), "VerticalPodAutoscaler/web");
    let marked = |says: &str| Case::usual().change(annotations, json!({ mark: says }));
    let horizontal = "HorizontalPodAutoscaler/web";
    assert_eq!(marked(horizontal).under(by_use()).mark(), "nothing");
    assert_eq!(marked(horizontal).under(vertical()).mark(), "VerticalPodAutoscaler/web");
    assert_eq!(marked(horizontal).mark(), "forget it");
    // Who changes nothing writes nothing, and who is left alone anyway need not be told of.
    for says in [
        json!({ "walras.dev/mode": "off" }),
        json!({ "walras.dev/mode": "restore" }),
        json!({ "mbcas.io/managed": "false" }),
    ] {
        let case = Case::usual().under(vertical()).change(annotations, says.clone());
        assert_eq!(case.mark(), "nothing", "{says}");
    }
    let foreign = Case::usual().under(vertical());
    assert_eq!(foreign.change("allocation/metadata/name", json!("mine")).mark(), "nothing");
}

#[test]
fn who_is_to_be_left_alone_is_and_that_is_no_failure() {
    let says = |word: &str| json!({ word: "false" });
    let opted_out = Case::usual().change("pod/metadata/annotations", says("mbcas.io/managed"));
    assert_eq!(opted_out.check(), "Applied Excluded");
    let guaranteed = Case::usual().change("pod/status/qosClass", json!("Guaranteed"));
    assert_eq!(guaranteed.check(), "Applied GuaranteedQoS");
    for case in [opted_out, guaranteed] {
        let Decision::Tell(told) = case.decide() else { panic!("not told") };
        assert_eq!(told.standing, Standing::LeftAlone);
    }
    // It could not be resized if anybody wanted it.
    let best_effort = Case::usual().change("pod/status/qosClass", json!("BestEffort"));
    assert_eq!(best_effort.check(), "Failed BestEffortQoS");
}

#[test]
fn containers_share_by_what_they_came_with() {
    let container = |name: &str, request: &str, limit: &str| {
        json!({ "name": name, "resources": { "requests": { "cpu": request },
            "limits": { "cpu": limit } } })
    };
    let came_with = json!({"walras.dev/original-resources":
        r#"{"app":{"cpuRequestMilli":450,"cpuLimitMilli":900},
            "log":{"cpuRequestMilli":50,"cpuLimitMilli":100}}"#});
    let shrunk = json!([container("app", "20m", "40m"), container("log", "5m", "10m")]);
    let case = Case::usual()
        .change("pod/spec/containers", shrunk)
        .change("allocation/spec/desiredCPURequest", json!("500m"))
        .change("allocation/spec/desiredCPULimit", json!("1000m"));
    assert_eq!(case.check(), "app 400m/800m, log 100m/200m", "nothing is written down");
    let case = case.change("pod/metadata/annotations", came_with);
    assert_eq!(case.check(), "app 450m/900m, log 50m/100m");
}

/// The same in another namespace.
fn moved(namespace: &str) -> Case {
    let name = format!("{namespace}-web");
    ["pod/metadata/namespace", "allocation/metadata/namespace", "allocation/spec/namespace"]
        .into_iter()
        .fold(Case::usual(), |case, place| case.change(place, json!(namespace)))
        .change("allocation/metadata/name", json!(name))
}

#[test]
fn pods_of_excluded_namespaces_are_left_alone_but_get_everything_back() {
    let came_with = json!({"walras.dev/original-resources":
        r#"{"app":{"cpuRequestMilli":50,"cpuLimitMilli":80}}"#});
    for namespace in ["kube-system", "mbcas-system", "bank"] {
        let mut case = moved(namespace).change("pod/metadata/annotations", came_with.clone());
        case.settings.held.agent.excluded = names::excluded_namespaces("bank");
        assert_eq!(case.check(), "Applied ExcludedNamespace", "{namespace}");
        case.settings.held.agent.mode = Mode::Off;
        assert_eq!(case.check(), "Applied ExcludedNamespace", "{namespace}");
        case.settings.held.agent.mode = Mode::Restore;
        assert_eq!(case.check(), "app 50m/80m", "{namespace}");
    }
    assert_eq!(moved("bank").check(), "app 150m/300m");
    let Decision::Tell(told) = moved("kube-system").decide() else { panic!("not told") };
    assert_eq!(told.message, "The namespace kube-system is left alone: it always is.");
}

#[test]
fn an_owner_beside_the_pod_does_not_matter() {
    let owner = |name: &str, uid: &str| {
        let kind = "Pod";
        json!({ "apiVersion": "v1", "kind": kind, "name": name, "uid": uid })
    };
    let owners = json!([owner("other", "u0"), owner("web", "u1")]);
    let case = Case::usual().change("allocation/metadata/ownerReferences", owners);
    assert_eq!(case.check(), "app 150m/300m");
}

#[test]
fn before_the_settings_are_read_nothing_is_changed_whatever_a_pod_says() {
    let says = json!({"walras.dev/mode": "limits-only"});
    let mut case = Case::usual().change("pod/metadata/annotations", says);
    assert_eq!(case.check(), "app 100m/300m");
    case.settings = Settings::unread();
    assert_eq!(case.check(), "Pending RecommendOnly");
}

#[test]
fn a_new_leader_waits_for_one_cooldown_but_not_for_long() {
    let mut case = Case::usual();
    case.acts_since = Moment::from_ms(NOW_MS - 2000);
    assert_eq!(case.check(), "wait 3 s");
    // A single pod may have to wait for an hour, but not the whole cluster for one lease.
    case.settings.held.cooldown = Span::from_s(3600);
    assert_eq!(case.check(), "wait 8 s");
    case.acts_since = Moment::from_ms(NOW_MS - 10_000);
    assert_eq!(case.check(), "app 150m/300m");
}

#[test]
fn the_last_resize_is_known_from_the_objects_themselves() {
    let resized = |at: &str| {
        let fields = json!([{"manager": "x", "operation": "Update", "subresource": "resize",
            "time": at}]);
        Case::usual().change("pod/metadata/managedFields", fields).check()
    };
    assert_eq!(resized("2027-01-15T07:59:58Z"), "Pending RateLimited");
    assert_eq!(resized("2027-01-15T07:59:55Z"), "Pending RateLimited", "or at 07:59:55.9");
    assert_eq!(resized("2027-01-15T07:59:54Z"), "app 150m/300m");
    let at = "2027-01-15T07:59:58Z";
    let told = Case::usual().change("allocation/status", json!({"lastAttemptTime": at}));
    assert_eq!(told.check(), "Pending RateLimited");
    let future = json!({"lastAttemptTime": "2027-02-15T08:00:00Z"});
    assert_eq!(Case::usual().change("allocation/status", future).check(), "app 150m/300m");
}

#[test]
fn a_raise_does_not_wait_after_a_cut_unless_somebody_else_came_between() {
    let mut case = Case::usual();
    case.memory.history.resize_applied(true, Moment::from_ms(NOW_MS - 3000));
    assert_eq!(case.check(), "app 150m/300m");
    let attempted = |at: &str| json!({"lastAttemptTime": at});
    let resized = |at: &str| json!([{"subresource": "resize", "time": at}]);
    let (status, fields) = ("allocation/status", "pod/metadata/managedFields");
    // The API server's clock may be ahead.
    let own = "2027-01-15T07:59:59Z";
    case.memory.own_stamp = Some(Moment::from_ms(NOW_MS - 1000));
    case = case.change(status, attempted("2027-01-15T07:59:56Z")).change(fields, resized(own));
    assert_eq!(case.check(), "app 150m/300m", "stamps of the same resize");
    case = case.change(fields, resized("2027-01-15T08:00:00Z"));
    assert_eq!(case.check(), "Pending RateLimited", "somebody else");
    case = case.change(fields, resized(own)).change(status, attempted("2027-01-15T07:59:58Z"));
    assert_eq!(case.check(), "Pending RateLimited", "an attempt that nobody answered");
    case.memory.refused_attempt = Some(Moment::from_ms(NOW_MS - 2000));
    assert_eq!(case.check(), "app 150m/300m", "an attempt that changed nothing");
}

#[test]
fn trouble_holds_up_the_wish_it_happened_to_whatever_the_price_is_by_now() {
    let wish = |limit| {
        let (request, limit) = (Millicores::new(150), Millicores::new(limit));
        Some(Allocation { request, limit })
    };
    let mut case = Case::usual();
    case.memory.not_before = Some((wish(300), NOW + Span::from_s(60)));
    assert_eq!(case.check(), "wait 60 s");
    let mut case = case
        .change("allocation/metadata/generation", json!(5))
        .change("allocation/spec/shadowPriceCPU", json!(0.5));
    assert_eq!(case.check(), "wait 60 s");
    case.memory.not_before = Some((wish(299), NOW + Span::from_s(60)));
    assert_eq!(case.check(), "app 150m/300m");
}

#[test]
fn what_was_asked_for_is_awaited_and_then_confirmed_or_told() {
    let mut case = Case::usual().asked();
    assert_eq!(case.check(), "Pending Applying");
    let at = Moment::from_ms(NOW_MS - 10_000);
    case.memory.asked = Some(AskedFor { at, generation: 2, restarts: vec![0] });
    assert_eq!(case.check(), "Pending NotConfirmed");
    case = case.change("pod/status/observedGeneration", json!(2));
    assert_eq!(case.check(), "Pending LimitMismatch");
    let cpu = json!({ "requests": { "cpu": "150m" }, "limits": { "cpu": "300m" } });
    case = case
        .change("pod/status/containerStatuses/0/resources", cpu)
        .change("pod/status/containerStatuses/0/allocatedResources/cpu", json!("150m"));
    assert_eq!(case.check(), "Applied Applied");
    case.memory.asked = None;
    assert_eq!(case.check(), "Applied AlreadyApplied");
}

#[test]
fn a_node_without_room_is_told_of() {
    let condition = |reason: &str| {
        json!([{"type": "PodResizePending", "status": "True", "reason": reason,
            "message": "m", "lastTransitionTime": "2027-01-15T07:53:20Z"}])
    };
    let asked = Case::usual().asked().change("pod/status/observedGeneration", json!(2));
    let deferred = asked.change("pod/status/conditions", condition("Deferred"));
    assert_eq!(deferred.check(), "Pending Deferred");
    let Decision::Tell(told) = deferred.decide() else { panic!("not told") };
    assert!(told.message.ends_with("It has waited for 6 min."), "{}", told.message);
    let infeasible = deferred.change("pod/status/conditions", condition("Infeasible"));
    assert_eq!(infeasible.check(), "Failed Infeasible");
}

#[test]
fn a_refusal_for_good_is_known_from_the_status() {
    let status = json!({"reason": "Infeasible", "observedGeneration": 4});
    let case = Case::usual().change("allocation/status", status);
    assert_eq!(case.check(), "Failed Infeasible");
    let newer = case.change("allocation/metadata/generation", json!(5));
    assert_eq!(newer.check(), "app 150m/300m");
}

#[test]
fn everybody_gets_everything_back_whatever_single_pods_say() {
    let mut case = Case::usual().asked().change(
        "pod/metadata/annotations",
        json!({"walras.dev/original-resources":
            r#"{"app":{"cpuRequestMilli":100,"cpuLimitMilli":200}}"#,
            "walras.dev/mode": "off"}),
    );
    case.settings.held.agent.mode = Mode::Restore;
    assert_eq!(case.check(), "app 100m/200m");
}

#[test]
fn what_was_given_back_is_confirmed_as_restored() {
    let came_with = json!({"walras.dev/original-resources":
        r#"{"app":{"cpuRequestMilli":100,"cpuLimitMilli":200}}"#});
    let mut case = Case::usual().change("pod/metadata/annotations", came_with);
    case.settings.held.agent.mode = Mode::Restore;
    let asked = AskedFor { at: NOW, generation: 1, restarts: vec![0] };
    for (asked, standing) in [(Some(asked), Standing::Verified), (None, Standing::Settled)] {
        case.memory.asked = asked;
        let Decision::Tell(told) = case.decide() else { panic!("not told") };
        assert_eq!((told.standing, told.reason), (standing, "Restored"));
    }
}

#[test]
fn where_the_server_cannot_resize_pods_nothing_is_written_to_any() {
    let case = Case {
        can_resize: false,
        autoscaler: Some(Autoscaler::Utilization("HorizontalPodAutoscaler/web".to_owned())),
        ..Case::usual()
    };
    assert_eq!(case.check(), "Failed ResizeUnsupported");
    assert_eq!(case.with_situation(mark_due), None, "not even an annotation");
    let able = Case { can_resize: true, ..case };
    assert!(able.with_situation(mark_due).is_some());
}

#[test]
fn what_a_node_could_never_do_is_tried_again_after_a_while() {
    let refused = Allocation { request: Millicores::new(150), limit: Millicores::new(300) };
    let refused_ago = |s: u64| {
        let mut case = Case::usual();
        let at = Moment::from_ms(NOW_MS - 1000 * s);
        case.memory.history.resize_refused_as_infeasible(&refused, at);
        // Its status says so still.
        case.change("allocation/status", json!({"reason": "Infeasible", "observedGeneration": 4}))
    };
    let Decision::Tell(told) = refused_ago(599).decide() else { panic!("not yet") };
    assert_eq!((told.reason, told.next), ("Infeasible", Some(NOW + Span::from_s(1))));
    assert_eq!(refused_ago(600).check(), "app 150m/300m", "the node may have grown");
}
