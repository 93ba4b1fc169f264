//! A workload in the hands of the manager: with its secrets, and where it is between workers.

use std::collections::BTreeMap;

use walras_core::run::{Revision, Status, Workload};
use walras_core::units::Moment;

/// Secrets by name. They are in memory only, and nothing here can be printed.
pub(crate) type Secrets = BTreeMap<String, String>;

pub(super) struct Entry {
    pub(super) workload: Workload,
    secrets: BTreeMap<Revision, Secrets>,
    /// Whether it is in the queue.
    pub(super) queued: bool,
    /// Whether a worker has it.
    pub(super) busy: bool,
    /// Whether something happened while a worker had it.
    pub(super) again: bool,
    /// When it has to be looked at again.
    pub(super) wake_at: Option<Moment>,
    /// How far the operation under way is, in words.
    pub(super) progress: Option<String>,
}

impl Entry {
    pub(super) fn new(workload: Workload) -> Self {
        let secrets = BTreeMap::new();
        Self {
            workload,
            secrets,
            queued: false,
            busy: false,
            again: false,
            wake_at: None,
            progress: None,
        }
    }

    /// What is told of it.
    pub(super) fn status(&self, now: Moment) -> Status {
        let mut status = self.workload.status(now);
        if let Some(progress) = &self.progress {
            status.message.push_str("; ");
            status.message.push_str(progress);
        }
        status
    }

    /// Keeps the secrets of a revision, and forgets those that nobody can need any more.
    pub(super) fn keep(&mut self, revision: &Revision, secrets: Secrets) {
        if !secrets.is_empty() {
            self.secrets.insert(revision.clone(), secrets);
        }
        let needed: Vec<&Revision> = self.workload.revisions().collect();
        self.secrets.retain(|revision, _| needed.contains(&revision));
        self.tell_secrets();
    }

    /// Tells the workload whether its target's secrets are here.
    pub(super) fn tell_secrets(&mut self) {
        let target = self.workload.target();
        let kept = self.secrets.get(&target.revision);
        let known = target.secrets.iter().all(|name| kept.is_some_and(|it| it.contains_key(name)));
        self.workload.secrets_known(known);
    }

    /// The secrets of its target.
    pub(super) fn secrets(&self) -> Secrets {
        let target = &self.workload.target().revision;
        self.secrets.get(target).cloned().unwrap_or_default()
    }
}
