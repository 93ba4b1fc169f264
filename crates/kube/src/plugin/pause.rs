//! What pausing and going on change, decided from what is there.
//!
//! A pause writes the mode `off` or `restore` where it is said, and beside it what was said before,
//! so that going on brings that back, whatever it was. A pause of what is paused keeps the older
//! memory. Going on changes nothing where nothing is remembered: an `off` that was set by hand was
//! meant.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::names;
use crate::pod::Mode;

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing is to be changed any more.
    Pause,
    /// Everything is to be given back, and then left alone.
    Restore,
    /// As before the pause.
    Resume,
}

/// What becomes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is as wanted already.
    Nothing {
        /// The mode that is said, if any.
        mode: Option<String>,
    },
    /// It should go on, and nothing is remembered of what was before: it was not paused here.
    NotPaused {
        /// The mode that is said.
        mode: Option<String>,
    },
    /// Something is to be written.
    Changed {
        /// The mode that was said, if any.
        from: Option<String>,
        /// What is written.
        edit: Edit,
    },
}

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The mode to say; `None` takes away what is said.
    pub mode: Option<String>,
    /// What to remember; `None` takes away what is remembered.
    pub before: Option<String>,
}

/// What to do about an object that says the mode `said` and has `annotations`.
#[must_use]
pub fn plan(
    change: Change,
    said: Option<&String>,
    annotations: &BTreeMap<String, String>,
) -> Outcome {
    let before = annotations.get(names::MODE_BEFORE_PAUSE);
    let is_pause = |mode: &String| *mode == Mode::Off.name() || *mode == Mode::Restore.name();
    let stands_still = said.is_some_and(is_pause);
    let wanted = match (change, before) {
        (Change::Pause, _) => Mode::Off,
        (Change::Restore, _) => Mode::Restore,
        (Change::Resume, _) if !stands_still => return Outcome::Nothing { mode: said.cloned() },
        (Change::Resume, None) => return Outcome::NotPaused { mode: said.cloned() },
        (Change::Resume, Some(before)) => {
            // Nothing is remembered as an empty text: there was no mode.
            let mode = Some(before.clone()).filter(|mode| !mode.is_empty());
            return Outcome::Changed { from: said.cloned(), edit: Edit { mode, before: None } };
        }
    };
    // A memory without a pause is left from one that was ended by hand.
    let kept = before.filter(|_| stands_still).cloned();
    if kept.is_some() && said.is_some_and(|said| said == wanted.name()) {
        return Outcome::Nothing { mode: said.cloned() };
    }
    let before = kept.or_else(|| Some(said.cloned().unwrap_or_default()));
    let edit = Edit { mode: Some(wanted.name().to_owned()), before };
    Outcome::Changed { from: said.cloned(), edit }
}

/// The merge patch of an object that says its mode by an annotation.
#[must_use]
pub fn of_annotations(edit: &Edit, version: &str) -> Value {
    json!({ "metadata": {
        "resourceVersion": version,
        "annotations": { names::MODE: edit.mode, names::MODE_BEFORE_PAUSE: edit.before },
    } })
}

/// The merge patch of the ConfigMap, which says the mode for everybody.
#[must_use]
pub fn of_config(edit: &Edit, version: &str) -> Value {
    json!({
        "metadata": {
            "resourceVersion": version,
            "annotations": { names::MODE_BEFORE_PAUSE: edit.before },
        },
        "data": { "mode": edit.mode },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The modes said and remembered after each of `changes`, from `said` on; `-` is none.
    fn check(said: Option<&str>, changes: &[Change]) -> String {
        let mut said = said.map(str::to_owned);
        let mut annotations = BTreeMap::new();
        let mut told = Vec::new();
        for change in changes {
            match plan(*change, said.as_ref(), &annotations) {
                Outcome::Changed { from, edit } => {
                    assert_eq!(from, said);
                    said = edit.mode;
                    match edit.before {
                        Some(mode) => annotations.insert(names::MODE_BEFORE_PAUSE.to_owned(), mode),
                        None => annotations.remove(names::MODE_BEFORE_PAUSE),
                    };
                }
                Outcome::Nothing { .. } => told.push("as it was:".to_owned()),
                Outcome::NotPaused { .. } => told.push("not paused:".to_owned()),
            }
            let word = |mode: Option<&String>| {
                let mode = mode.map(String::as_str);
                mode.map_or("-", |mode| if mode.is_empty() { "nothing" } else { mode }).to_owned()
            };
            let before = word(annotations.get(names::MODE_BEFORE_PAUSE));
            told.push(format!("{} ({before})", word(said.as_ref())));
        }
        told.join(" ")
    }

    #[test]
    fn going_on_brings_back_what_was_said_before() {
        let both = [Change::Pause, Change::Resume];
        assert_eq!(check(Some("limits-only"), &both), "off (limits-only) limits-only (-)");
        assert_eq!(check(None, &both), "off (nothing) - (-)");
    }

    #[test]
    fn a_pause_of_what_is_paused_keeps_the_older_memory() {
        let all = [Change::Pause, Change::Restore, Change::Pause, Change::Resume];
        assert_eq!(
            check(Some("limits-only"), &all),
            "off (limits-only) restore (limits-only) off (limits-only) limits-only (-)"
        );
    }

    #[test]
    fn what_is_as_wanted_already_is_not_written_again() {
        let twice = [Change::Restore, Change::Restore];
        assert_eq!(check(None, &twice), "restore (nothing) as it was: restore (nothing)");
        assert_eq!(check(Some("limits-only"), &[Change::Resume]), "as it was: limits-only (-)");
    }

    #[test]
    fn going_on_without_a_memory_changes_nothing() {
        assert_eq!(check(Some("off"), &[Change::Resume]), "not paused: off (-)");
        assert_eq!(check(Some("restore"), &[Change::Resume]), "not paused: restore (-)");
        assert_eq!(check(None, &[Change::Resume]), "as it was: - (-)");
    }

    #[test]
    fn a_mode_that_was_set_by_hand_is_brought_back_by_going_on() {
        let both = [Change::Pause, Change::Resume];
        assert_eq!(check(Some("off"), &both), "off (off) off (-)");
        let all = [Change::Restore, Change::Pause, Change::Pause, Change::Resume];
        assert_eq!(
            check(Some("off"), &all),
            "restore (off) off (off) as it was: off (off) off (-)"
        );
    }

    #[test]
    fn a_memory_of_a_pause_that_was_ended_by_hand_does_not_count() {
        let old = (names::MODE_BEFORE_PAUSE.to_owned(), "limits-only".to_owned());
        let said = "requests-and-limits".to_owned();
        let outcome = plan(Change::Pause, Some(&said), &BTreeMap::from([old]));
        let Outcome::Changed { edit, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!(edit.before, Some(said));
    }

    #[test]
    fn patches_name_the_version_that_they_were_decided_from() {
        let edit = Edit { mode: Some("off".to_owned()), before: None };
        let annotations = |patch: &Value| patch["metadata"]["annotations"].clone();
        let of_annotations = of_annotations(&edit, "7");
        assert_eq!(of_annotations["metadata"]["resourceVersion"], "7");
        let expected = json!({ "walras.dev/mode": "off", "walras.dev/mode-before-pause": null });
        assert_eq!(annotations(&of_annotations), expected);
        let of_config = of_config(&edit, "7");
        assert_eq!(of_config["metadata"]["resourceVersion"], "7");
        assert_eq!(of_config["data"], json!({ "mode": "off" }));
        let expected = json!({ "walras.dev/mode-before-pause": null });
        assert_eq!(annotations(&of_config), expected);
    }
}
