//! What testbeds there are, and whether each is well.
//!
//! Looks and changes nothing. A testbed that nobody keeps is stale: the next start ends it.

use std::fmt;

use anyhow::Result;

use crate::settings::Settings;
use crate::state::{self, Phase, State};
use crate::teardown;
use crate::testbed::missing;

/// One testbed, as a line for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// How it is.
    pub health: String,
    /// What it consists of, where that is known.
    pub contents: String,
    /// The path of its kubeconfig, where it is up.
    pub kubeconfig: Option<String>,
}

/// Every testbed, by name.
///
/// # Errors
///
/// If the folder of testbeds cannot be read.
pub fn status(settings: &Settings) -> Result<Vec<Row>> {
    let testbeds = state::list(settings)?.into_iter();
    Ok(testbeds
        .map(|(dir, state)| {
            let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let stale = teardown::is_stale(&dir, state.as_ref());
            row(name, stale, state.as_ref().map(|state| (state, missing(state).map(|p| p.name()))))
        })
        .collect())
}

fn row(name: String, stale: bool, known: Option<(&State, Option<&str>)>) -> Row {
    let health = match known {
        _ if stale => "stale: nobody keeps it, and the next start ends it".to_owned(),
        None => "not readable".to_owned(),
        Some((state, _)) if state.phase == Phase::Starting => "starting".to_owned(),
        Some((_, Some(part))) => format!("broken: {part} is not running"),
        Some((_, None)) => "up".to_owned(),
    };
    let contents = known.map(|(state, _)| state.spec.words()).unwrap_or_default();
    let up = known.filter(|(state, _)| !stale && state.phase == Phase::Up);
    let kubeconfig = up.map(|(state, _)| state.kubeconfig().display().to_string());
    Row { name, health, contents, kubeconfig }
}

// === impl Row ===

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, health, contents, kubeconfig } = self;
        write!(f, "{name}: {health}")?;
        if !contents.is_empty() {
            write!(f, " ({contents})")?;
        }
        match kubeconfig {
            Some(path) => write!(f, "\n  kubeconfig: {path}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Life, Spec};

    #[test]
    fn a_testbed_is_described_by_the_worst_that_is_known() {
        let state = State::pretend(7, Spec::new(1, false), Life::UntilDown);
        let mut starting = state.clone();
        starting.phase = Phase::Starting;
        let check = |stale, known| row("a".to_owned(), stale, known).to_string();
        let up = "a: up (1 real node)\n  kubeconfig: /testbeds/seven/kubeconfig";
        assert_eq!(check(false, Some((&state, None))), up);
        let broken = check(false, Some((&state, Some("etcd"))));
        assert!(broken.starts_with("a: broken: etcd is not running (1 real node)"), "{broken}");
        assert_eq!(check(false, Some((&starting, None))), "a: starting (1 real node)");
        assert!(check(true, Some((&state, None))).starts_with("a: stale: "));
        assert!(check(true, None).starts_with("a: stale: "));
    }
}
