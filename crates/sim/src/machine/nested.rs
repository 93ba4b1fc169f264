//! One slice of a machine whose groups form a tree, or are bound to some of its CPUs.
//!
//! Called by the machine where one of both is so; a plain machine has a shorter way to the same
//! result. From the leaves up it is found out what each group can run at most, then the cores are
//! divided from the top down: by weight among siblings, up to what each can run. Only groups at the
//! top are bound to CPUs, and what is in them is bound with them.
//!
//! Always: a group runs what its children run, quotas hold at each level, and no set of CPUs runs
//! more than it has.

use super::cpus::CpuSet;
use super::group::{Group, Part};
use super::share::{self, Share};
use super::{SLICE_MS, Want};

/// How the groups of a machine are arranged.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    node_cores: f64,
    /// By place. A parent's place is before those of its children.
    nodes: Vec<Node>,
    /// Empty where nobody is bound to CPUs.
    regions: Vec<Region>,
    // Kept from slice to slice: the part of each group, and what is being divided.
    parts: Vec<Part>,
    awake: Vec<usize>,
    shares: Vec<Share>,
}

/// One group in the tree.
#[derive(Clone, Debug)]
struct Node {
    parent: Option<usize>,
    children: Vec<usize>,
    cpus: Option<CpuSet>,
    cores: f64,
}

/// Some CPUs, and the groups at the top that can run nowhere else.
#[derive(Clone, Debug)]
struct Region {
    cores: f64,
    /// By place.
    members: Vec<bool>,
}

// === impl Layout ===

impl Layout {
    /// So many groups side by side.
    pub(super) fn flat(node_cores: f64, groups: usize) -> Self {
        let top = Node { parent: None, children: Vec::new(), cpus: None, cores: node_cores };
        Self {
            node_cores,
            nodes: vec![top; groups],
            regions: Vec::new(),
            parts: Vec::new(),
            awake: Vec::new(),
            shares: Vec::new(),
        }
    }

    /// One more group, below another.
    pub(super) fn add_child(&mut self, parent: usize) {
        let child = self.nodes.len();
        let cores = self.nodes[parent].cores;
        self.nodes[parent].children.push(child);
        self.nodes.push(Node { parent: Some(parent), children: Vec::new(), cpus: None, cores });
        self.find_regions();
    }

    /// Binds a group at the top to some CPUs.
    pub(super) fn bind(&mut self, place: usize, cpus: CpuSet) {
        assert!(self.nodes[place].parent.is_none(), "only groups at the top are bound to CPUs");
        let all = CpuSet::all(self.node_cores);
        assert!(all.is_some_and(|all| cpus.is_within(all)), "the node has other CPUs");
        self.nodes[place].cpus = Some(cpus);
        self.find_regions();
    }

    /// The cores on which a group can run.
    pub(super) fn cores(&self, place: usize) -> f64 {
        self.nodes[place].cores
    }

