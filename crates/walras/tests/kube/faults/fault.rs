//! What can break: programs that are killed, lines that are cut, servers that are busy or away,
//! clocks that are set, disks that are full.

use std::time::Duration;

use serde_json::json;
use walras_core::rng::Rng;
use walras_testbed::Way;

use super::clock::Clock;
use super::disk::Disk;
use crate::installed::{Installed, SYSTEM};

/// What our accounts are held back by while the API server is to be too busy for them, or broken.
const STORM: &str = "walras-storm";

/// One thing that breaks, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The agent is killed.
    Agent,
    /// The controller is killed.
    Controller,
    /// The API server ends, and nobody listens in its place.
    ApiServer,
    /// The kubelet is killed.
    Kubelet,
    /// Nothing arrives between our programs and the API server, and nobody is told.
    Partition,
    /// The same between the kubelet and the API server.
    NodePartition,
    /// Connections of our programs are closed, and new ones at once.
    Cut,
    /// Everything arrives half a second late.
    Late,
    /// The API server cannot reach its store, and answers 500 and 504, or late.
    Store,
    /// The API server answers 429 to everything that our programs ask.
    TooManyRequests,
    /// The API server answers 500 to everything that our programs write.
    ServerErrors,
    /// The clock of our programs goes an hour ahead, and back.
    ClockAhead,
    /// The clock of our programs goes an hour back, and ahead again.
    ClockBehind,
    /// The agent begins anew on an empty disk, which is soon full.
    Disk,
}

/// What faults are done to, beside the cluster.
pub(super) struct Ground {
    pub(super) disk: Disk,
    pub(super) clock: Clock,
}

/// How far a clock is set, in seconds.
const STEP_S: i64 = 3_600;

impl Fault {
    pub(super) const ALL: [Self; 14] = [
        Self::Agent,
        Self::Controller,
        Self::ApiServer,
        Self::Kubelet,
        Self::Partition,
        Self::NodePartition,
        Self::Cut,
        Self::Late,
        Self::Store,
        Self::TooManyRequests,
        Self::ServerErrors,
        Self::ClockAhead,
        Self::ClockBehind,
        Self::Disk,
    ];

    /// Every fault once, in an order by chance, and again and again.
    pub(super) fn sequence(mut rng: Rng) -> impl Iterator<Item = Self> {
        let mut left: Vec<Self> = Vec::new();
        std::iter::from_fn(move || {
            if left.is_empty() {
                left = Self::ALL.to_vec();
            }
            let count = u64::try_from(left.len()).unwrap_or(1);
            let place = usize::try_from(rng.below(count)).unwrap_or(0);
            Some(left.swap_remove(place))
        })
    }

    /// Breaks it, waits so long, and mends it.
    pub(super) fn strike(self, installed: &mut Installed, ground: &Ground, outage: Duration) {
        match self {
            Self::Agent => {
                installed.kill_agent();
                pause(outage);
                installed.start_agent_with(&ground.disk.recording());
            }
            Self::Controller => {
                installed.kill_controller();
                pause(outage);
                installed.start_controller();
            }
            Self::ApiServer => {
                installed.testbed.stop_api_server().unwrap();
                pause(outage);
                installed.testbed.start_api_server().unwrap();
            }
            Self::Kubelet => {
                installed.testbed.kill_kubelet().unwrap();
                pause(outage);
                installed.testbed.start_kubelet().unwrap();
            }
            Self::Partition | Self::NodePartition | Self::Cut | Self::Late => {
                self.disturb(installed, outage);
            }
            Self::Store => {
                installed.testbed.pause_etcd().unwrap();
                pause(outage);
                installed.testbed.resume_etcd().unwrap();
            }
            Self::TooManyRequests => {
                jail(installed);
                pause(outage);
                release(installed);
            }
            Self::ServerErrors => {
                break_writes(installed);
                pause(outage);
                mend_writes(installed);
            }
            Self::ClockAhead | Self::ClockBehind => {
                let step_s = if self == Self::ClockAhead { STEP_S } else { -STEP_S };
                ground.clock.step_to(installed, step_s);
                pause(outage);
                ground.clock.step_to(installed, 0);
            }
            Self::Disk => {
                installed.kill_agent();
                ground.disk.empty();
                installed.start_agent_with(&ground.disk.recording());
                pause(outage);
            }
        }
    }

