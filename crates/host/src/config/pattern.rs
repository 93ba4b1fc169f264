//! A setting that is a pattern of names or paths.

use toml::de::DeValue;
use walras_wire::settings::{Kind, text};

use crate::adopt::Glob;

/// A pattern of paths of cgroups.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern;

impl Kind for Pattern {
    type Meaning = Glob;

    fn accept(&self, written: &DeValue<'_>) -> Option<Glob> {
        Glob::new(text(written)?)
    }

    fn what(&self) -> String {
        "a pattern of 1 to 512 characters, in which * stands for anything within a name, ** for \
         anything, and ? for one character"
            .to_owned()
    }
}
