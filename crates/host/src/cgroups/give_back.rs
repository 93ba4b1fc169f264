//! Gives workloads back what they came with: at the end, when they are not sized any more, and when
//! an earlier daemon left something that is not to be sized now.
//!
//! What cannot be given back now stays on record, is told, and is tried again at the next look.

use tracing::{info, warn};
use walras_cgroup::{Adopted, CgroupError, CgroupPath, Group, Identity, Original};

use super::handle::Handle;
use super::{Cgroups, Standing};

impl Cgroups {
    /// Gives every workload back what it came with. Says how many have it back.
    pub fn restore_all(&mut self) -> usize {
        let mut count = 0;
        for held in std::mem::take(&mut self.held).into_values() {
            if let Handle::Adopted(mut adopted) = held.handle
                && self.give_back(&mut adopted)
            {
                count += 1;
            }
        }
        count += self.give_back_known(|_, _| true);
        self.judged.clear();
        count
    }

    /// Gives back to what is on record at `path` or below it and is not adopted again.
    pub(super) fn give_back_inside(&mut self, path: &CgroupPath) {
        let act = self.terms.act;
        self.give_back_known(|_, original| {
            original.path.is_below(path) || (!act && original.path == *path)
        });
    }

    /// Gives one workload back what it came with. Says whether it has it.
    pub(super) fn give_back(&mut self, adopted: &mut Adopted) -> bool {
        self.settle_with_owner(adopted);
        let identity = adopted.original().identity;
        match adopted.restore() {
            Ok(_) => {}
            Err(error) if error.is_gone() => {}
            Err(error) => {
                warn!("{}: not given back: {error}", adopted.original().path);
                return false;
            }
        }
        if let Err(error) = self.store.forget_originals(&[identity]) {
            warn!("{error}");
        }
        true
    }

    /// Gives back to everybody who is not sized any more, nor going to be as soon as it can be.
    pub(super) fn give_back_left_over(&mut self) {
        self.give_back_known(|this, original| {
            let standing = this.judged.get(&original.identity);
            !matches!(standing, Some((Standing::Waits | Standing::Asked, _)))
        });
    }

    /// Gives back what is on record of groups that fit and are not sized. Says how many have it.
    pub(super) fn give_back_known(&mut self, fits: impl Fn(&Self, &Original) -> bool) -> usize {
        let due: Vec<Identity> = self
            .originals
            .values()
            .filter(|original| fits(self, original))
            .map(|original| original.identity)
            .collect();
        let (mut done, mut restored) = (Vec::new(), 0);
        for identity in due {
            let Some(original) = self.originals.get(&identity) else { continue };
            match self.restore(original) {
                Ok(()) => {
                    info!("{}: is not sized any more, and has what it came with", original.path);
                    restored += 1;
                }
                Err(error) if error.is_gone() => {}
                Err(error) => {
                    let told = format!("{} is owed what it came with: {error}", original.path);
                    if self.owed.insert(identity, told.clone()).as_ref() != Some(&told) {
                        warn!("{told}");
                    }
                    continue;
                }
            }
            self.originals.remove(&identity);
            self.owed.remove(&identity);
            done.push(identity);
        }
        if let Err(error) = self.store.forget_originals(&done) {
            warn!("{error}");
        }
        restored
    }

    fn restore(&self, original: &Original) -> Result<(), CgroupError> {
        let group = Group::open(&self.layout, &original.path)?;
        group.adopt_again(original.clone())?.restore().map(|_| ())
    }
}
