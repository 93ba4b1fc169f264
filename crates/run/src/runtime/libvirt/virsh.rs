//! Asks libvirt by its own program, `virsh`, within a time for everything.
//!
//! `virsh` ends with 1 whatever went wrong, and its words are for people. So nothing is read from
//! them: what is there is found out by listing everything, which either works or means that libvirt
//! does not answer.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use walras_core::run::{Fault, FaultKind};

use crate::runtime::program::{self, Ended};

/// How long a question may take.
const ANSWER: Duration = Duration::from_secs(10);
/// How long starting and stopping may take.
pub(super) const CHANGE: Duration = Duration::from_secs(60);

/// The program, and which libvirt it asks.
#[derive(Clone, Debug)]
pub(super) struct Virsh {
    pub(super) program: PathBuf,
    pub(super) uri: String,
}

/// What libvirt says that a machine does, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DomainState {
    Running,
    Paused,
    /// It does not run: its guest switched it off, or something else ended it.
    Off {
        by_guest: bool,
    },
}

/// A machine that libvirt knows, whoever made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Domain {
    pub(super) uuid: String,
    pub(super) state: DomainState,
}

impl Virsh {
    /// Every machine by its name.
    pub(super) async fn domains(&self) -> Result<BTreeMap<String, Domain>, Fault> {
        let named = self.asked(&["list", "--all", "--uuid", "--name"]).await?;
        let states = self.asked(&["domstats", "--state"]).await?;
        let mut states = read_states(&states);
        let known = read_names(&named).into_iter().filter_map(|(uuid, name)| {
            let state = states.remove(&name)?;
            Some((name, Domain { uuid, state }))
        });
        Ok(known.collect())
    }

    /// Asks something that is answered soon, or libvirt counts as silent.
    pub(super) async fn asked(&self, args: &[&str]) -> Result<String, Fault> {
        let words = |words: String| Fault::new(FaultKind::Silent, words);
        match self.run(args, None, ANSWER).await? {
            (true, told) => Ok(told),
            (false, told) => Err(words(told)),
        }
    }

    /// Changes something; what goes wrong is a fault of the runtime.
    pub(super) async fn change(&self, args: &[&str], input: Option<&str>) -> Result<(), Fault> {
        match self.run(args, input, CHANGE).await? {
            (true, _) => Ok(()),
            (false, told) => Err(Fault::new(FaultKind::Runtime, told)),
        }
    }

    /// Whether it ended well, and what it wrote.
    async fn run(
        &self,
        args: &[&str],
        input: Option<&str>,
        within: Duration,
    ) -> Result<(bool, String), Fault> {
        let place = || format!("{} --connect {}", self.program.display(), self.uri);
        let failed =
            |error: &io::Error| Fault::new(FaultKind::Silent, format!("{}: {error}", place()));
        let mut command = Command::new(&self.program);
        // Its words are the same everywhere.
        command.args(["--connect", &self.uri, "--quiet"]).args(args).env("LC_ALL", "C");
        match program::run(command, input.map(str::to_owned), within).await {
            Ok(Ended { well: true, output, .. }) => Ok((true, output.trim().to_owned())),
            Ok(Ended { errors, .. }) => Ok((false, errors.trim().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let words = format!("{}: no answer within {} s", place(), within.as_secs());
                Err(Fault::new(FaultKind::Silent, words))
            }
            Err(error) => Err(failed(&error)),
        }
    }
}

/// Lines of an identifier and a name.
fn read_names(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter_map(|line| line.trim().split_once(' '));
    lines.map(|(uuid, name)| (uuid.to_owned(), name.trim().to_owned())).collect()
}

/// Paragraphs that begin with `Domain: 'NAME'` and have lines `state.state=NUMBER` and
/// `state.reason=NUMBER`.
fn read_states(text: &str) -> BTreeMap<String, DomainState> {
    let mut states = BTreeMap::new();
    let mut last = None;
    for line in text.lines().map(str::trim) {
        if let Some(quoted) = line.strip_prefix("Domain: ") {
            last = Some(quoted.trim_matches('\'').to_owned());
        }
        let Some(name) = &last else { continue };
        if let Some(number) = line.strip_prefix("state.state=") {
            // No state, running, blocked, paused, shutting down, off, crashed, suspended.
            let state = match number {
                "1" | "2" | "4" => DomainState::Running,
                "3" | "7" => DomainState::Paused,
                _ => DomainState::Off { by_guest: false },
            };
            states.insert(name.clone(), state);
        } else if line == "state.reason=1"
            && let Some(DomainState::Off { by_guest }) = states.get_mut(name)
        {
            *by_guest = true;
        }
    }
    states
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_virsh_lists_is_read() {
        let named = "11111111-2222-4333-8444-555555555555 db\n\
                     21111111-2222-4333-8444-555555555555 a name with spaces   \n\n";
        let names = read_names(named);
        assert_eq!(names[0], ("11111111-2222-4333-8444-555555555555".into(), "db".into()));
        assert_eq!(names[1].1, "a name with spaces");
        let states = "Domain: 'db'\n  state.state=1\n  state.reason=1\n\n\
                      Domain: 'web'\n  state.state=5\n  state.reason=1\n\n\
                      Domain: 'x'\n  state.state=5\n  state.reason=6\n\n\
                      Domain: 'y'\n  state.state=6\n";
        let states = read_states(states);
        let (ended, died) =
            (DomainState::Off { by_guest: true }, DomainState::Off { by_guest: false });
        let found: Vec<(&str, DomainState)> =
            states.iter().map(|(name, state)| (&**name, *state)).collect();
        let running = DomainState::Running;
        assert_eq!(found, [("db", running), ("web", ended), ("x", died), ("y", died)]);
        assert!(read_states("nonsense\nstate.state=1\n").is_empty());
    }

    #[tokio::test]
    async fn a_libvirt_that_is_not_there_is_silent() {
        let virsh = Virsh { program: "/nowhere/virsh".into(), uri: "qemu:///system".to_owned() };
        let fault = virsh.domains().await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Silent);
        let virsh = Virsh { program: "/bin/false".into(), ..virsh };
        assert_eq!(virsh.domains().await.unwrap_err().kind, FaultKind::Silent);
    }
}
