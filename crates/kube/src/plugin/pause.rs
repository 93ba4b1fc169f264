//! What pausing and going on change, decided from what is there.
//!
//! A pause writes the mode `off` or `restore` where it is said, and beside it what was said before,
//! so that going on brings that back. A pause of what is paused keeps the older memory. Whoever is
//! not paused is not changed by going on.

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

/// What to do about somebody who says the mode `said` and has `annotations`.
#[must_use]
pub fn plan(
    change: Change,
    said: Option<&String>,
    annotations: &BTreeMap<String, String>,
) -> Outcome {
    let before = annotations.get(names::MODE_BEFORE_PAUSE);
    let is_pause = |mode: &String| *mode == Mode::Off.name() || *mode == Mode::Restore.name();
    let paused = said.is_some_and(is_pause);
    let wanted = match change {
        Change::Pause => Mode::Off,
        Change::Restore => Mode::Restore,
        Change::Resume if !paused => return Outcome::Nothing { mode: said.cloned() },
        Change::Resume => {
            // Nothing is remembered as an empty text: there was no mode.
            let mode = before.filter(|mode| !mode.is_empty() && !is_pause(mode)).cloned();
            return Outcome::Changed { from: said.cloned(), edit: Edit { mode, before: None } };
        }
    };
    if said.is_some_and(|said| said == wanted.name()) {
        return Outcome::Nothing { mode: said.cloned() };
    }
    let remembered = if paused { before.cloned() } else { Some(said.cloned().unwrap_or_default()) };
    let edit = Edit { mode: Some(wanted.name().to_owned()), before: remembered };
    Outcome::Changed { from: said.cloned(), edit }
}

/// The merge patch of whoever says its mode by an annotation.
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
            if let Outcome::Changed { from, edit } = plan(*change, said.as_ref(), &annotations) {
                assert_eq!(from, said);
                said = edit.mode;
                match edit.before {
                    Some(mode) => annotations.insert(names::MODE_BEFORE_PAUSE.to_owned(), mode),
                    None => annotations.remove(names::MODE_BEFORE_PAUSE),
                };
            } else {
                told.push("as it was:".to_owned());
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
    fn a_mode_that_was_set_by_hand_is_taken_away_by_going_on() {
        assert_eq!(check(Some("off"), &[Change::Resume]), "- (-)");
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
