//! What can be asked of the manager. Requests change what is wanted, and nothing else.

use std::sync::Arc;

use tracing::info;
use walras_core::run::{
    Desired, Fault, FaultKind, Kind, Needs, Refusal, Spec, Status, Step, Verdict, Work, Workload,
    WorkloadId, admit,
};

use crate::clock::now;
use crate::store::Quarantined;

use super::entry::Secrets;
use super::{Action, ActionState, Applied, Denied, Entry, Filter, LOOK_WITHIN, Manager, State};

/// What is told of one workload.
#[derive(Clone, Debug)]
pub struct Told {
    /// What kind it is.
    pub kind: Kind,
    /// How it is.
    pub status: Status,
    /// What its runtime calls it, where that was asked.
    pub handles: Vec<String>,
}

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
        match (verdict, state.entries.get_mut(id)) {
            (Some(Verdict::Deleting), _) => return Err(Denied::Deleting(id.clone())),
            (Some(Verdict::Same), Some(entry)) if !dry_run => {
                entry.keep(&spec.revision, secrets);
                let status = entry.status(now);
                if entry.workload.next(now) != Step::Rest {
                    self.enqueue(state, id);
                }
                return Ok(Applied { verdict, task: None, status });
            }
            (_, _) => {}
        }
        self.check(state, id, &spec, desired, &secrets)?;
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
        self.store.save(id, &after.save())?;
        info!(workload = %id, %revision, ?desired, by = who, "applied");
        state.tally.applied += 1;
        let task = state.actions.begin(Some(id), "apply_workload", format!("by {who}"), now);
        state.actions.end(task, ActionState::Completed, now);
        let entry = match state.entries.entry(id.clone()) {
            std::collections::btree_map::Entry::Occupied(there) => {
                let entry = there.into_mut();
                entry.workload = after;
                entry
            }
            std::collections::btree_map::Entry::Vacant(place) => place.insert(Entry::new(after)),
        };
        entry.keep(&revision, secrets);
        let status = entry.status(now);
        self.enqueue(state, id);
        Ok(Applied { verdict, task: Some(task), status })
    }

    /// Whether this host can and may run it, and has room for it.
    fn check(
        &self,
        state: &State,
        id: &WorkloadId,
        spec: &Spec,
        desired: Desired,
        secrets: &Secrets,
    ) -> Result<(), Denied> {
        let there = state.entries.get(id).map(|entry| entry.workload.spec().work.kind());
        let wanted = spec.work.kind();
        if let Some(there) = there.filter(|there| *there != wanted) {
            return Err(Denied::OtherKind { id: id.clone(), there, wanted });
        }
        let runtime = self.runtimes.of(&spec.work).ok_or_else(|| self.no_runtime(&spec.work))?;
        let has = state.entries.get(id).and_then(|it| self.runtimes.of(&it.workload.spec().work));
        if let Some(has) = has.filter(|has| !Arc::ptr_eq(has, runtime)) {
            let (there, wanted) = (has.name(), runtime.name());
            return Err(Denied::OtherRuntime { id: id.clone(), there, wanted });
        }
        let faults = runtime.check(&spec.work, secrets);
        if !faults.is_empty() {
            return Err(Denied::Faults(faults));
        }
        if let Work::Compose(compose) = &spec.work {
            let owner = state.entries.iter().find(|(other, entry)| {
                let uses = |spec: &Spec| {
                    matches!(&spec.work, Work::Compose(it) if it.project == compose.project)
                };
                *other != id && (uses(entry.workload.spec()) || uses(entry.workload.target()))
            });
            if let Some((owner, _)) = owner {
                let (project, owner) = (compose.project.clone(), owner.clone());
                return Err(Denied::Taken { project, owner });
            }
        }
        self.check_room(state, id, spec, desired)
    }

    fn no_runtime(&self, work: &Work) -> Denied {
        Denied::NoRuntime(match work {
            Work::Custom(custom) => {
                let known: Vec<&str> = self.runtimes.all().map(|it| it.name()).collect();
                let roadmap = ["containerd", "firecracker"].contains(&&*custom.runtime);
                let more = if roadmap { "; it is on the roadmap" } else { "" };
                let name: String = custom.runtime.chars().take(80).collect();
                format!(
                    "custom.runtime: this host has no runtime `{name}`{more}; it has {}",
                    known.join(", ")
                )
            }
            Work::Container(_) | Work::Compose(_) | Work::Vm(_) => {
                format!("type: this host runs no workloads of type {}", work.kind().name())
            }
        })
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

    /// What all workloads need, together.
    #[must_use]
    pub fn needs(&self) -> Needs {
        let state = self.lock();
        let all = state.entries.values().map(|entry| entry.workload.needs());
        all.fold(Needs::default(), |sum, needs| Needs {
            cpu: sum.cpu + needs.cpu,
            memory: sum.memory + needs.memory,
        })
    }

    /// What workloads need that are no machines with a permit, all together.
    #[must_use]
    pub fn needs_beside_permits(&self) -> Needs {
        let state = self.lock();
        let sized = |work: &Work| match work {
            Work::Vm(vm) => vm.machine.get("scaling").is_some_and(|scaling| !scaling.is_null()),
            Work::Container(_) | Work::Compose(_) | Work::Custom(_) => false,
        };
        let others = state.entries.values().filter(|it| !sized(&it.workload.spec().work));
        others.map(|entry| entry.workload.needs()).fold(Needs::default(), |sum, needs| Needs {
            cpu: sum.cpu + needs.cpu,
            memory: sum.memory + needs.memory,
        })
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
        state.tally.deleted += 1;
        let task = state.actions.begin(Some(id), "delete_workload", format!("by {who}"), now);
        state.actions.end(task, ActionState::Completed, now);
        self.enqueue(state, id);
        Ok(task)
    }

    /// How a workload is: the runtime is asked, but not for long.
    ///
    /// # Errors
    /// There is none.
    pub async fn status(&self, id: &WorkloadId) -> Result<Told, Denied> {
        let not_found = || Denied::NotFound(id.clone());
        let (ticket, runtime) = {
            let state = self.lock();
            let workload = &state.entries.get(id).ok_or_else(not_found)?.workload;
            (workload.ticket(), self.runtime_of(workload))
        };
        let looked = match runtime {
            Some(runtime) => tokio::time::timeout(LOOK_WITHIN, runtime.look(id)).await,
            None => Ok(Err(Fault::new(FaultKind::Silent, "this host has no runtime for it"))),
        };
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
        Ok(Told { kind: entry.workload.spec().work.kind(), status: entry.status(now), handles })
    }

    /// Every workload as it was last seen, in the order of ids.
    #[must_use]
    pub fn list(&self) -> Vec<(WorkloadId, Told)> {
        let now = now();
        let state = self.lock();
        let all = state.entries.iter();
        let told = |entry: &Entry| Told {
            kind: entry.workload.spec().work.kind(),
            status: entry.status(now),
            handles: Vec::new(),
        };
        all.map(|(id, entry)| (id.clone(), told(entry))).collect()
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

    /// Every runtime's name, and what is wrong with it.
    pub async fn runtime_health(&self) -> Vec<(&'static str, Result<(), String>)> {
        let asked = self.runtimes.all().map(|runtime| async move {
            let asked = tokio::time::timeout(LOOK_WITHIN, runtime.ping()).await;
            let health = match asked {
                Ok(answer) => answer.map_err(|fault| fault.to_string()),
                Err(_) => Err(format!("no answer within {} s", LOOK_WITHIN.as_secs())),
            };
            (runtime.name(), health)
        });
        futures_util::future::join_all(asked).await
    }
}