    /// Disturbs the traffic of our programs, or of the kubelet.
    fn disturb(self, installed: &Installed, outage: Duration) {
        let way = if self == Self::NodePartition { Way::Node } else { Way::Clients };
        let testbed = &installed.testbed;
        let disturbed = match self {
            Self::Cut => testbed.cut_api_traffic(way),
            Self::Late => testbed.delay_api_traffic(way, Duration::from_millis(500)),
            Self::Partition
            | Self::NodePartition
            | Self::Agent
            | Self::Controller
            | Self::ApiServer
            | Self::Kubelet
            | Self::Store
            | Self::TooManyRequests
            | Self::ServerErrors
            | Self::ClockAhead
            | Self::ClockBehind
            | Self::Disk => testbed.drop_api_traffic(way),
        };
        disturbed.unwrap();
        pause(outage);
        testbed.restore_api_traffic(way).unwrap();
    }
}

/// Lets the API server refuse whatever our accounts ask, with the words of one that is overloaded:
/// a priority level without a single seat.
fn jail(installed: &Installed) {
    let kubectl = installed.testbed.kubectl().unwrap();
    let api = "flowcontrol.apiserver.k8s.io/v1";
    let level = json!({
        "apiVersion": api, "kind": "PriorityLevelConfiguration", "metadata": { "name": STORM },
        "spec": { "type": "Limited", "limited": { "nominalConcurrencyShares": 0,
            "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": { "type": "Reject" } } },
    });
    let account = |name: &str| {
        json!({ "kind": "ServiceAccount",
            "serviceAccount": { "name": name, "namespace": SYSTEM } })
    };
    let flow = json!({
        "apiVersion": api, "kind": "FlowSchema", "metadata": { "name": STORM },
        "spec": {
            "priorityLevelConfiguration": { "name": STORM }, "matchingPrecedence": 2,
            "rules": [{
                "subjects": [account("walras-agent"), account("walras-controller")],
                "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                    "clusterScope": true, "namespaces": ["*"] }],
            }],
        },
    });
    for object in [level, flow] {
        kubectl.apply(&object).unwrap();
    }
}

fn release(installed: &Installed) {
    let kubectl = installed.testbed.kubectl().unwrap();
    for kind in ["flowschema", "prioritylevelconfiguration"] {
        kubectl.run(&["delete", kind, STORM, "--ignore-not-found"]).unwrap();
    }
}

/// Lets every write of our accounts end in an error of the API server: it has to ask a webhook
/// that is not there.
fn break_writes(installed: &Installed) {
    let ours =
        format!("request.userInfo.username.startsWith('system:serviceaccount:{SYSTEM}:walras-')");
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": STORM },
        "webhooks": [{
            "name": "storm.walras.dev", "failurePolicy": "Fail", "timeoutSeconds": 1,
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
            // Nobody listens there.
            "clientConfig": { "url": "https://127.0.0.1:1/" },
            "matchConditions": [{ "name": "ours", "expression": ours }],
            "rules": [{ "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"],
                "resources": ["*/*"] }],
        }],
    });
    installed.testbed.kubectl().unwrap().apply(&webhook).unwrap();
}

fn mend_writes(installed: &Installed) {
    let kubectl = installed.testbed.kubectl().unwrap();
    let what = ["delete", "validatingwebhookconfiguration", STORM, "--ignore-not-found"];
    kubectl.run(&what).unwrap();
}

#[expect(clippy::disallowed_methods, reason = "an outage lasts")]
fn pause(outage: Duration) {
    std::thread::sleep(outage);
}
