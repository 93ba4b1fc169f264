//! Tells people which settings have no effect, by events of the ConfigMap that has them.
//!
//! Each is told once for as long as it is said, and by the controller that acts alone. What agents
//! find in their environment is told by themselves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::time;

use super::Shared;
use super::act::{self, Word};

/// How often to look whether there is something to be told.
const LOOK: Duration = Duration::from_secs(2);
/// What the events are called.
const REASON: &str = "SettingHasNoEffect";

/// Tells, for as long as it is polled.
pub(super) async fn tell(shared: Arc<Shared>, client: Client) {
    let mut told = BTreeSet::new();
    let mut looks = time::interval(LOOK);
    loop {
        looks.tick().await;
        let acts = shared.leadership.acts_until(shared.clock.now()).is_some();
        if shared.dry_run || !acts {
            continue;
        }
        let (notes, uid) = shared.store.in_vain();
        for note in news(notes, &mut told) {
            let note = format!("The setting {note}.");
            let word = Word { is_warning: false, reason: REASON.to_owned(), note };
            act::tell_settings(&shared, &client, &uid, word).await;
        }
    }
}

/// What was not told yet, which counts as told from now on. What is not said any more is forgotten.
fn news(said: Vec<String>, told: &mut BTreeSet<String>) -> Vec<String> {
    let before = std::mem::replace(told, said.iter().cloned().collect());
    said.into_iter().filter(|note| !before.contains(note)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_note_is_told_once_for_as_long_as_it_is_said() {
        let mut told = BTreeSet::new();
        let mut check = |said: &[&str]| {
            news(said.iter().map(|note| (*note).to_owned()).collect(), &mut told).join(" ")
        };
        assert_eq!(check(&["b", "a"]), "b a");
        assert_eq!(check(&["b", "a"]), "");
        assert_eq!(check(&["a", "c"]), "c");
        assert_eq!(check(&["b"]), "b", "it was taken back in between");
    }
}
