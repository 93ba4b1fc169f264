//! The figures of a node as people read them: what `walras telemetry` measures itself, and what
//! `walras top --node` is told by a daemon.

use walras_wire::telemetry::NodeTelemetry;

use crate::screen::Look;

/// Clears a terminal, and goes to its first line.
pub(crate) const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// A node's figures, a line for each.
pub(crate) fn text(told: &NodeTelemetry, look: Look) -> String {
    let over = told
        .over_ms
        .map_or_else(|| "no rates yet".to_owned(), |over_ms| format!("rates over {over_ms} ms"));
    let place: String =
        [&told.zone, &told.rack].into_iter().flatten().map(|part| format!(", {part}")).collect();
    let mut text = format!("{}{place}  {}\n", look.heading(&told.node), look.aside(&over));
    if told.stale {
        text += &format!(
            "These figures are {} s old, so they tell nothing about now.\n",
            told.age_ms / 1000
        );
    }
    if let Some(market) = &told.market {
        let lent = market.lent_milli;
        text += &format!("market {}, price {}, {lent}m lent\n", market.mode, short(market.price));
    }
    text += "\n";
    for figure in &told.figures {
        let (value, source) = match (figure.value, &figure.unavailable) {
            (Some(value), _) => {
                let value = format!("{:>12} {}", short(value), figure.unit);
                (value, look.aside(&figure.source))
            }
            (None, why) => {
                let why = why.as_deref().unwrap_or("not measured");
                (look.aside(&format!("{:>12} {why}", "-")), String::new())
            }
        };
        let line = format!("{:<26}{value:<24}  {source}", figure.name);
        text += line.trim_end();
        text += "\n";
    }
    for drops in &told.drops {
        text += &format!("  dropped: {:<15}{:>12} 1/s\n", drops.reason, short(drops.per_second));
    }
    text
}

/// A number with as many places as tell something.
fn short(value: f64) -> String {
    if value == 0.0 {
        "0".to_owned()
    } else if value < 10.0 {
        format!("{value:.3}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_wire::telemetry::{Figure, MarketSaid};

    #[test]
    fn people_see_the_number_or_the_reason_and_the_market() {
        let figure = |name: &str, unit: &str, value, unavailable: Option<&str>| Figure {
            name: name.to_owned(),
            metric: String::new(),
            about: String::new(),
            unit: unit.to_owned(),
            feature: true,
            value,
            unavailable: unavailable.map(str::to_owned),
            source: "/proc/stat".to_owned(),
        };
        let told = NodeTelemetry {
            version: 1,
            node: "node-7".to_owned(),
            taken_unix_ms: 0,
            age_ms: 11_000,
            stale: true,
            over_ms: Some(1000),
            zone: Some("zone-a".to_owned()),
            rack: None,
            figures: vec![
                figure("cpu_utilization", "ratio", Some(0.25), None),
                figure("disk_iops", "1/s", Some(1234.4), None),
                figure("l3_cache_miss_rate", "ratio", None, Some("there is no counter")),
            ],
            drops: Vec::new(),
            market: Some(MarketSaid { price: 0.5, mode: "congested".to_owned(), lent_milli: 70 }),
        };
        let text = text(&told, Look::PLAIN);
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .filter(|line| !line.is_empty())
            .collect();
        assert_eq!(
            lines,
            [
                "node-7, zone-a rates over 1000 ms",
                "These figures are 11 s old, so they tell nothing about now.",
                "market congested, price 0.500, 70m lent",
                "cpu_utilization 0.250 ratio /proc/stat",
                "disk_iops 1234 1/s /proc/stat",
                "l3_cache_miss_rate - there is no counter",
            ]
        );
    }
}
