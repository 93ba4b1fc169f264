//! A machine of plain folders with the files of cgroups, and the outside that looks at it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use walras_cgroup::{BootId, Layout, Version};
use walras_core::node::{Action, Why};
use walras_core::profile::CapRule;
use walras_core::smooth::weight::KernelWeight;
use walras_core::units::{Millicores, Moment, WorkloadUid};

use crate::cgroups::{Cgroups, Terms};
use crate::config::{Config, Overrides};
use crate::latency::LatencyTerms;
use walras_node::drive::{Carried, Change, Outside};
use walras_node::store::Store;

/// The id of a container, where a path says `ID`.
const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

pub(super) struct Ground {
    root: tempfile::TempDir,
    outside: Cgroups,
    held: Vec<String>,
    /// What owners changed, as what they got back before and get back now.
    owned: Vec<String>,
}

/// What became of setting a limit.
pub(super) struct Set(Carried);

impl Set {
    pub(super) fn is_overtaken(&self) -> bool {
        matches!(self.0, Carried::Overtaken(_))
    }

    pub(super) fn is_gone(&self) -> bool {
        self.0 == Carried::Gone
    }
}

fn terms(adopt: &str) -> Terms {
    let text = format!("[adopt]\n{adopt}\n");
    let config = Config::read(&text, &Overrides::default()).unwrap_or_else(|it| panic!("{it}"));
    Terms {
        act: true,
        capacity: Some(Millicores::from_cores(4)),
        adopt: config.adopt,
        cap_rule: CapRule::Loose,
        latency: LatencyTerms::default(),
    }
}

impl Ground {
    /// A machine without groups, and this configuration of what is adopted.
    pub(super) fn new(adopt: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let layout = layout(&root);
        let store = Store::in_memory().unwrap();
        let outside = Cgroups::new(layout, terms(adopt), store, Vec::new(), Moment::ORIGIN);
        Self { root, outside, held: Vec::new(), owned: Vec::new() }
    }

    /// A daemon that stopped without giving anything back is followed by another one.
    pub(super) fn start_again(&mut self, adopt: &str) {
        let originals = self.outside.store().originals(BootId(0)).unwrap();
        let mut store = Store::in_memory().unwrap();
        store.keep_originals(&originals).unwrap();
        let layout = layout(&self.root);
        self.outside = Cgroups::new(layout, terms(adopt), store, originals, Moment::ORIGIN);
        self.held.clear();
    }

    pub(super) fn configure(&mut self, adopt: &str) {
        self.outside.set_terms(terms(adopt));
        self.held.clear();
    }

    /// Makes a group with a process in it, and those it is in.
    pub(super) fn make(&self, path: &str) {
        let mut place = self.root.path().to_path_buf();
        for name in path.replace("ID", ID).split('/') {
            place.push(name);
            if place.exists() {
                continue;
            }
            fs::create_dir(&place).unwrap();
            for (file, text) in [
                ("cgroup.procs", "7\n"),
                ("cgroup.events", "populated 1\nfrozen 0\n"),
                ("cpu.stat", "usage_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"),
                ("cpu.max", "max 100000\n"),
                ("cpu.weight", "100\n"),
            ] {
                fs::write(place.join(file), text).unwrap();
            }
        }
    }

    pub(super) fn remove(&self, path: &str) {
        fs::remove_dir_all(self.at(path)).unwrap();
    }

    pub(super) fn remove_file(&self, path: &str, file: &str) {
        fs::remove_file(self.at(path).join(file)).unwrap();
    }

    pub(super) fn write(&self, path: &str, file: &str, text: &str) {
        fs::write(self.at(path).join(file), text).unwrap();
    }

    pub(super) fn set_populated(&self, path: &str, populated: bool) {
        let text = format!("populated {}\nfrozen 0\n", u8::from(populated));
        self.write(path, "cgroup.events", &text);
    }

    /// Sets a quota, as the owner of a group does.
    pub(super) fn set_quota(&self, path: &str, quota_ms: u32) {
        self.write(path, "cpu.max", &format!("{} 100000\n", quota_ms * 1000));
    }

