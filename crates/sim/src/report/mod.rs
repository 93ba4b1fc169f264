//! What a contest came to, for people: sentences, a table, and a page with pictures.
//!
//! Pure functions of data: the same results make the same text, byte for byte. The page is one
//! file without anything from elsewhere, and needs no script.

pub mod chart;
mod frame;
mod frontier;
mod html;
mod label;
mod latency;
mod markup;
pub mod number;
mod palette;
mod pareto;
mod placement;
#[cfg(test)]
mod sample;
mod scale;
pub mod scores;
mod throttling;
mod timeline;
mod trial;
pub mod words;

pub use frontier::{Frontier, frontier};
pub use html::html;
pub use placement::{Placement, placement};
pub use trial::{Trial, trial};

use crate::contest::Standing;
use crate::recording::Recording;
use crate::scenario::Scenario;

/// The policy that knows the future: the yardstick, and no competitor.
pub const ORACLE: &str = "oracle";
/// The policy that this is about.
pub const MARKET: &str = "walras";
/// The policies that set no limits, and so count as if every pod had the whole node.
pub const LIMITLESS: [&str; 2] = ["none", "weights"];

/// One scenario of a report.
#[derive(Clone, Copy, Debug)]
pub struct Chapter<'a> {
    /// What was simulated.
    pub scenario: &'a Scenario,
    /// How each policy did.
    pub standings: &'a [Standing],
    /// How the first node did over time, by policy.
    pub recordings: &'a [(&'static str, Recording)],
}
