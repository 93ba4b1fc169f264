//! Which CPUs of a node a group may run on, and which sets of them can become scarce.

/// Some of a node's CPUs, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuSet(u128);

// === impl CpuSet ===

impl CpuSet {
    /// A node has at most so many CPUs of which groups can be given some.
    pub const MAX: u32 = u128::BITS;
    /// The most sets of CPUs that a machine watches over, see [`CpuSet::regions`].
    pub const REGIONS_MAX: usize = 256;

    /// These CPUs; none where there is no CPU, or one with a number of [`CpuSet::MAX`] or more.
    #[must_use]
    pub fn of(numbers: impl IntoIterator<Item = u32>) -> Option<Self> {
        let bits = numbers
            .into_iter()
            .try_fold(0_u128, |bits, number| (number < Self::MAX).then(|| bits | 1 << number))?;
        (bits != 0).then_some(Self(bits))
    }

    /// All CPUs of a node. A part of a core is a CPU of its own, the last one.
    #[must_use]
    pub fn all(node_cores: f64) -> Option<Self> {
        Self::of(0..cpus_of(node_cores))
    }

    /// How many cores they are on a node of `node_cores`.
    #[must_use]
    pub fn cores(self, node_cores: f64) -> f64 {
        let last = cpus_of(node_cores).saturating_sub(1);
        let whole = f64::from(self.0.count_ones());
        if self.0 >> last & 1 == 1 { whole - (f64::from(last) + 1.0 - node_cores) } else { whole }
    }

    /// Whether all of them are among the others.
    #[must_use]
    pub const fn is_within(self, others: Self) -> bool {
        self.0 & !others.0 == 0
    }

    /// Every set of CPUs that can become scarce for groups that are bound to `sets`: the sets, and
    /// the unions of those that overlap. None where there are more than [`CpuSet::REGIONS_MAX`].
    #[must_use]
    pub fn regions(sets: impl IntoIterator<Item = Self>) -> Option<Vec<Self>> {
        let mut regions: Vec<Self> = Vec::new();
        for set in sets {
            // Unions with what is already there, each of which may overlap with more of it.
            let mut fresh = vec![set];
            while let Some(set) = fresh.pop() {
                if regions.contains(&set) {
                    continue;
                }
                let overlapping = regions.iter().filter(|other| other.0 & set.0 != 0);
                fresh.extend(overlapping.map(|other| Self(other.0 | set.0)));
                regions.push(set);
                if regions.len() > Self::REGIONS_MAX {
                    return None;
                }
            }
        }
        Some(regions)
    }
}

/// How many CPUs make so many cores.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, as meant")]
fn cpus_of(node_cores: f64) -> u32 {
    node_cores.ceil() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[u32]) -> CpuSet {
        CpuSet::of(numbers.iter().copied()).expect("some CPUs")
    }

    #[test]
    fn the_last_cpu_of_a_node_may_be_a_part_of_a_core() {
        assert_eq!(set(&[0, 2]).cores(4.0), 2.0);
        assert_eq!(set(&[0, 3]).cores(3.5), 1.5);
        assert_eq!(CpuSet::all(128.0).map(|all| all.cores(128.0)), Some(128.0));
        assert_eq!((CpuSet::of([]), CpuSet::of([128]), CpuSet::all(128.5)), (None, None, None));
    }

    #[test]
    fn what_overlaps_can_be_scarce_together_and_what_does_not_cannot() {
        let apart = CpuSet::regions([set(&[0, 1]), set(&[2]), set(&[0, 1])]).expect("few");
        assert_eq!(apart, [set(&[0, 1]), set(&[2])]);
        let chain = CpuSet::regions([set(&[0, 1]), set(&[1, 2]), set(&[2, 3])]).expect("few");
        // Three sets, two unions of two of them, and all.
        assert_eq!(chain.len(), 6);
        let pairs = (0..40).flat_map(|one| (0..40).map(move |other| set(&[one, other])));
        assert_eq!(CpuSet::regions(pairs), None);
    }
}
