//! What a scenario file says of the groups of a pod: the containers in it, and the CPUs it is bound
//! to. A number of CPUs takes the next ones in turn, over all pods of a node and from the first on
//! again after the last, as a manager of CPUs would that spreads pods out.

use std::collections::BTreeSet;

use toml::de::DeValue;
use walras_core::units::Millicores;

use super::ContainerSpec;
use super::kind::{CpuOrNone, Text};
use crate::machine::CpuSet;
use walras_wire::settings::Fields;
use walras_wire::settings::{Kind, Number, Whole};

/// Weights as cgroup v2 has them.
pub(super) const KERNEL_WEIGHT: Whole<u32> = Whole { of: "weight", least: 1, most: 10_000 };
/// What a group has that nobody weighed.
pub(super) const DEFAULT_KERNEL_WEIGHT: u32 = 100;

const NAME: Text = Text { most_bytes: 100 };
const SHARE: Number = Number { of: "", least: 0.001, most: 1000.0 };

/// Which CPUs a pod is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CpuChoice {
    /// The next ones.
    Next(u32),
    /// These.
    These(CpuSet),
}

/// The CPUs of a node, handed out in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// How many there are; none where that is not known.
    cpus: Option<u32>,
    next: u32,
}

/// A number of CPUs, or the numbers of some.
#[derive(Clone, Copy, Debug)]
struct Cpus;

/// The containers of a pod, which has this limit.
pub(super) fn containers(pod: &mut Fields<'_>, limit: Option<Millicores>) -> Vec<ContainerSpec> {
    let mut containers = Vec::new();
    let mut taken = BTreeSet::new();
    let tables = if pod.has("containers") {
        pod.tables("containers")
    } else {
        pod.optional_tables("containers")
    };
    for mut table in tables {
        if let Some(container) = container(&mut table, limit) {
            if !taken.insert(container.name.clone()) {
                table.problem("name", "is the name of another container of the pod".to_owned());
            }
            containers.push(container);
        }
        pod.finish(table);
    }
    containers
}

fn container(table: &mut Fields<'_>, of_pod: Option<Millicores>) -> Option<ContainerSpec> {
    let name = table.required("name", &NAME);
    let share = table.required("share", &SHARE);
    let limit = table.optional("limit", &CpuOrNone).flatten();
    let weight = table.optional("weight", &KERNEL_WEIGHT).unwrap_or(DEFAULT_KERNEL_WEIGHT);
    if let (Some(limit), Some(of_pod)) = (limit, of_pod)
        && limit > of_pod
    {
        table.problem("limit", format!("is more than the limit of the pod, which is {of_pod}"));
    }
    Some(ContainerSpec { name: name?, share: share?, limit, weight })
}

/// The CPUs that a pod is bound to, if it is.
pub(super) fn cpus(pod: &mut Fields<'_>, turn: &Turn) -> Option<CpuChoice> {
    let choice = pod.optional("cpus", &Cpus)?;
    let of_node = turn.cpus?;
    let Some(all) = turn.all() else {
        let what = format!(
            "is given, but the node has {of_node} CPUs; up to {} can be told apart",
            CpuSet::MAX
        );
        pod.problem("cpus", what);
        return None;
    };
    let fits = match &choice {
        CpuChoice::Next(count) => *count <= of_node,
        CpuChoice::These(cpus) => cpus.is_within(all),
    };
    if !fits {
        pod.problem("cpus", format!("does not fit: the node has {of_node} CPUs, counted from 0"));
    }
    fits.then_some(choice)
}

// === impl Turn ===

impl Turn {
    /// All CPUs of a node, from the first on.
    pub(super) fn of(capacity: Option<Millicores>) -> Self {
        let cpus = |capacity: Millicores| u32::try_from(capacity.get().div_ceil(1000));
        Self { cpus: capacity.map(|capacity| cpus(capacity).unwrap_or(u32::MAX)), next: 0 }
    }

    /// All of them, where they can be told apart.
    pub(super) fn all(&self) -> Option<CpuSet> {
        CpuSet::of(0..self.cpus?)
    }

    /// The CPUs of the next pod of its kind.
    pub(super) fn take(&mut self, choice: &CpuChoice) -> Option<CpuSet> {
        match choice {
            CpuChoice::These(cpus) => Some(*cpus),
            CpuChoice::Next(count) => {
                let (from, of_node) = (self.next, self.cpus?.max(1));
                self.next = (from + count) % of_node;
                CpuSet::of((from..from + count).map(|number| number % of_node))
            }
        }
    }
}

// === impl Kind ===

impl Kind for Cpus {
    type Meaning = CpuChoice;

    fn accept(&self, written: &DeValue<'_>) -> Option<CpuChoice> {
        let count = Whole { of: "CPUs", least: 1, most: CpuSet::MAX };
        let number = Whole { of: "CPUs", least: 0, most: CpuSet::MAX - 1 };
        match written.as_array() {
            None => count.accept(written).map(CpuChoice::Next),
            Some(list) => {
                let numbers = list.iter().map(|entry| number.accept(entry.get_ref()));
                let numbers: Vec<u32> = numbers.collect::<Option<_>>()?;
                CpuSet::of(numbers).map(CpuChoice::These)
            }
        }
    }

    fn what(&self) -> String {
        format!("a number of CPUs from 1 to {}, nor a list of them such as [0, 1]", CpuSet::MAX)
    }
}
