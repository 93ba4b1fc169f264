//! What can be asked of the manager. Requests change what is wanted, and nothing else.

use tracing::info;
use walras_core::run::{
    Desired, Needs, Refusal, Spec, Status, Step, Verdict, Workload, WorkloadId, admit,
};

use crate::clock::now;
use crate::store::Quarantined;

use super::entry::Secrets;
use super::{Action, ActionState, Applied, Denied, Entry, Filter, LOOK_WITHIN, Manager, State};

impl Manager {
    /// Makes a workload what `spec` says, in the background; with `dry_run`, only says what that
    /// would come to. `who` asked.
    ///
    /// # Errors
    /// It was not taken, and nothing was changed.
    pub fn apply(
        &self,
        id: &WorkloadId,
        spec: Spec,
        desired: Desired,
        secrets: Secrets,
        dry_run: bool,
        who: &str,
    ) -> Result<Applied, Denied> {
        let now = now();
        let mut guard = self.lock();
        let state = &mut *guard;
        let verdict = state.entries.get(id).map(|it| it.workload.judge(&spec.revision, desired));
        if verdict == Some(Verdict::Deleting) {
            return Err(Denied::Deleting(id.clone()));
        }
        if verdict != Some(Verdict::Same) {
            self.check_room(state, id, &spec, desired)?;
        }
        let mut after = match state.entries.get(id) {
            Some(entry) => entry.workload.clone(),
            None => Workload::new(id.clone(), spec.clone(), desired, now),
        };
        after.drained(state.drained);
        let revision = spec.revision.clone();
        after.applied(spec, desired, now);
        if dry_run {
            return Ok(Applied { verdict, task: None, status: after.status(now) });
        }
        let mut task = None;
        if verdict != Some(Verdict::Same) {
            self.store.save(id, &after.save())?;
            info!(workload = %id, %revision, ?desired, by = who, "applied");
            let number = state.actions.begin(Some(id), "apply_workload", format!("by {who}"), now);
            state.actions.end(number, ActionState::Completed, now);
            task = Some(number);
        }
        let entry = match state.entries.entry(id.clone()) {
            std::collections::btree_map::Entry::Occupied(there) => {
                let entry = there.into_mut();
                entry.workload = after;
                entry
            }
            std::collections::btree_map::Entry::Vacant(place) => place.insert(Entry::new(after)),
        };
        entry.keep(&revision, secrets);
        let status = entry.workload.status(now);
        if verdict != Some(Verdict::Same) || entry.workload.next(now) != Step::Rest {
            self.enqueue(state, id);
        }
        Ok(Applied { verdict, task, status })
    }

    fn check_room(
        &self,
        state: &State,
        id: &WorkloadId,
        spec: &Spec,
        desired: Desired,
    ) -> Result<(), Denied> {
        if state.drained && !state.entries.contains_key(id) {
            return Err(Denied::NoRoom(Refusal::Drained));
        }
        let others = state.entries.iter().filter(|(other, _)| *other != id);
        let others = others.map(|(_, entry)| entry.workload.needs());
        let wanted = match desired {
            Desired::Running => spec.needs(),
            Desired::Stopped => Needs::default(),
        };
        Ok(admit(self.options.capacity, others, wanted)?)
    }

    /// Stops and removes a workload, in the background.
    ///
    /// # Errors
    /// There is none, or it could not be saved.
    pub fn delete(&self, id: &WorkloadId, who: &str) -> Result<u64, Denied> {
        let now = now();
        let mut guard = self.lock();
        let state = &mut *guard;
        let entry = state.entries.get_mut(id).ok_or_else(|| Denied::NotFound(id.clone()))?;
        let mut after = entry.workload.clone();
        after.deleted(now);
        self.store.save(id, &after.save())?;
        entry.workload = after;
        info!(workload = %id, by = who, "deleted");
        let task = state.actions.begin(Some(id), "delete_workload", format!("by {who}"), now);
        state.actions.end(task, ActionState::Completed, now);
        self.enqueue(state, id);
        Ok(task)
    }

    /// How a workload is: the runtime is asked, but not for long.
    ///
    /// # Errors
    /// There is none.
    pub async fn status(&self, id: &WorkloadId) -> Result<(Status, Vec<String>), Denied> {
        let not_found = || Denied::NotFound(id.clone());
        let ticket = self.lock().entries.get(id).map(|entry| entry.workload.ticket());
        let ticket = ticket.ok_or_else(not_found)?;
        let looked = tokio::time::timeout(LOOK_WITHIN, self.runtime.look(id)).await;
        let mut state = self.lock();
        let now = now();
        match looked {
            Ok(Ok(instances)) => {
                self.note(&mut state, id, |workload| {
                    workload.seen(ticket, instances, now);
                });
                self.follow_up(&mut state, id, now);
            }
            Ok(Err(_)) | Err(_) => {
                self.note(&mut state, id, |workload| workload.runtime_silent(now));
            }
        }
        let entry = state.entries.get(id).ok_or_else(not_found)?;
        let handles = entry.workload.instances().iter().map(|one| one.handle.clone()).collect();
        Ok((entry.workload.status(now), handles))
    }

    /// Every workload as it was last seen, in the order of ids.
    #[must_use]
    pub fn list(&self) -> Vec<(WorkloadId, Status)> {
        let now = now();
        let state = self.lock();
        let all = state.entries.iter();
        all.map(|(id, entry)| (id.clone(), entry.workload.status(now))).collect()
    }

    /// What was done lately, oldest first.
    #[must_use]
    pub fn actions(&self, filter: &Filter) -> Vec<Action> {
        self.lock().actions.find(filter)
    }

    /// Stops every workload and takes no new ones, or ends that.
    ///
    /// # Errors
    /// It could not be saved; some workloads may be drained already, and asking again goes on.
    pub fn drain(&self, drained: bool, who: &str) -> Result<(), Denied> {
        let now = now();
        let mut guard = self.lock();
        let state = &mut *guard;
        self.store.save_drained(drained)?;
        state.drained = drained;
        info!(drained, by = who, "drain");
        let task = state.actions.begin(None, "set_drain", format!("{drained} by {who}"), now);
        state.actions.end(task, ActionState::Completed, now);
        let ids: Vec<WorkloadId> = state.entries.keys().cloned().collect();
        for id in ids {
            let Some(entry) = state.entries.get_mut(&id) else { continue };
            let mut after = entry.workload.clone();
            after.drained(drained);
            self.store.save(&id, &after.save())?;
            entry.workload = after;
            self.enqueue(state, &id);
        }
        Ok(())
    }

    /// Whether the host is drained.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.lock().drained
    }

    /// Records that were put aside.
    #[must_use]
    pub fn quarantined(&self) -> Vec<Quarantined> {
        self.lock().quarantined.clone()
    }

    /// The runtime's name, and what is wrong with it.
    pub async fn runtime_health(&self) -> (&'static str, Result<(), String>) {
        let asked = tokio::time::timeout(LOOK_WITHIN, self.runtime.ping()).await;
        let health = match asked {
            Ok(answer) => answer.map_err(|fault| fault.to_string()),
            Err(_) => Err(format!("no answer within {} s", LOOK_WITHIN.as_secs())),
        };
        (self.runtime.name(), health)
    }
}