    /// A group, its parent, and so on.
    pub(super) fn with_ancestors(&self, place: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(place), |&place| self.nodes[place].parent)
    }

    /// Runs one slice, and says how much ran in all.
    pub(super) fn run(&mut self, groups: &mut [Group], wants: &[Want], got: &mut [f64]) -> f64 {
        self.find_parts(groups, wants);
        self.divide_top(groups);
        for place in 0..self.nodes.len() {
            self.divide_below(place, groups);
        }
        let mut used = 0.0;
        for place in (0..self.nodes.len()).rev() {
            got[place] = self.parts[place].got;
            let stalled_ms = groups[place].ran(&self.parts[place]);
            match self.nodes[place].parent {
                // Some thread of a group waits while some thread of a child does.
                Some(parent) => {
                    let floor_ms = &mut self.parts[parent].stalled_least_ms;
                    *floor_ms = floor_ms.max(stalled_ms);
                }
                None => used += self.parts[place].got,
            }
        }
        used
    }

    /// What each group wants and can run at most, from the leaves up.
    fn find_parts(&mut self, groups: &[Group], wants: &[Want]) {
        self.parts.clear();
        self.parts.resize(self.nodes.len(), Part::default());
        for (place, node) in self.nodes.iter().enumerate().rev() {
            let mut part = if node.children.is_empty() {
                Part::of(&wants[place], node.cores)
            } else {
                assert!(
                    wants[place].work_core_ms <= 0.0,
                    "a group with groups below has no threads"
                );
                self.parts[place]
            };
            part.runnable = part.runnable.min(node.cores * f64::from(SLICE_MS));
            part.most = part.runnable.min(groups[place].left_core_ms()).max(0.0);
            self.parts[place] = part;
            if let Some(parent) = node.parent {
                let above = &mut self.parts[parent];
                above.threads = (above.threads + part.threads).min(node.cores);
                above.wanted = (above.wanted + part.wanted).min(node.cores * f64::from(SLICE_MS));
                above.runnable += part.most;
            }
        }
    }

    /// Divides the node among the groups at the top.
    fn divide_top(&mut self, groups: &[Group]) {
        let places = (0..self.nodes.len()).filter(|&place| self.nodes[place].parent.is_none());
        self.awake.clear();
        self.awake.extend(places.filter(|&place| self.parts[place].most > 0.0));
        self.gather(groups);
        let slice_ms = f64::from(SLICE_MS);
        if self.regions.is_empty() {
            share::divide(self.node_cores * slice_ms, &mut self.shares);
        } else {
            divide_regions(&self.regions, &self.awake, &mut self.shares);
        }
        self.hand_out();
    }

    /// Divides what a group got among those below it.
    fn divide_below(&mut self, place: usize, groups: &[Group]) {
        let pool = self.parts[place].got;
        if pool <= 0.0 || self.nodes[place].children.is_empty() {
            return;
        }
        self.awake.clear();
        let children = self.nodes[place].children.iter().copied();
        self.awake.extend(children.filter(|&child| self.parts[child].most > 0.0));
        self.gather(groups);
        share::divide(pool, &mut self.shares);
        self.hand_out();
    }

    fn gather(&mut self, groups: &[Group]) {
        self.shares.clear();
        let share = |&place: &usize| Share::new(self.parts[place].most, groups[place].weight());
        self.shares.extend(self.awake.iter().map(share));
    }

    fn hand_out(&mut self) {
        for (&place, share) in self.awake.iter().zip(&self.shares) {
            self.parts[place].got = share.got;
        }
    }

    /// Takes note of which CPUs can become scarce, and of how many cores each group has.
    fn find_regions(&mut self) {
        self.regions.clear();
        if self.nodes.iter().all(|node| node.cpus.is_none()) {
            return;
        }
        let all = CpuSet::all(self.node_cores).expect("a group is bound to some of its CPUs");
        let node_cores = self.node_cores;
        let sets = self.nodes.iter().map(|node| match node.parent {
            // What is below others has no CPUs of its own.
            Some(_) => None,
            None => Some(node.cpus.unwrap_or(all)),
        });
        let sets: Vec<Option<CpuSet>> = sets.collect();
        let regions = CpuSet::regions(std::iter::once(all).chain(sets.iter().copied().flatten()))
            .expect("whoever binds groups asks first whether their sets are too many");
        self.regions.extend(regions.into_iter().map(|cpus| Region {
            cores: cpus.cores(node_cores),
            members: sets.iter().map(|set| set.is_some_and(|set| set.is_within(cpus))).collect(),
        }));
        for (place, set) in sets.into_iter().enumerate() {
            self.nodes[place].cores = match self.nodes[place].parent {
                Some(parent) => self.nodes[parent].cores,
                None => set.unwrap_or(all).cores(node_cores),
            };
        }
    }
}

