//! The memory of a pod: an amount that is always there, and some for each request in progress.
//!
//! It follows the load and nothing follows it: no policy sees it, and nobody runs out of it. What a
//! queue that was made longer by a tight limit costs in memory is what it is there to show.

/// What a pod takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// For as long as it runs.
    pub base_mib: f64,
    /// For each request that was accepted and is not yet answered.
    pub per_request_mib: f64,
}

impl Memory {
    /// What it takes with so many requests in progress.
    #[must_use]
    pub fn in_use_mib(&self, requests: f64) -> f64 {
        self.base_mib + self.per_request_mib * requests
    }
}
