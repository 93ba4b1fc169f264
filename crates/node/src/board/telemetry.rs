//! The figures of the node, as whoever measures them left them here.
//!
//! The board does not measure: it keeps the last message and says how old it is when it is asked.

use std::time::SystemTime;

use walras_core::market::Mode;
use walras_core::units::Millicores;
use walras_wire::telemetry::NodeTelemetry;

use super::Board;

/// Figures that are older tell nothing about now.
const STALE_AFTER_MS: u64 = 10_000;

/// How the market stands, for whoever sends it along with the node's figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MarketNow {
    /// The published price.
    pub price: f64,
    /// The mode.
    pub mode: Mode,
    /// What pods have a right to and do not need.
    pub lent: Millicores,
}

impl Board {
    /// The node was looked at.
    pub fn set_telemetry(&self, told: NodeTelemetry) {
        self.lock().telemetry = Some(told);
    }

    /// What was last seen of the node, with its age; nothing where nobody looks.
    #[must_use]
    pub fn telemetry(&self) -> Option<NodeTelemetry> {
        let told = self.lock().telemetry.clone()?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Some(aged(told, u64::try_from(now.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How the market stands; nothing before the first clearing.
    #[must_use]
    pub fn market(&self) -> Option<MarketNow> {
        let inner = self.lock();
        (inner.tally.slow_ticks > 0).then(|| MarketNow {
            price: inner.market.price.to_f64(),
            mode: inner.market.mode,
            lent: inner.entries.iter().map(|entry| entry.lent).sum(),
        })
    }
}

/// The same at this time. What was fresh when it was taken may have become stale since.
fn aged(told: NodeTelemetry, now_unix_ms: u64) -> NodeTelemetry {
    let age_ms = now_unix_ms.saturating_sub(told.taken_unix_ms);
    NodeTelemetry { age_ms, stale: told.stale || age_ms > STALE_AFTER_MS, ..told }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_become_stale_while_nobody_looks() {
        let told = NodeTelemetry {
            version: 1,
            node: "a".into(),
            taken_unix_ms: 50_000,
            age_ms: 0,
            stale: false,
            over_ms: None,
            zone: None,
            rack: None,
            figures: Vec::new(),
            drops: Vec::new(),
            market: None,
        };
        let at = |ms| aged(told.clone(), ms);
        assert_eq!((at(60_000).age_ms, at(60_000).stale), (10_000, false));
        assert_eq!((at(60_001).age_ms, at(60_001).stale), (10_001, true));
        assert_eq!(at(49_000).age_ms, 0, "a clock that stepped back makes nothing older");
    }
}
