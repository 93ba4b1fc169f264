//! The real nodes of a testbed: one or two, and what keeps two apart on one machine.
//!
//! Each has a containerd, a kubelet, an address, a cgroup and folders of its own. One node alone
//! has the whole machine. Of two, each has half of the CPUs: its kubelet reserves the others and
//! hands none of them to a container, so one node can be noisy while the other is quiet.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::plan::Part;
use crate::state::{Spec, State};

/// The most real nodes that a testbed may have.
pub const MOST_REAL_NODES: u32 = 2;

/// A real node of a testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Real {
    /// The one that every testbed with a real node has.
    First,
    /// The one beside it.
    Second,
}

impl Real {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::First => "node-1",
            Self::Second => "node-2",
        }
    }

    /// The loopback address of its kubelet.
    #[must_use]
    pub fn address(self, state: &State) -> Ipv4Addr {
        let [a, b, number, _] = state.address().octets();
        Ipv4Addr::new(a, b, number, self.number())
    }

    /// The name of its cgroup, below the root of each hierarchy; `kubepods` is made in it.
    #[must_use]
    pub fn cgroup(self, state: &State) -> String {
        match self {
            Self::First => state.cgroup(),
            Self::Second => format!("{}/{}", state.cgroup(), self.name()),
        }
    }

    /// The CPUs that its containers may use: all of the machine's where it is the only one.
    #[must_use]
    pub fn cpus(self, state: &State) -> Vec<u32> {
        let (cpus, half) = (&state.cpus, state.cpus.len() / 2);
        match (self, state.spec.second_real_node) {
            (Self::First, false) => cpus.clone(),
            (Self::First, true) => cpus.iter().take(half).copied().collect(),
            (Self::Second, _) => cpus.iter().skip(half).copied().collect(),
        }
    }

    /// The same as a list for a command line.
    #[must_use]
    pub fn cpu_list(self, state: &State) -> String {
        list(&self.cpus(state))
    }

    /// The CPUs that are not its own; none where it is the only one.
    pub(crate) fn reserved(self, state: &State) -> Option<String> {
        let own = self.cpus(state);
        let others: Vec<u32> =
            state.cpus.iter().filter(|cpu| !own.contains(cpu)).copied().collect();
        (!others.is_empty()).then(|| list(&others))
    }

    /// The last parts of the first and of the last address that its pods may have.
    pub(crate) fn pods(self, state: &State) -> (u8, u8) {
        match (self, state.spec.second_real_node) {
            (Self::First, false) => (2, 254),
            (Self::First, true) => (2, 127),
            (Self::Second, _) => (128, 254),
        }
    }

    /// Its folder in that of the testbed.
    pub(crate) fn dir(self, state: &State) -> PathBuf {
        match self {
            Self::First => state.dir.clone(),
            Self::Second => state.dir.join(self.name()),
        }
    }

    /// What holds the folders that only its processes see.
    pub(crate) const fn anchor(self) -> Part {
        match self {
            Self::First => Part::Anchor,
            Self::Second => Part::SecondAnchor,
        }
    }

    /// Its container runtime.
    pub(crate) const fn containerd(self) -> Part {
        match self {
            Self::First => Part::Containerd,
            Self::Second => Part::SecondContainerd,
        }
    }

    /// Its kubelet.
    pub(crate) const fn kubelet(self) -> Part {
        match self {
            Self::First => Part::Kubelet,
            Self::Second => Part::SecondKubelet,
        }
    }

    /// The names of the files with its certificates: as a client, and as a server.
    pub(crate) const fn certificates(self) -> (&'static str, &'static str) {
        match self {
            Self::First => ("kubelet", "kubelet-server"),
            Self::Second => ("kubelet-2", "kubelet-2-server"),
        }
    }

    const fn number(self) -> u8 {
        match self {
            Self::First => 1,
            Self::Second => 2,
        }
    }
}

/// The CPUs of this machine.
pub(crate) fn online() -> Result<Vec<u32>> {
    let path = "/sys/devices/system/cpu/online";
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    parse(&text).with_context(|| format!("{path} is `{}`", text.trim()))
}

/// Says if there are too few CPUs for `spec`.
pub(crate) fn check(spec: Spec, cpus: &[u32]) -> Result<()> {
    ensure!(
        !spec.second_real_node || cpus.len() >= 2,
        "two real nodes need two CPUs, one for each; this machine has {}",
        cpus.len()
    );
    Ok(())
}

fn list(cpus: &[u32]) -> String {
    let words: Vec<String> = cpus.iter().map(u32::to_string).collect();
    words.join(",")
}

/// CPUs as the kernel writes them, such as `0-3,8`.
pub(crate) fn parse(text: &str) -> Result<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u32>()?..=last.parse::<u32>()?);
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Life;

    fn state(real: u32, cpus: &[u32]) -> State {
        let mut state = State::pretend(7, Spec::with_real_nodes(real, real), Life::UntilDown);
        state.cpus = cpus.to_vec();
        state
    }

    #[test]
    fn two_nodes_share_nothing_that_can_be_told_apart() {
        let state = state(2, &[0, 1]);
        let both = [Real::First, Real::Second];
        assert_eq!(both.map(|node| node.address(&state).to_string()), ["127.90.7.1", "127.90.7.2"]);
        let groups = ["walras-testbed-7", "walras-testbed-7/node-2"];
        assert_eq!(both.map(|node| node.cgroup(&state)), groups);
        assert_eq!(both.map(|node| node.cpu_list(&state)), ["0", "1"]);
        assert_eq!(both.map(|node| node.reserved(&state)), [Some("1".into()), Some("0".into())]);
        assert_eq!(both.map(|node| node.pods(&state)), [(2, 127), (128, 254)]);
    }

    #[test]
    fn one_node_has_the_whole_machine_and_two_have_every_cpu_between_them() {
        let alone = state(1, &[0, 1, 2]);
        assert_eq!(Real::First.cpus(&alone), [0, 1, 2]);
        assert_eq!(Real::First.reserved(&alone), None);
        let odd = state(2, &[0, 1, 2, 8, 9]);
        assert_eq!(Real::First.cpus(&odd), [0, 1]);
        assert_eq!(Real::Second.cpu_list(&odd), "2,8,9");
    }

    #[test]
    fn cpus_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse("0-2,8\n").unwrap(), [0, 1, 2, 8]);
        assert_eq!(parse("0\n").unwrap(), [0]);
        parse("").unwrap_err();
        parse("0-x").unwrap_err();
        let pair = Spec::with_real_nodes(2, 2);
        let error = check(pair, &[0]).unwrap_err().to_string();
        assert!(error.contains("two real nodes need two CPUs"), "{error}");
        check(pair, &[0, 1]).unwrap();
    }
}
