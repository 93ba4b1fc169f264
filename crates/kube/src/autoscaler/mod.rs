//! Others who size pods or go by what they request, as far as that concerns us.
//!
//! A HorizontalPodAutoscaler that goes by CPU utilisation divides use by request: if requests
//! followed use, it would never see that there is too much to do. A VerticalPodAutoscaler that acts
//! sets requests itself, and two who do undo each other. Everything else they may do is none of our
//! business. Read here from their objects; nothing is asked of anybody.

mod horizontal;
mod vertical;

use serde::Deserialize;

pub(crate) use self::horizontal::HorizontalPodAutoscaler;
pub(crate) use self::vertical::VerticalPodAutoscaler;
use crate::pod::{Pod, group_of, owner};

/// What an autoscaler has to do with the pods of its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scaler {
    pub(crate) target: Workload,
    pub(crate) does: Does,
}

/// What an autoscaler does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// It goes by use over request.
    GoesByUtilization,
    /// It sets the requests of containers: of those `named` as it says there, of the others as in
    /// `others`.
    SetsRequests { named: Vec<(String, bool)>, others: bool },
}

/// Something that pods belong to. Without a group, any will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Workload {
    pub(crate) group: Option<String>,
    pub(crate) kind: String,
    pub(crate) name: String,
}

/// A reference to a workload, as both kinds of autoscaler have it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct TargetRef {
    api_version: Option<String>,
    kind: String,
    name: String,
}

// === impl Workload ===

impl Workload {
    /// What `pod` belongs to: what made it, and what stands behind that.
    pub(crate) fn all_of(pod: &Pod) -> Vec<Self> {
        let workload = |group: &str, kind: &str, name: &str| Self {
            group: Some(group.to_owned()),
            kind: kind.to_owned(),
            name: name.to_owned(),
        };
        let Some(owner) = owner(pod) else { return Vec::new() };
        let behind = owner.behind.map(|it| workload(it.group, it.kind, it.name));
        let owner = workload(owner.group, owner.kind, owner.name);
        [Some(owner), behind].into_iter().flatten().collect()
    }

    /// Whether both are the same, as far as is said.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let same_group = match (&self.group, &other.group) {
            (Some(one), Some(other)) => one == other,
            (None, _) | (_, None) => true,
        };
        same_group && self.kind == other.kind && self.name == other.name
    }
}

impl From<&TargetRef> for Workload {
    fn from(reference: &TargetRef) -> Self {
        let group = reference.api_version.as_deref().map(|version| group_of(version).to_owned());
        Self { group, kind: reference.kind.clone(), name: reference.name.clone() }
    }
}

// === impl Does ===

impl Does {
    /// Whether this concerns a pod with these containers.
    pub(crate) fn concerns<'a>(&self, mut containers: impl Iterator<Item = &'a str>) -> bool {
        match self {
            Self::GoesByUtilization => true,
            Self::SetsRequests { named, others } => containers.any(|container| {
                let mut named = named.iter();
                named.find(|(name, _)| name == container).map_or(*others, |(_, sets)| *sets)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &str = include_str!("../../testdata/autoscalers.txt");

    /// What an autoscaler has to do with a pod of two containers.
    fn check(text: &str) -> String {
        let object: serde_json::Value = serde_json::from_str(text).expect(text);
        let scaler = match object["kind"].as_str() {
            Some("HorizontalPodAutoscaler") => {
                serde_json::from_value::<HorizontalPodAutoscaler>(object).expect(text).scaler()
            }
            Some("VerticalPodAutoscaler") => {
                serde_json::from_value::<VerticalPodAutoscaler>(object).expect(text).scaler()
            }
            other => panic!("{other:?}"),
        };
        let Some(Scaler { target, does }) = scaler else {
            return "none of our business".to_owned();
        };
        let group = target.group.as_deref().unwrap_or("any group");
        let to = format!("{group} {} {}", target.kind, target.name);
        match &does {
            Does::GoesByUtilization => format!("goes by use over request of {to}"),
            Does::SetsRequests { .. } => {
                let sets = |name| does.concerns(std::iter::once(name));
                format!("sets requests of {to}: app {}, log {}", sets("app"), sets("log"))
            }
        }
    }

    #[test]
    fn autoscalers_concern_us_by_what_they_do_to_requests() {
        let mut cases = 0;
        for case in FIXTURE.split("\ncase ").skip(1) {
            let (name, rest) = case.split_once('\n').unwrap();
            let (text, rest) = rest.split_once("----\n").unwrap();
            let expected = rest.split("\n\n").next().unwrap().trim_end();
            assert_eq!(check(text), expected, "{name}");
            cases += 1;
        }
        assert!(cases >= 14, "{cases}");
    }

    #[test]
    fn a_pod_belongs_to_its_owner_and_to_what_stands_behind_it() {
        let pod: Pod = serde_json::from_str(
            r#"{"metadata": {"name": "web-5d9c7-x2x", "labels": {"pod-template-hash": "5d9c7"},
              "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
                "name": "web-5d9c7", "uid": "u", "controller": true}]}}"#,
        )
        .unwrap();
        let targets = |api_version: Option<&str>, kind: &str, name: &str| {
            let api_version = api_version.map(str::to_owned);
            let target = TargetRef { api_version, kind: kind.to_owned(), name: name.to_owned() };
            let target = Workload::from(&target);
            Workload::all_of(&pod).iter().any(|workload| workload.is(&target))
        };
        assert!(targets(Some("apps/v1"), "Deployment", "web"));
        assert!(targets(Some("apps/v1beta2"), "Deployment", "web"), "the version is not the kind");
        assert!(targets(None, "Deployment", "web"), "the group may be left out");
        assert!(targets(Some("apps/v1"), "ReplicaSet", "web-5d9c7"));
        assert!(!targets(Some("apps/v1"), "ReplicaSet", "web"));
        assert!(!targets(Some("apps/v1"), "Deployment", "web-5d9c7"));
        assert!(!targets(Some("apps/v1"), "StatefulSet", "web"));
        assert!(!targets(Some("example.com/v1"), "Deployment", "web"), "another kind of that name");
        assert_eq!(Workload::all_of(&Pod::default()), []);
    }
}
