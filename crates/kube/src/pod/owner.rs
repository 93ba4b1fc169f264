//! Whose pod it is: what made it, and what made that, as far as the pod itself tells.
//!
//! A Deployment makes a ReplicaSet for every rollout and a CronJob a Job for every run; both give
//! it a name from which their own is to be read, so the API server need not be asked.

use super::Pod;

/// What made a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner<'a> {
    /// The group of its kind; nothing for those of the core.
    pub group: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// Its name.
    pub name: &'a str,
    /// What made it in turn.
    pub behind: Option<Behind<'a>>,
}

/// What stands behind the owner of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind<'a> {
    /// The group of its kind.
    pub group: &'static str,
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: &'a str,
}

/// What made `pod`, unless a person did.
#[must_use]
pub fn owner(pod: &Pod) -> Option<Owner<'_>> {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    let (kind, name) = (owner.kind.as_str(), owner.name.as_str());
    Some(Owner { group: group_of(&owner.api_version), kind, name, behind: behind(pod, kind, name) })
}

/// The group in an `apiVersion`; nothing for the core's.
#[must_use]
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

fn behind<'a>(pod: &Pod, kind: &str, name: &'a str) -> Option<Behind<'a>> {
    let (before, last) = name.rsplit_once('-')?;
    let is_hash = |label: &str| pod.label(label).is_some_and(|hash| hash == last);
    let is_run = last.len() >= 8 && last.bytes().all(|byte| byte.is_ascii_digit());
    let (group, kind) = match kind {
        "ReplicaSet" if is_hash("pod-template-hash") => ("apps", "Deployment"),
        "ReplicaSet" if is_hash("rollouts-pod-template-hash") => ("argoproj.io", "Rollout"),
        "Job" if is_run => ("batch", "CronJob"),
        _ => return None,
    };
    Some(Behind { group, kind, name: before })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The owner of a pod, and what stands behind it.
    fn check(api_version: &str, kind: &str, name: &str, label: &str) -> String {
        let pod: Pod = serde_json::from_value(json!({ "metadata": {
            "labels": { label: "5d9c7" },
            "ownerReferences": [
                { "apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u0" },
                { "apiVersion": api_version, "kind": kind, "name": name, "uid": "u1",
                  "controller": true }],
        } }))
        .unwrap();
        let Owner { group, kind, name, behind } = owner(&pod).unwrap();
        let behind = behind.map(|it| format!(" of {} {} {}", it.group, it.kind, it.name));
        format!("{group} {kind} {name}{}", behind.unwrap_or_default())
    }

    #[test]
    fn what_stands_behind_an_owner_is_in_its_name() {
        for (owner, label, told) in [
            (
                ("apps/v1", "ReplicaSet", "web-5d9c7"),
                "pod-template-hash",
                " of apps Deployment web",
            ),
            (("apps/v1", "ReplicaSet", "web-5d9c7"), "app", ""),
            (("apps/v1", "ReplicaSet", "web-other"), "pod-template-hash", ""),
            (
                ("apps/v1", "ReplicaSet", "web-5d9c7"),
                "rollouts-pod-template-hash",
                " of argoproj.io Rollout web",
            ),
            (("batch/v1", "Job", "report-29100001"), "app", " of batch CronJob report"),
            (("batch/v1", "Job", "report-12"), "app", ""),
            (("apps/v1", "StatefulSet", "db-29100001"), "app", ""),
            (("v1", "ReplicationController", "old"), "app", ""),
        ] {
            let (api_version, kind, name) = owner;
            let group = group_of(api_version);
            let expected = format!("{group} {kind} {name}{told}");
            assert_eq!(check(api_version, kind, name, label), expected);
        }
        assert_eq!(owner(&Pod::default()), None);
    }
}
