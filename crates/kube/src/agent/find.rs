//! Where the control groups of a pod and of its containers are.
//!
//! The kubelet names them by the pod's uid and class, in one of two ways (its cgroup driver), below
//! a root of its own. The usual places are tried first; where a pod is in none of them, the whole
//! tree is walked once and what was learned from that is kept. Names are made and recognised
//! without touching anything: see [`candidates`], [`pod_of`] and [`container_of`].

use std::collections::BTreeMap;
use std::path::Path;

use walras_cgroup::{CgroupPath, Layout, Version, WalkLimits, walk};
use walras_core::units::{Moment, Span};

/// No kubelet's tree is larger.
const LIMITS: WalkLimits = WalkLimits { depth: 12, groups: 20_000 };
/// The whole tree is walked at most this often.
const BETWEEN_WALKS: Span = Span::from_s(5);
/// What runtimes put around a container's id.
const WRAPPERS: [(&str, &str); 5] = [
    ("", ""),
    ("cri-containerd-", ".scope"),
    ("crio-", ".scope"),
    ("docker-", ".scope"),
    ("crio-", ""),
];

/// The class of a pod, which is part of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qos {
    /// Requests are limits.
    Guaranteed,
    /// Something in between.
    Burstable,
    /// Nothing is said.
    BestEffort,
}

/// Finds pods, and remembers where they are.
#[derive(Debug, Default)]
pub struct Finder {
    root: String,
    known: BTreeMap<String, CgroupPath>,
    walked_at: Option<Moment>,
}

/// The layout below `root`, which is where the machine's `/sys/fs/cgroup` can be seen.
#[must_use]
pub fn layout_at(root: &Path) -> Layout {
    if root.join("cgroup.controllers").exists() {
        return Layout::at(Version::V2, root.to_owned(), root.to_owned());
    }
    let joint = root.join("cpu,cpuacct");
    let place = |name| if joint.exists() { joint.clone() } else { root.join(name) };
    Layout::at(Version::V1, place("cpu"), place("cpuacct"))
}

/// Where the group of a pod usually is, below the kubelet's `root`.
#[must_use]
pub fn candidates(root: &str, uid: &str, qos: Qos) -> [String; 2] {
    let root = root.trim_matches('/');
    let (level, slice) = match qos {
        Qos::Guaranteed => ("", ""),
        Qos::Burstable => ("/burstable", "-burstable"),
        Qos::BestEffort => ("/besteffort", "-besteffort"),
    };
    let plain = if root.is_empty() { String::new() } else { format!("{root}/") };
    // systemd has a slice inside of another one only if it is named after it.
    let mut slices = String::new();
    let mut prefix = String::new();
    for name in root.split('/').filter(|name| !name.is_empty()) {
        let name = name.trim_end_matches(".slice");
        // A root that is spelled as slices has each one's full name.
        prefix = match name.strip_prefix(prefix.as_str()) {
            Some(rest) if !prefix.is_empty() && rest.starts_with('-') => name.to_owned(),
            _ if prefix.is_empty() => name.to_owned(),
            _ => format!("{prefix}-{name}"),
        };
        slices += &format!("{prefix}.slice/");
    }
    let name = if prefix.is_empty() { "kubepods".to_owned() } else { format!("{prefix}-kubepods") };
    let class = if slice.is_empty() { String::new() } else { format!("{name}{slice}.slice/") };
    let uid_ = uid.replace('-', "_");
    [
        format!("{plain}kubepods{level}/pod{uid}"),
        format!("{slices}{name}.slice/{class}{name}{slice}-pod{uid_}.slice"),
    ]
}

/// The uid of the pod whose group has this name, if it is one.
#[must_use]
pub fn pod_of(name: &str) -> Option<String> {
    if let Some(uid) = name.strip_prefix("pod") {
        return is_uid(uid).then(|| uid.to_owned());
    }
    let slice = name.strip_suffix(".slice")?;
    let (before, uid) = slice.rsplit_once("-pod")?;
    let of_kubelet = before.split('-').any(|part| part == "kubepods");
    (of_kubelet && is_uid(uid)).then(|| uid.replace('_', "-"))
}

/// Whether a group of this name in a pod's group is that of the container with this id.
#[must_use]
pub fn container_of(name: &str, id: &str) -> bool {
    let wrapped = |(before, after): &(&str, &str)| {
        name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)) == Some(id)
    };
    !id.is_empty() && WRAPPERS.iter().any(wrapped)
}

/// The id in `containerd://0f6c...`.
#[must_use]
pub fn id_in(container_id: &str) -> &str {
    container_id.rsplit('/').next().unwrap_or_default()
}

