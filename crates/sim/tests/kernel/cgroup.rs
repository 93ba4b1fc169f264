//! Control groups of this machine, made for one case and gone after it, also after a failed one.
//!
//! Names contain the process and a counter, so runs side by side do not meet; what dead processes
//! left behind is removed when a group is made. What cannot be done ends the test.

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};

use walras_cgroup::{
    Adopted, CgroupError, CgroupPath, Created, Layout, Original, Originals, Target,
    remove_left_behind,
};
use walras_core::demand::Sample;
use walras_core::units::Moment;

/// One group, without a limit as long as none is set.
#[derive(Debug)]
pub(crate) struct Group {
    adopted: Adopted,
    created: Created,
}

/// A group of our own goes with its case, so nobody has to remember what it had.
struct Forgotten;

const PREFIX: &str = "walras-kernel-";

// === impl Group ===

impl Group {
    /// A new group, with the weight that the kernel gives to everybody.
    pub(crate) fn create(layout: &Layout) -> Result<Self, CgroupError> {
        remove_left_behind(layout, &CgroupPath::ROOT, PREFIX.as_bytes())?;
        Self::create_in(layout, &CgroupPath::ROOT)
    }

    /// The same, below this one, which has to live longer.
    pub(crate) fn create_below(&self, layout: &Layout) -> Result<Self, CgroupError> {
        Self::create_in(layout, self.created.path())
    }

    fn create_in(layout: &Layout, parent: &CgroupPath) -> Result<Self, CgroupError> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let path = parent.join(name.as_bytes()).expect("no slash is in it");
        let created = Created::create(layout, &path)?;
        let adopted = created.open()?.adopt(&mut Forgotten)?;
        Ok(Self { adopted, created })
    }

    /// Sets what `target` names; the rest stays.
    pub(crate) fn set(&mut self, target: &Target) {
        self.adopted.apply(target).unwrap_or_else(|error| panic!("{target:?}: {error}"));
    }

    /// Moves a process into the group.
    pub(crate) fn put(&self, pid: u32) {
        self.created.put(pid).unwrap_or_else(|error| panic!("{pid}: {error}"));
    }

    /// What the kernel has counted for the group.
    pub(crate) fn counters(&self) -> Sample {
        let sample = self.adopted.group().sample(Moment::ORIGIN);
        sample.unwrap_or_else(|error| panic!("{error}"))
    }
}

// === impl Forgotten ===

impl Originals for Forgotten {
    fn keep(&mut self, _: &Original) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}
