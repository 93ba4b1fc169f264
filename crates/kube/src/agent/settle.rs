//! What becomes of the settings that were found: they hold from now on, or it is told why not.
//!
//! Settings that hold go on until there are better ones: neither a mistake in them nor their end
//! changes anything. Before any have held, nothing is sized, since a default that nobody chose must
//! not set a node moving.

use super::config::AgentConfig;

/// What to do about settings.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// They are what holds already.
    Stay,
    /// They hold from now on.
    TakeOver(Box<AgentConfig>),
    /// They do not hold, for this reason: a sentence for people.
    Tell(String),
}

/// Decides. `place` is where settings are looked for, in words; `holds` is what holds now, if
/// anything does; `found` is what was read, and nothing where there is nothing to be read.
pub(super) fn settle(
    place: &str,
    holds: Option<&AgentConfig>,
    found: Option<Result<AgentConfig, String>>,
) -> Step {
    match (holds, found) {
        (None, None) => Step::Tell(format!("There is no {place}, so nothing is sized.")),
        (Some(_), None) => {
            Step::Tell(format!("There is no {place} any more, and what it said last holds."))
        }
        (Some(holds), Some(Ok(found))) if *holds == found => Step::Stay,
        (_, Some(Ok(found))) => Step::TakeOver(Box::new(found)),
        (None, Some(Err(because))) => {
            Step::Tell(format!("The configuration is refused, so nothing is sized: {because}"))
        }
        (Some(_), Some(Err(because))) => Step::Tell(format!(
            "The changed configuration is refused, and the old one holds: {because}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Mode;

    fn config(mode: Mode) -> AgentConfig {
        AgentConfig { mode, ..AgentConfig::default() }
    }

    fn check(holds: Option<Mode>, found: Option<Result<Mode, &str>>) -> String {
        let found = found.map(|it| it.map(config).map_err(str::to_owned));
        match settle("ConfigMap a/b", holds.map(config).as_ref(), found) {
            Step::Stay => "stay".to_owned(),
            Step::TakeOver(taken) => format!("take over {}", taken.mode),
            Step::Tell(told) => told,
        }
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