/// The group of a container, if it is there.
#[must_use]
pub fn container(layout: &Layout, pod: &CgroupPath, id: &str) -> Option<CgroupPath> {
    if id.is_empty() {
        return None;
    }
    let named = WRAPPERS.iter().filter_map(|(before, after)| {
        let path = pod.join(format!("{before}{id}{after}").as_bytes())?;
        path.under(layout.cpu_root()).is_dir().then_some(path)
    });
    named.into_iter().next()
}

// === impl Finder ===

impl Finder {
    /// A finder below the kubelet's `root`; empty where it has none of its own.
    #[must_use]
    pub fn below(root: &str) -> Self {
        Self { root: root.to_owned(), ..Self::default() }
    }

    /// The group of a pod. Walks the tree if it is not where it should be, but not too often.
    pub fn pod(&mut self, layout: &Layout, uid: &str, qos: Qos, now: Moment) -> Option<CgroupPath> {
        let there = |path: &CgroupPath| path.under(layout.cpu_root()).is_dir();
        for candidate in candidates(&self.root, uid, qos) {
            if let Some(path) = CgroupPath::new(candidate.as_bytes()).filter(there) {
                return Some(path);
            }
        }
        if let Some(path) = self.known.get(uid).filter(|path| there(path)) {
            return Some(path.clone());
        }
        if self.walked_at.is_some_and(|at| now.since(at) < BETWEEN_WALKS) {
            return None;
        }
        self.walked_at = Some(now);
        self.known = walked(layout);
        self.known.get(uid).cloned()
    }
}

fn walked(layout: &Layout) -> BTreeMap<String, CgroupPath> {
    let Ok(walk) = walk(layout, &CgroupPath::ROOT, LIMITS) else {
        return BTreeMap::new();
    };
    let named = walk.found.into_iter().filter_map(|found| {
        let uid = pod_of(std::str::from_utf8(found.path.name()).ok()?)?;
        Some((uid, found.path))
    });
    named.collect()
}

/// Whether it looks like a pod's uid; static pods have a hash.
fn is_uid(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-' || byte == b'_';
    (32..=36).contains(&text.len()) && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: &str = include_str!("../../testdata/find.txt");

    fn qos(word: &str) -> Qos {
        match word {
            "Guaranteed" => Qos::Guaranteed,
            "Burstable" => Qos::Burstable,
            "BestEffort" => Qos::BestEffort,
            _ => panic!("{word} is no class"),
        }
    }

    /// Makes the tree of a case from plain folders, and tells where its pod and container are.
    fn check(tree: &str, root: &str, uid: &str, class: &str, id: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        for path in tree.lines() {
            std::fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        let layout = layout_at(folder.path());
        let mut finder = Finder::below(root);
        let Some(pod) = finder.pod(&layout, uid, qos(class), Moment::ORIGIN) else {
            return "nowhere".to_owned();
        };
        let tried = candidates(root, uid, qos(class));
        let how = if tried.contains(&pod.to_string()[1..].to_owned()) { "tried" } else { "walked" };
        let inside = container(&layout, &pod, id);
        let inside = inside
            .map_or("none".to_owned(), |path| String::from_utf8(path.name().to_vec()).unwrap());
        format!("{how} {pod} {inside}")
    }

    #[test]
    fn pods_and_containers_are_found_in_every_layout() {
        let mut cases = 0;
        for case in FIXTURE.split("\ncase ").skip(1) {
            let (name, rest) = case.split_once('\n').unwrap();
            let (asked, rest) = rest.split_once('\n').unwrap();
            let words: Vec<&str> = asked.split_whitespace().collect();
            let [root, uid, class, id] = words[..] else { panic!("{name}: {asked}") };
            let root = root.trim_matches('"');
            let (tree, rest) = rest.split_once("----\n").unwrap();
            let expected = rest.lines().next().unwrap();
            assert_eq!(check(tree, root, uid, class, id), expected, "{name}");
            cases += 1;
        }
        assert!(cases >= 9, "{cases}");
    }

    #[test]
    fn only_what_a_kubelet_named_is_a_pod() {
        let uid = "0f6c1c1e-3a53-4f0e-9b2e-1d2f3a4b5c6d";
        let under = uid.replace('-', "_");
        assert_eq!(pod_of(&format!("pod{uid}")).as_deref(), Some(uid));
        assert_eq!(pod_of(&format!("kubepods-pod{under}.slice")).as_deref(), Some(uid));
        assert_eq!(pod_of(&format!("a-kubepods-burstable-pod{under}.slice")).as_deref(), Some(uid));
        for other in ["pod", "podman.slice", "pod-of-whales", "machine-podman_1.slice", ""] {
            assert_eq!(pod_of(other), None, "{other}");
        }
        assert_eq!(pod_of(&format!("machine-pod{under}.slice")), None);
        assert!(container_of("cri-containerd-abc.scope", "abc") && !container_of("abcd", "abc"));
        assert_eq!(id_in("containerd://abc"), "abc");
    }
}
