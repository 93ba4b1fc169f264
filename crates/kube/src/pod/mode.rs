//! What may be changed of a pod.
//!
//! Said for a pod, for its namespace, or for everybody, and the nearest to the pod counts. What
//! cannot be understood counts as [`Mode::Off`]: its writer wanted something else than the
//! default, and doing nothing is the only answer that cannot be wrong.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Pod;
use crate::names;

/// What may be changed of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Nothing: what it should have is written down, and not acted on.
    Off,
    /// Its limits.
    LimitsOnly,
    /// Its requests and its limits.
    #[default]
    RequestsAndLimits,
    /// It gets back what it came with, and is left alone from then on.
    Restore,
}

/// A mode that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a mode: use off, limits-only, requests-and-limits or restore; until then nothing \
     is changed"
)]
pub struct ModeError(pub String);

// === impl Mode ===

impl Mode {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Off, Self::LimitsOnly, Self::RequestsAndLimits, Self::Restore];

    /// The name a user types.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::LimitsOnly => "limits-only",
            Self::RequestsAndLimits => "requests-and-limits",
            Self::Restore => "restore",
        }
    }

    /// The mode with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn read(name: &str) -> Result<Self, ModeError> {
        let mut modes = Self::ALL.into_iter();
        modes.find(|mode| mode.name() == name).ok_or_else(|| ModeError(name.to_owned()))
    }

    /// What may be changed of `pod`, whose namespace says `namespace`, where `everybody` is the
    /// default. An error counts as [`Mode::Off`].
    ///
    /// # Errors
    /// What the pod or its namespace says is not a mode.
    pub fn of(pod: &Pod, namespace: Option<&str>, everybody: Self) -> Result<Self, ModeError> {
        Self::nearest(pod.annotation(names::MODE), namespace, everybody)
    }

    /// The same, where it is known what the pod says.
    ///
    /// # Errors
    /// What the pod or its namespace says is not a mode.
    pub fn nearest(
        pod: Option<&str>,
        namespace: Option<&str>,
        everybody: Self,
    ) -> Result<Self, ModeError> {
        // Who uninstalls wants everything back, whatever single pods say.
        if everybody == Self::Restore {
            return Ok(Self::Restore);
        }
        let said = pod.or(namespace);
        said.map_or(Ok(everybody), Self::read)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pod: Option<&str>, namespace: Option<&str>, everybody: Mode) -> String {
        let mut it = Pod::default();
        if let Some(mode) = pod {
            let annotations = it.metadata.annotations.get_or_insert_default();
            annotations.insert(names::MODE.to_owned(), mode.to_owned());
        }
        match Mode::of(&it, namespace, everybody) {
            Ok(mode) => mode.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_nearest_to_the_pod_counts() {
        assert_eq!(check(None, None, Mode::LimitsOnly), "limits-only");
        assert_eq!(check(None, Some("off"), Mode::LimitsOnly), "off");
        assert_eq!(check(Some("requests-and-limits"), Some("off"), Mode::Off), {
            "requests-and-limits"
        });
    }

    #[test]
    fn giving_everything_back_goes_before_what_single_pods_say() {
        assert_eq!(check(Some("off"), None, Mode::Restore), "restore");
    }

    #[test]
    fn what_is_not_a_mode_is_named() {
        let told = check(Some("on"), None, Mode::LimitsOnly);
        assert!(told.starts_with("`on` is not a mode: use off, limits-only"), "{told}");
    }
}
