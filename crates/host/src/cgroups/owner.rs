//! What the owner of a workload changes in it while it is sized, as `docker update` does.
//!
//! That is the owner's word: it is kept as what the workload came with, and told. What we wrote
//! ourselves, whole or in part, is not taken for it. Noticed before every change of ours, and else
//! once in a while.

use std::collections::BTreeMap;

use tracing::warn;
use walras_cgroup::{Adopted, CgroupError, Settings};
use walras_core::units::{Millicores, WorkloadUid};

use super::handle::Handle;
use super::records::Records;
use super::{Cgroups, Fresh, Held, LOOKS_PER_ROUND, Standing, limit_of};
use walras_node::drive::{Change, Owned};
use walras_node::store::Store;

/// A change that an owner made.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByOwner {
    from: Option<Millicores>,
    to: Option<Millicores>,
    pub(super) in_force: Settings,
}

impl Held {
    /// Whether what is in force was written by its engine on our behalf.
    pub(super) fn is_written_for_us(&self, records: &Records, uid: &WorkloadUid) -> bool {
        self.handle.group().max().is_ok_and(|in_force| records.is_ours(uid, &in_force))
    }

    /// What the owner of a workload changed in it since the last time, after that was kept.
    pub(super) fn owners_change(
        &mut self,
        store: &mut Store,
    ) -> Result<Option<ByOwner>, CgroupError> {
        match &mut self.handle {
            Handle::Adopted(adopted) => {
                let change = adopted.take_owners_change(store)?;
                Ok(change.map(|change| ByOwner {
                    from: change.from.max.limit_floor(),
                    to: change.to.max.limit_floor(),
                    in_force: change.in_force,
                }))
            }
            // Who only watches changes nothing, so whatever changed is the owner's.
            Handle::Watched(group) => {
                let in_force = group.settings()?;
                let limited = |limit: Millicores| Some(limit).filter(|it| !it.is_unlimited());
                let (from, to) = (limited(self.limit), limited(limit_of(&in_force)));
                Ok((from != to).then_some(ByOwner { from, to, in_force }))
            }
        }
    }
}

impl Cgroups {
    /// Compares a few workloads with what was set on them, each of them once in a while, and lets
    /// go of those that have no processes any more.
    pub(super) fn compare(&mut self, changes: &mut Vec<Change>) {
        let count = self.held.len().div_ceil(LOOKS_PER_ROUND);
        let from = self.next_compared.take();
        let start = |uid: &WorkloadUid| from.as_ref().is_some_and(|from| uid < from);
        let (mut emptied, mut owned) = (Vec::new(), std::mem::take(&mut self.overtaken));
        let mut rest = self.held.iter_mut().skip_while(|(uid, _)| start(uid));
        for (uid, held) in rest.by_ref().take(count) {
            if held.handle.group().is_populated().is_ok_and(|populated| !populated) {
                emptied.push(uid.clone());
                continue;
            }
            if held.is_written_for_us(&self.records, uid) {
                continue;
            }
            match held.owners_change(&mut self.store) {
                Ok(Some(change)) => {
                    owned.insert(uid.clone(), change);
                }
                Ok(None) => {
                    let limit = held.handle.group().settings().map(|it| limit_of(&it));
                    if let Some(limit) = limit.ok().filter(|limit| *limit != held.limit) {
                        held.limit = limit;
                        changes.push(Change::Limited(uid.clone(), limit));
                    }
                }
                Err(error) if error.is_gone() => {}
                Err(error) => warn!("it cannot be told whether its owner changed it: {error}"),
            }
        }
        self.next_compared = rest.next().map(|(uid, _)| uid.clone());
        self.tell_owned(owned, changes);
        for uid in emptied {
            self.let_go_of_empty(&uid);
            changes.push(Change::Went(uid));
        }
    }

    /// Takes a change of the owner's into account before a workload gets back what it came with.
    pub(super) fn settle_with_owner(&mut self, adopted: &mut Adopted) {
        match adopted.take_owners_change(&mut self.store) {
            Ok(_) => {}
            Err(error) if error.is_gone() => {}
            Err(error) => warn!("it cannot be told whether its owner changed it: {error}"),
        }
    }

    /// Every workload whose owner changed it is here anew, with what it came with now.
    fn tell_owned(&mut self, owned: BTreeMap<WorkloadUid, ByOwner>, changes: &mut Vec<Change>) {
        for (uid, ByOwner { from, to, in_force }) in owned {
            let Some(held) = self.held.remove(&uid) else { continue };
            let Held { handle, adoption, told, user, .. } = held;
            let arrival = self.arrival(Fresh { handle, adoption, told, user, settings: in_force });
            changes.push(Change::Owned(Box::new(Owned { arrival, from, to })));
        }
    }

    /// A group without processes has what it came with, and may be a workload again.
    fn let_go_of_empty(&mut self, uid: &WorkloadUid) {
        let Some(held) = self.held.remove(uid) else { return };
        self.judged.insert(held.identity, (Standing::Empty, self.looks));
        if let Handle::Adopted(mut adopted) = held.handle
            && !self.give_back(&mut adopted)
        {
            self.originals.insert(held.identity, adopted.original().clone());
        }
    }
}
