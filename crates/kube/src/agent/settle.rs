//! What becomes of the settings that were found: they hold from now on, or it is told why not.
//!
//! Settings that hold go on until there are better ones: neither a mistake in them nor their end
//! changes anything. Before any have held, nothing is sized, since a default that was not chosen
//! must not set a node moving. Only a mode that stops everything or gives everything back is taken
//! from settings that are wrong elsewhere: a pause cannot wait.

use crate::pod::Mode;
use crate::settings::AgentConfig;

/// What to do about settings.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// They are what holds already.
    Stay,
    /// These hold from now on. What is wrong is told as well: a sentence for people.
    TakeOver(Box<AgentConfig>, Option<String>),
    /// They do not hold, for this reason: a sentence for people.
    Tell(String),
}

/// Settings that are wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// What is wrong with them.
    pub(super) because: String,
    /// Their mode, if it is a good one that stops everything or gives everything back.
    pub(super) emergency: Option<Mode>,
}

/// Decides. `place` is where settings are looked for, in words; `holds` is what holds now, if
/// anything does; `found` is what was read, and nothing where there is nothing to be read.
pub(super) fn settle(
    place: &str,
    holds: Option<&AgentConfig>,
    found: Option<Result<AgentConfig, Refused>>,
) -> Step {
    match (holds, found) {
        (None, None) => Step::Tell(format!("There is no {place}, so nothing is sized.")),
        (Some(_), None) => {
            Step::Tell(format!("There is no {place} any more, and what it said last holds."))
        }
        (Some(holds), Some(Ok(found))) if *holds == found => Step::Stay,
        (_, Some(Ok(found))) => Step::TakeOver(Box::new(found), None),
        (holds, Some(Err(refused))) => refuse(holds, refused),
    }
}

fn refuse(holds: Option<&AgentConfig>, refused: Refused) -> Step {
    let Refused { because, emergency } = refused;
    match (holds, emergency) {
        // To give back what pods came with, nothing else has to be known.
        (None, Some(Mode::Restore)) => {
            let config = AgentConfig { mode: Mode::Restore, ..AgentConfig::default() };
            let told = "The configuration is refused except for its mode, restore";
            Step::TakeOver(Box::new(config), Some(format!("{told}: {because}")))
        }
        (None, _) => {
            Step::Tell(format!("The configuration is refused, so nothing is sized: {because}"))
        }
        (Some(holds), Some(mode)) => {
            let told = format!(
                "The changed configuration is refused except for its mode, {mode}, and the rest \
                 of the old one holds: {because}"
            );
            if holds.mode == mode {
                return Step::Tell(told);
            }
            Step::TakeOver(Box::new(AgentConfig { mode, ..holds.clone() }), Some(told))
        }
        (Some(_), None) => Step::Tell(format!(
            "The changed configuration is refused, and the old one holds: {because}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(mode: Mode) -> AgentConfig {
        AgentConfig { mode, ..AgentConfig::default() }
    }

    fn check(holds: Option<Mode>, found: Option<Result<Mode, &str>>) -> String {
        let refused = |because: &str| Refused { because: because.to_owned(), emergency: None };
        let found = found.map(|it| it.map(config).map_err(refused));
        told(settle("ConfigMap a/b", holds.map(config).as_ref(), found))
    }

    fn told(step: Step) -> String {
        match step {
            Step::Stay => "stay".to_owned(),
            Step::TakeOver(taken, None) => format!("take over {}", taken.mode),
            Step::TakeOver(taken, Some(told)) => format!("take over {}. {told}", taken.mode),
            Step::Tell(told) => told,
        }
    }

    /// What becomes of settings with this mode and a mistake.
    fn check_mistaken(holds: Option<Mode>, mode: Mode) -> String {
        let refused = Refused { because: "reserve: bad".to_owned(), emergency: Some(mode) };
        let holds = holds.map(config).map(|config| AgentConfig { guaranteed: true, ..config });
        let step = settle("ConfigMap a/b", holds.as_ref(), Some(Err(refused)));
        if let (Step::TakeOver(taken, _), Some(_)) = (&step, holds) {
            assert!(taken.guaranteed, "the rest of what holds is kept");
        }
        told(step)
    }

    #[test]
    fn an_emergency_does_not_wait_for_the_other_keys() {
        let off = "The changed configuration is refused except for its mode, off, and the rest of \
                   the old one holds: reserve: bad";
        assert_eq!(
            check_mistaken(Some(Mode::LimitsOnly), Mode::Off),
            format!("take over off. {off}")
        );
        assert_eq!(check_mistaken(Some(Mode::Off), Mode::Off), off, "it holds already");
        let restored = check_mistaken(Some(Mode::Off), Mode::Restore);
        assert!(restored.starts_with("take over restore. "), "{restored}");
        assert_eq!(
            check_mistaken(None, Mode::Restore),
            "take over restore. The configuration is refused except for its mode, restore: \
             reserve: bad"
        );
        assert_eq!(
            check_mistaken(None, Mode::Off),
            "The configuration is refused, so nothing is sized: reserve: bad"
        );
    }

    #[test]
    fn without_settings_nothing_is_sized() {
        assert_eq!(check(None, None), "There is no ConfigMap a/b, so nothing is sized.");
        assert_eq!(
            check(None, Some(Err("mode: bad"))),
            "The configuration is refused, so nothing is sized: mode: bad"
        );
        assert_eq!(
            check(None, Some(Ok(Mode::default()))),
            "take over requests-and-limits",
            "also where they are the defaults"
        );
    }

    #[test]
    fn what_holds_goes_on_until_there_is_something_better() {
        assert_eq!(
            check(Some(Mode::Off), None),
            "There is no ConfigMap a/b any more, and what it said last holds."
        );
        assert_eq!(
            check(Some(Mode::Off), Some(Err("mode: bad"))),
            "The changed configuration is refused, and the old one holds: mode: bad"
        );
        assert_eq!(check(Some(Mode::Off), Some(Ok(Mode::Off))), "stay");
        assert_eq!(check(Some(Mode::Off), Some(Ok(Mode::Restore))), "take over restore");
    }
}
