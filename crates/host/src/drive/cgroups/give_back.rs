//! Gives workloads back what they came with: at the end, and when they are not sized any more.

use tracing::warn;
use walras_cgroup::Adopted;

use super::Cgroups;
use crate::adopt::{Judged, judge, read_marks, recognise};
use crate::drive::handle::Handle;

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
        self.judged.clear();
        count
    }

    pub(super) fn is_still_wanted(&self, path: &str) -> bool {
        let rules = &self.terms.adopt;
        recognise(rules, path).is_some_and(|seen| {
            matches!(judge(rules, &seen, &read_marks(rules, &seen)), Judged::Adopt(_))
        })
    }

    pub(super) fn give_back(&mut self, adopted: &mut Adopted) -> bool {
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
}
