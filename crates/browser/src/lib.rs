//! Pages in a real browser, for tests: a headless Chromium, and what holds of every page of Walras.
//!
//! Used by the tests named `browser`, which are behind a feature of that name in their crates, and
//! by nothing that is shipped. Whatever goes wrong is a panic, which is how a test fails.
#![forbid(unsafe_code)]

mod chromium;
mod rules;

pub use self::chromium::{Chromium, Key, Scheme};
pub use self::rules::{Pictures, WIDTHS};
