//! Who may ask for what: verbs, and the rights that a line of the file `clients` gives.
//!
//! A line is a name, and after it what that client may do: `alice`, or `bob read logs`. A name
//! alone may do everything.

use std::fmt;

/// What can be asked of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Look: status, list, health and actions.
    Read,
    /// See what workloads write.
    Logs,
    /// Make a workload, or change it.
    Apply,
    /// Delete a workload.
    Delete,
    /// Run commands in a workload.
    Exec,
    /// Drain the host, or end that.
    Drain,
}

/// What a client may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights([bool; Verb::ALL.len()]);

impl Verb {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Logs, Self::Apply, Self::Delete, Self::Exec, Self::Drain];

    /// Its name in the file `clients` and in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Logs => "logs",
            Self::Apply => "apply",
            Self::Delete => "delete",
            Self::Exec => "exec",
            Self::Drain => "drain",
        }
    }

    /// Whether it changes something or shows what is a workload's own.
    #[must_use]
    pub const fn is_grave(self) -> bool {
        match self {
            Self::Read => false,
            Self::Logs | Self::Apply | Self::Delete | Self::Exec | Self::Drain => true,
        }
    }
}

impl Rights {
    /// Everything.
    pub const ALL: Self = Self([true; Verb::ALL.len()]);

    /// The rights that words name; all of them where there are no words.
    ///
    /// # Errors
    /// The word that names none.
    pub fn named<'a>(words: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut rights = Self([false; Verb::ALL.len()]);
        let mut any = false;
        for word in words {
            any = true;
            if word == "all" {
                rights = Self::ALL;
                continue;
            }
            let place = Verb::ALL.iter().position(|verb| verb.name() == word);
            rights.0[place.ok_or_else(|| word.to_owned())?] = true;
        }
        Ok(if any { rights } else { Self::ALL })
    }

    /// Whether they have a verb.
    #[must_use]
    pub fn allow(self, verb: Verb) -> bool {
        Verb::ALL.iter().zip(self.0).any(|(one, has)| *one == verb && has)
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> =
            Verb::ALL.into_iter().filter(|verb| self.allow(*verb)).map(Verb::name).collect();
        f.write_str(&names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_may_do_everything_and_words_are_all_there_is() {
        let of = |line: &'static str| Rights::named(line.split_whitespace());
        assert_eq!(of(""), Ok(Rights::ALL));
        assert_eq!(of("read all"), Ok(Rights::ALL));
        let some = of("read logs").unwrap();
        assert!(some.allow(Verb::Read) && some.allow(Verb::Logs));
        for verb in [Verb::Apply, Verb::Delete, Verb::Exec, Verb::Drain] {
            assert!(!some.allow(verb), "{verb:?}");
        }
        assert_eq!(some.to_string(), "read, logs");
        assert_eq!(of("read wrte"), Err("wrte".to_owned()));
    }
}
