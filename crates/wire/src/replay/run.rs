//! Gives the facts of a replay to a node's market, one by one, and checks that they make sense in
//! this order.
//!
//! The config comes first and only once, and time never runs backwards. A fact about a workload
//! that is not here is fine, and so is a workload that arrives a second time: the core notes both.

use walras_core::node::{Node, Outcome};
use walras_core::units::Moment;

use super::fact::FactType;
use super::{Event, Fact};
use crate::field::{Place, Problems};
use crate::json::ReadError;
use crate::scalar::quote;

/// A node in the middle of its history.
#[derive(Debug, Default)]
pub struct Replay {
    node: Option<Node>,
    now: Moment,
}

/// What a tick decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticked {
    /// When.
    pub at: Moment,
    /// What.
    pub outcome: Outcome,
}

impl Replay {
    /// A replay before its first line.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in the fact of line `number`; a tick gives an outcome.
    ///
    /// # Errors
    /// The fact makes no sense after those before it. It is as if it had not been given.
    pub fn take_in(&mut self, number: u64, fact: &Fact) -> Result<Option<Ticked>, ReadError> {
        let at = fact.at;
        if at < self.now {
            let (value, now) = (at.as_ms_floor().to_string(), self.now.as_ms_floor());
            let problem = format!("is before {now}, the time of an earlier line");
            return Err(refused(number, "at_ms", value, problem));
        }
        let outcome = match (&mut self.node, &fact.event) {
            (None, Event::Config(config)) => {
                self.node = Some(Node::new(config.capacity_milli, config.profile.clone()));
                None
            }
            (Some(_), Event::Config(_)) => {
                let problem = "may only be the first line".to_owned();
                return Err(refused(number, "type", quote(FactType::Config.name()), problem));
            }
            (None, other) => {
                let value = quote(FactType::of(other).name());
                let problem = "is not \"config\", which must be the first line".to_owned();
                return Err(refused(number, "type", value, problem));
            }
            (Some(node), event) => event.told(at).and_then(|fact| node.tell(fact, at)),
        };
        self.now = at;
        Ok(outcome.map(|outcome| Ticked { at, outcome }))
    }

    /// The input is over.
    ///
    /// # Errors
    /// There was nothing in it.
    pub fn end(&self) -> Result<(), ReadError> {
        match self.node {
            Some(_) => Ok(()),
            None => {
                let problem = "is missing; the first line must be of type \"config\"".to_owned();
                let path = Place::Line(1).path("type");
                Err(ReadError::Invalid(Problems::one(path, None, problem)))
            }
        }
    }

    /// The market, once it was set up.
    #[must_use]
    pub const fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }
}

fn refused(number: u64, field: &str, value: String, problem: String) -> ReadError {
    let path = Place::Line(number).path(field);
    ReadError::Invalid(Problems::one(path, Some(value), problem))
}

// === impl FactType ===

