//! The control group of a machine's process.
//!
//! A machine `db` is in `walras/vm-db/qemu`. The outer group is what the host's market finds and
//! sizes, like every group in `walras`; the inner one holds the process, and has a quota where the
//! machine has a fraction of a CPU. So the two never write the same file.

use std::error::Error;

use walras_cgroup::{CgroupError, CgroupPath, Created, Group, Layout, Original, Originals, Target};
use walras_core::parse::CpuMax;
use walras_core::units::Millicores;

/// Where the groups of machines are.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    layout: Layout,
    parent: CgroupPath,
}

/// Nobody has to be given anything back: the group is ours, and goes with its machine.
struct Ours;

impl Originals for Ours {
    fn keep(&mut self, _: &Original) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}

impl Groups {
    /// In the group `parent`, which is made if it is not there.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn new(layout: Layout, parent: CgroupPath) -> Result<Self, CgroupError> {
        let groups = Self { layout, parent };
        groups.make(&groups.parent)?;
        Ok(groups)
    }

    /// Puts a process into the group of the machine `name`.
    pub(crate) fn put(&self, name: &str, pid: u32) -> Result<(), CgroupError> {
        let (outer, inner) = self.paths(name);
        self.make(&outer)?;
        self.make(&inner)?;
        let group = Created::taken_over(&self.layout, &inner);
        let put = group.put(pid);
        group.leave();
        put
    }

    /// What the process may use; nothing where it is not limited.
    pub(crate) fn quota(&self, name: &str) -> Result<Option<Millicores>, CgroupError> {
        let (_, inner) = self.paths(name);
        Ok(millicores(Group::open(&self.layout, &inner)?.max()?))
    }

    /// Limits it, or does not.
    pub(crate) fn limit(&self, name: &str, quota: Option<Millicores>) -> Result<(), CgroupError> {
        let (_, inner) = self.paths(name);
        let limit = Some(quota.unwrap_or(Millicores::UNLIMITED));
        let mut adopted = Group::open(&self.layout, &inner)?.adopt(&mut Ours)?;
        adopted.apply(&Target { limit, weight: None, burst: None }).map(|_| ())
    }

    /// Removes the groups of a machine that is gone.
    pub(crate) fn remove(&self, name: &str) -> Result<(), CgroupError> {
        let (outer, inner) = self.paths(name);
        for path in [inner, outer] {
            let there = path.under(self.layout.cpu_root()).exists();
            if there {
                Created::taken_over(&self.layout, &path).remove()?;
            }
        }
        Ok(())
    }

    fn make(&self, path: &CgroupPath) -> Result<(), CgroupError> {
        if !path.under(self.layout.cpu_root()).exists() {
            Created::create(&self.layout, path)?.leave();
        }
        Ok(())
    }

    fn paths(&self, name: &str) -> (CgroupPath, CgroupPath) {
        let joined = |path: &CgroupPath, name: &str| path.join(name.as_bytes());
        // A machine's name is no path and not empty, so neither is what is made of it.
        let outer = joined(&self.parent, &format!("vm-{name}"));
        let outer = outer.unwrap_or_else(|| self.parent.clone());
        let inner = joined(&outer, "qemu").unwrap_or_else(|| outer.clone());
        (outer, inner)
    }
}

fn millicores(max: CpuMax) -> Option<Millicores> {
    let period = max.period.as_us().max(1);
    max.quota.map(|quota| Millicores::new((quota.as_us() * 1000 + period / 2) / period))
}
