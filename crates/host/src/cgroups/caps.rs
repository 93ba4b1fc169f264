//! What some groups may have of the machine because somebody else divided it: the permits of
//! virtual machines.
//!
//! A permit is both the right and the most of a group: the ledger has counted it in full, and
//! nothing beyond it was permitted. Whoever keeps the ledger sets all of them at once, from another
//! thread; a look tells the market of those that changed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tracing::warn;
use walras_core::claim::Known;
use walras_core::units::{Millicores, WorkloadUid};

use super::{Cgroups, Fresh, Held};
use walras_node::drive::Change;

/// Permits by the path of a group, without a slash at its start.
#[derive(Debug, Default)]
pub struct Caps(Mutex<BTreeMap<String, Millicores>>);

impl Caps {
    /// From now on these hold, and no others.
    pub fn set(&self, caps: BTreeMap<String, Millicores>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = caps;
    }

    /// What a group is permitted; nothing where nobody says.
    #[must_use]
    pub fn of(&self, path: &str) -> Option<Millicores> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied()
    }
}

/// What is known of a workload, where it is permitted `cap`.
pub(super) fn within(cap: Option<Millicores>, known: Known) -> Known {
    let Some(cap) = cap else { return known };
    let most = known.max.map_or(cap, |max| max.min(cap));
    Known { min: Some(most), max: Some(most), ..known }
}

impl Cgroups {
    /// Tells of workloads that are permitted something else than at the last look.
    pub(super) fn take_caps(&mut self, changes: &mut Vec<Change>) {
        let other = |(uid, held): &(&WorkloadUid, &Held)| self.caps.of(uid.as_str()) != held.cap;
        let changed: Vec<WorkloadUid> =
            self.held.iter().filter(other).map(|(uid, _)| uid.clone()).collect();
        for uid in changed {
            let Some(held) = self.held.get(&uid) else { continue };
            let settings = match held.handle.group().settings() {
                Ok(settings) => settings,
                Err(error) if error.is_gone() => continue,
                Err(error) => {
                    warn!("its permit is not told to the market yet: {error}");
                    continue;
                }
            };
            let Some(held) = self.held.remove(&uid) else { continue };
            let Held { handle, adoption, told, user, .. } = held;
            let arrival = self.arrival(Fresh { handle, adoption, told, user, settings });
            changes.push(Change::Permitted(Box::new(arrival)));
        }
    }
}
