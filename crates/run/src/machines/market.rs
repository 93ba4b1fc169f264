//! What machines that are sized have to do with the market of their host.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use walras_core::units::Millicores;

/// The market of a host, as far as its machines are concerned.
pub trait Market: fmt::Debug + Send + Sync {
    /// What all but these groups have a right to, and what CPU costs; nothing while the market has
    /// not been cleared yet.
    fn others(&self, groups: &BTreeSet<String>) -> Option<Others>;

    /// What these groups are permitted, and no other.
    fn permitted(&self, caps: BTreeMap<String, Millicores>);
}

/// What a market says of others than machines.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Others {
    /// What they have a right to.
    pub rights: Millicores,
    /// What CPU costs, where that is known.
    pub price: Option<f64>,
}

/// A host without a market: machines divide it among themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMarket;

impl Market for NoMarket {
    fn others(&self, _groups: &BTreeSet<String>) -> Option<Others> {
        Some(Others::default())
    }

    fn permitted(&self, _caps: BTreeMap<String, Millicores>) {}
}