impl FactType {
    const fn of(event: &Event) -> Self {
        match event {
            Event::Config(_) => Self::Config,
            Event::WorkloadAdded(_) => Self::WorkloadAdded,
            Event::Sample(_) => Self::Sample,
            Event::WorkloadRemoved(_) => Self::WorkloadRemoved,
            Event::Tick(_) => Self::Tick,
            Event::Capacity(_) => Self::Capacity,
            Event::Applied(_) => Self::Applied,
            Event::Latency(_) => Self::Latency,
            Event::Found(_) => Self::Found,
            Event::TableRestored(_) => Self::TableRestored,
            Event::UseRestored(_) => Self::UseRestored,
            Event::Allocatable(_) => Self::Allocatable,
            Event::Machine(_) => Self::Machine,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::parse_line;
    use walras_core::learn::{LearnConfig, QTable, SAVED_BYTES_MAX};
    use walras_core::request::UseRecord;
    use walras_core::units::Millicores;

    const CONFIG: &str = r#"{"type": "config", "capacity_milli": 4000}"#;
    const WEB: &str = r#"{"type": "pod_added", "at_ms": 0, "uid": "web", "min_milli": 100,
                          "max_milli": 2000, "limit_milli": 500}"#;

    /// Replays lines, and tells of each tick and of the first thing that went wrong.
    fn check(lines: &[&str]) -> String {
        let mut replay = Replay::new();
        let mut told = String::new();
        for (number, line) in (1..).zip(lines) {
            let taken =
                parse_line(line.as_bytes(), number).and_then(|fact| replay.take_in(number, &fact));
            match taken {
                Ok(None) => {}
                Ok(Some(Ticked { at, outcome })) => {
                    let notes: Vec<String> =
                        outcome.notes.iter().map(ToString::to_string).collect();
                    told += &format!("{} {:?}\n", at.as_ms_floor(), notes);
                }
                Err(error) => return told + &error.to_string(),
            }
        }
        match replay.end() {
            Ok(()) => told,
            Err(error) => told + &error.to_string(),
        }
    }

    #[test]
    fn the_config_comes_first_and_once() {
        assert_eq!(
            check(&[WEB]),
            "line 1: type: \"pod_added\" is not \"config\", which must be the first line"
        );
        assert_eq!(check(&[CONFIG, CONFIG]), "line 2: type: \"config\" may only be the first line");
        assert_eq!(
            check(&[]),
            "line 1: type: is missing; the first line must be of type \"config\""
        );
    }

    #[test]
    fn time_stands_still_but_never_runs_backwards() {
        let tick = r#"{"type": "tick", "loop": "fast", "at_ms": 1000}"#;
        let earlier = r#"{"type": "tick", "loop": "fast", "at_ms": 900}"#;
        assert_eq!(
            check(&[CONFIG, tick, tick, earlier]),
            "1000 []\n1000 []\n\
             line 4: at_ms: 900 is before 1000, the time of an earlier line"
        );
    }

    #[test]
    fn a_workload_that_arrives_again_starts_afresh() {
        let gone = r#"{"type": "pod_removed", "at_ms": 0, "uid": "web"}"#;
        let tick = r#"{"type": "tick", "loop": "fast", "at_ms": 0}"#;
        assert_eq!(check(&[CONFIG, WEB, gone, WEB, tick]), "0 []\n");
        assert_eq!(
            check(&[CONFIG, WEB, WEB, tick]),
            "0 [\"web: was here already, starts afresh\"]\n"
        );
    }

    #[test]
    fn a_table_that_was_saved_is_brought_back() {
        let config = LearnConfig::DEFAULT;
        let saved = QTable::new(42, &config).save();
        let hex: String = saved.bytes().map(|byte| format!("{byte:02X}")).collect();
        let restored = |family: &str, hex: &str| {
            format!(
                r#"{{"type": "table_restored", "at_ms": 0, "workload": "{family}",
                     "saved_hex": "{hex}"}}"#
            )
        };
        let mut replay = Replay::new();
        for line in [CONFIG, &restored("shop/web", &hex)] {
            let fact = parse_line(line.as_bytes(), 1).unwrap();
            replay.take_in(1, &fact).unwrap();
        }
        let tables = replay.node().unwrap().tables();
        let tables: Vec<String> = tables.map(|(_, table)| table.save()).collect();
        assert_eq!(tables, [saved]);
        let tick = r#"{"type": "tick", "loop": "slow", "at_ms": 0}"#;
        let told = check(&[CONFIG, &restored("w", "7b"), tick]);
        assert!(told.contains("w: its learned table was refused, starts afresh: "), "{told}");
        let digits = "saved bytes as hexadecimal digits, two for each of up to 65537 bytes";
        for damaged in ["7", "7g", "+7", &"00".repeat(SAVED_BYTES_MAX + 2)] {
            let told = check(&[CONFIG, &restored("w", damaged)]);
            assert!(told.starts_with("line 2: saved_hex: \""), "{told}");
            assert!(told.ends_with(&format!("is not {digits}")), "{told}");
            assert!(told.len() < 300, "{told}");
        }
    }

    #[test]
    fn what_a_family_used_is_brought_back() {
        let mut record = UseRecord::default();
        record.window_passed(&[Millicores::new(70)]);
        let hex: String = record.save().bytes().map(|byte| format!("{byte:02x}")).collect();
        let restored = |hex: &str| {
            format!(
                r#"{{"type": "use_restored", "at_ms": 0, "workload": "w", "saved_hex": "{hex}"}}"#
            )
        };
        let mut replay = Replay::new();
        for line in [CONFIG, &restored(&hex)] {
            let fact = parse_line(line.as_bytes(), 1).unwrap();
            replay.take_in(1, &fact).unwrap();
        }
        let records: Vec<_> = replay.node().unwrap().records().map(|(_, one)| one).collect();
        assert_eq!(records, [&record]);
        let tick = r#"{"type": "tick", "loop": "slow", "at_ms": 0}"#;
        let told = check(&[CONFIG, &restored("7b"), tick]);
        assert!(told.contains("w: what it used was refused, starts afresh: "), "{told}");
    }

    #[test]
    fn a_fact_about_a_workload_that_is_not_here_is_noted() {
        let told = check(&[
            CONFIG,
            r#"{"type": "pod_removed", "at_ms": 0, "uid": "a"}"#,
            r#"{"type": "applied", "at_ms": 0, "uid": "b"}"#,
            r#"{"type": "latency", "at_ms": 0, "uid": "c", "missed": false}"#,
            r#"{"type": "capacity", "at_ms": 0, "capacity_milli": 1}"#,
            r#"{"type": "tick", "loop": "slow", "at_ms": 5}"#,
        ]);
        assert_eq!(told.matches("not here, so nothing was done with it").count(), 3, "{told}");
    }
}