/// Divides all CPUs by weight, up to what each group can run and each region has. Everybody's share
/// grows at the same pace for its weight, until it has all it can run or a region it is in is full.
fn divide_regions(regions: &[Region], awake: &[usize], shares: &mut [Share]) {
    let slice_ms = f64::from(SLICE_MS);
    let members = |region: &Region| {
        let places = awake.iter().enumerate();
        places.filter(|(_, place)| region.members[**place]).map(|(index, _)| index).collect()
    };
    let regions: Vec<(f64, Vec<usize>)> =
        regions.iter().map(|region| (region.cores * slice_ms, members(region))).collect();
    loop {
        // How much each may have for its weight until the next of them is full.
        let mut level = f64::INFINITY;
        for share in shares.iter().filter(|share| !share.settled) {
            level = level.min(share.most / share.weight);
        }
        let full_at = |(core_ms, members): &(f64, Vec<usize>), shares: &[Share]| {
            let (mut left, mut weights) = (*core_ms, 0.0);
            for share in members.iter().map(|&index| &shares[index]) {
                if share.settled {
                    left -= share.got;
                } else {
                    weights += share.weight;
                }
            }
            if weights > 0.0 { left.max(0.0) / weights } else { f64::INFINITY }
        };
        for region in &regions {
            level = level.min(full_at(region, shares));
        }
        if level.is_infinite() {
            return;
        }
        // What is a rounding error away from being full is full.
        let reached = level * (1.0 + 1e-12);
        let full = regions.iter().filter(|region| full_at(region, shares) <= reached);
        let in_full: Vec<usize> = full.flat_map(|(_, members)| members.iter().copied()).collect();
        for (index, share) in shares.iter_mut().enumerate() {
            if share.settled {
                continue;
            }
            if share.most / share.weight <= reached {
                share.got = share.most;
                share.settled = true;
            } else if in_full.contains(&index) {
                share.got = share.weight * level;
                share.settled = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use walras_core::units::Millicores;

    use super::*;
    use crate::machine::Machine;

    /// Wants all it can get.
    const ENDLESS: Want = Want { threads: 4.0, work_core_ms: f64::INFINITY };
    const NOTHING: Want = Want { threads: 0.0, work_core_ms: 0.0 };

    fn slice(machine: &mut Machine, wants: &[Want]) -> Vec<f64> {
        let mut got = vec![0.0; wants.len()];
        machine.run_slice(wants, &mut got);
        got.iter().map(|ms| (ms * 1000.0).round() / 1000.0).collect()
    }

    /// Two groups on one core, of which the first has two children with weights of 3 to 1.
    fn family() -> Machine {
        let mut machine = Machine::new(1.0, 2);
        for weight in [300, 100] {
            let child = machine.add_child(0);
            machine.group_mut(child).set_weight(weight);
        }
        machine
    }

    fn limit(machine: &mut Machine, place: usize, limit: u64) {
        machine.group_mut(place).set_limit(Some(Millicores::new(limit)), Millicores::ZERO);
    }

    /// Periods and throttled ones.
    fn periods(machine: &Machine, place: usize) -> (u64, u64) {
        let counters = machine.group(place).counters();
        (counters.nr_periods, counters.nr_throttled)
    }

    #[test]
    fn weights_share_among_siblings_at_each_level() {
        let got = slice(&mut family(), &[NOTHING, ENDLESS, ENDLESS, ENDLESS]);
        assert_eq!(got, [5.0, 5.0, 3.75, 1.25]);
    }

    #[test]
    fn what_one_child_leaves_goes_to_its_sibling_before_it_goes_to_others() {
        let little = Want { threads: 1.0, work_core_ms: 1.0 };
        let got = slice(&mut family(), &[NOTHING, ENDLESS, little, ENDLESS]);
        assert_eq!(got, [5.0, 5.0, 1.0, 4.0]);
        let got = slice(&mut family(), &[NOTHING, ENDLESS, little, NOTHING]);
        assert_eq!(got, [1.0, 9.0, 1.0, 0.0]);
    }

    #[test]
    fn a_parents_quota_holds_its_children_and_is_counted_at_the_parent_alone() {
        let mut machine = family();
        limit(&mut machine, 0, 200);
        limit(&mut machine, 2, 500);
        for _ in 0..20 {
            slice(&mut machine, &[NOTHING, ENDLESS, ENDLESS, NOTHING]);
        }
        let used = |place| machine.group(place).counters().usage_core_ms;
        assert!((used(0) - 40.0).abs() < 1e-9 && (used(2) - 40.0).abs() < 1e-9);
        assert_eq!((periods(&machine, 0), periods(&machine, 2)), ((2, 2), (2, 0)));
        // The child's threads wait all the same.
        assert!(machine.group(2).counters().stalled_ms > 100.0);
    }

    #[test]
    fn a_childs_quota_is_counted_at_the_child_alone_and_its_waiting_at_both() {
        let mut machine = family();
        limit(&mut machine, 0, 500);
        limit(&mut machine, 2, 200);
        let one = Want { threads: 1.0, work_core_ms: f64::INFINITY };
        for _ in 0..20 {
            slice(&mut machine, &[NOTHING, NOTHING, one, NOTHING]);
        }
        assert_eq!((periods(&machine, 0), periods(&machine, 2)), ((2, 0), (2, 2)));
        assert!((machine.group(0).counters().usage_core_ms - 40.0).abs() < 1e-9);
        let stalled = |place| machine.group(place).counters().stalled_ms;
        assert!((stalled(0) - 160.0).abs() < 1e-9 && (stalled(2) - 160.0).abs() < 1e-9);
    }

    #[test]
    fn what_a_child_gives_back_its_parent_has_again() {
        let mut machine = family();
        limit(&mut machine, 0, 100);
        slice(&mut machine, &[NOTHING, NOTHING, ENDLESS, NOTHING]);
        machine.gave_back(2, 4.0);
        assert!((machine.group(0).counters().usage_core_ms - 6.0).abs() < 1e-9);
        assert_eq!(slice(&mut machine, &[NOTHING, NOTHING, ENDLESS, NOTHING])[0], 4.0);
    }

    /// Groups of these weights on four CPUs, each bound to CPUs, and what they get.
    fn bound(groups: &[(u32, &[u32])]) -> Vec<f64> {
        let mut machine = Machine::new(4.0, groups.len());
        for (place, (weight, cpus)) in groups.iter().enumerate() {
            machine.group_mut(place).set_weight(*weight);
            if let Some(cpus) = CpuSet::of(cpus.iter().copied()) {
                machine.bind(place, cpus);
            }
        }
        slice(&mut machine, &vec![ENDLESS; groups.len()])
    }

    #[test]
    fn a_group_runs_on_its_cpus_and_leaves_the_others_to_the_rest() {
        assert_eq!(bound(&[(100, &[0]), (100, &[])]), [10.0, 30.0]);
        assert_eq!(bound(&[(10_000, &[0, 1]), (1, &[])]), [20.0, 20.0]);
        assert_eq!(bound(&[(300, &[2]), (100, &[2]), (1, &[3])]), [7.5, 2.5, 10.0]);
    }

    #[test]
    fn shared_cpus_are_shared_by_weight_once_the_others_are_full() {
        // The third fills its CPU and needs no other. The first two share what they have left: the
        // first has nowhere else to go, and would have more than its half of 20 on both.
        assert_eq!(bound(&[(100, &[0]), (100, &[0, 1]), (300, &[1])]), [5.0, 5.0, 10.0]);
        assert_eq!(bound(&[(100, &[0, 1]), (100, &[1, 2]), (200, &[0, 1, 2])]), [7.5, 7.5, 15.0]);
    }

    #[test]
    fn containers_are_bound_with_their_pod() {
        let mut machine = Machine::new(4.0, 2);
        machine.bind(0, CpuSet::of([0]).expect("a CPU"));
        let child = machine.add_child(0);
        assert_eq!(slice(&mut machine, &[NOTHING, ENDLESS, ENDLESS]), [10.0, 30.0, 10.0]);
        assert_eq!((machine.cores_of(child), machine.cores_of(1)), (1.0, 4.0));
    }
}