    pub(super) fn quota(&self, path: &str) -> Option<u32> {
        let text = fs::read_to_string(self.at(path).join("cpu.max")).unwrap();
        text.split(' ').next()?.parse::<u32>().ok().map(|us| us / 1000)
    }

    pub(super) fn allow_everybody(&self, path: &str) {
        fs::set_permissions(self.at(path), PermissionsExt::from_mode(0o777)).unwrap();
    }

    pub(super) fn look(&mut self) {
        for change in self.outside.look() {
            match change {
                Change::Came(arrival) => self.held.push(arrival.facts.uid.to_string()),
                Change::Went(uid) => self.held.retain(|held| *held != uid.as_str()),
                Change::Owned(owned) => {
                    let uid = &owned.arrival.facts.uid;
                    let [from, to, came] =
                        [owned.from, owned.to, owned.arrival.label.original_limit]
                            .map(|limit| limit.map_or("none".to_owned(), |it| it.to_string()));
                    assert_eq!(to, came);
                    self.owned.push(format!("{uid} from {from} to {to}"));
                }
                Change::Permitted(arrival) => {
                    let bounds = arrival.facts.bounds;
                    let (uid, min, max) = (arrival.facts.uid, bounds.min(), bounds.max());
                    self.owned.push(format!("{uid} has a right to {min} of {max}"));
                }
                Change::Limited(..) | Change::Took(_) | Change::Late(..) => {}
            }
        }
        self.held.sort();
        self.held.dedup();
    }

    /// Looks until something is wrong: whoever has to be asked answers when it likes.
    pub(super) fn look_until_a_problem(&mut self) {
        let start = Instant::now();
        while self.problems().is_empty() {
            assert!(start.elapsed() < Duration::from_secs(60), "there is no problem");
            self.look();
        }
    }

    /// Looks until every workload was compared with what was set on it.
    pub(super) fn look_at_all(&mut self) {
        for _ in 0..=60 {
            self.look();
        }
    }

    /// Sets a limit as the loop does.
    pub(super) fn set_limit(&mut self, path: &str, milli: u64) -> Set {
        let uid = WorkloadUid::new(path);
        let carried = self.outside.carry_out(&action(uid.clone(), milli));
        if carried == Carried::Gone {
            self.held.retain(|held| *held != uid.as_str());
        }
        Set(carried)
    }

    /// Who is sized.
    pub(super) fn held(&self) -> Vec<&str> {
        self.held.iter().map(String::as_str).collect()
    }

    /// What owners changed.
    /// From now on this is permitted, and nothing else.
    pub(super) fn permit(&self, permits: &[(&str, u64)]) {
        let caps =
            permits.iter().map(|(path, milli)| ((*path).to_owned(), Millicores::new(*milli)));
        self.outside.caps().set(caps.collect());
    }

    pub(super) fn owned(&self) -> Vec<&str> {
        self.owned.iter().map(String::as_str).collect()
    }

    /// Stops, and gives everything back.
    pub(super) fn stop(&mut self) -> usize {
        self.outside.restore_all()
    }

    /// To whom something is owed.
    pub(super) fn originals(&mut self) -> Vec<String> {
        let originals = self.outside.store().originals(BootId(0)).unwrap();
        let path = |path: String| path.trim_start_matches('/').to_owned();
        let mut paths: Vec<String> =
            originals.iter().map(|original| path(original.path.to_string())).collect();
        paths.sort();
        paths
    }

    pub(super) fn problems(&self) -> Vec<String> {
        self.outside.problems()
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.path().join(path.replace("ID", ID))
    }
}

fn layout(root: &tempfile::TempDir) -> Layout {
    Layout::at(Version::V2, root.path().to_path_buf(), root.path().to_path_buf())
}

/// What the loop says when it raises a workload to `milli`.
fn action(uid: WorkloadUid, milli: u64) -> Action {
    Action {
        uid,
        limit: Millicores::new(milli),
        request: Millicores::ZERO,
        weight: KernelWeight::from(walras_core::parse::CpuWeight::new(100).unwrap()),
        burst: Millicores::ZERO,
        why: Why::LatencyMissed,
    }
}
