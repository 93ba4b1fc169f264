//! One line of a replay: what happened on a node, and when.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use walras_core::demand::Sample;
use walras_core::node::{Allocatable, Loop, MachineSample};
use walras_core::units::{FamilyKey, Millicores, Moment, Span, WorkloadUid};

use super::{Config, WorkloadAdded};
use crate::field::{Fields, Place, Problems};
use crate::json::{self, ReadError};
use crate::kind::{
    Counter, Cpu, Family, Flag, Kind, LoopWord, Microseconds, Milliseconds, TABLE_BYTES_MAX,
    TableHex, Uid, word,
};
use crate::scalar::{Object, Scalar};

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// When.
    pub at: Moment,
    /// What.
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The node and its market were set up.
    Config(Box<Config>),
    /// A workload arrived.
    WorkloadAdded(WorkloadAdded),
    /// A workload's counters were read.
    Sample(SampleTaken),
    /// The machine's counters were read.
    Machine(MachineTaken),
    /// A workload is gone.
    WorkloadRemoved(WorkloadRemoved),
    /// A loop ticked.
    Tick(Tick),
    /// The node has another capacity.
    Capacity(Capacity),
    /// A limit was seen to be in force.
    Applied(Applied),
    /// A workload was found to miss its latency target, or to meet it again.
    Latency(Latency),
    /// A workload was found to have another limit than the one last decided.
    Found(Found),
    /// A learned table was brought back from where it was saved.
    TableRestored(TableRestored),
    /// What a family used was brought back from where it was saved.
    UseRestored(UseRestored),
    /// What requests may add up to is another.
    Allocatable(AllocatableTold),
}

/// A workload's counters were read, as the kernel has them in `cpu.stat` and `cpu.pressure`.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SampleTaken {
    /// Whose.
    #[schemars(with = "Uid")]
    pub uid: WorkloadUid,
    /// CPU time used so far.
    #[schemars(with = "Microseconds")]
    pub usage_usec: Span,
    /// Time spent throttled so far, summed over CPUs.
    #[schemars(with = "Microseconds")]
    pub throttled_usec: Span,
    /// Periods so far in which the workload wanted to run.
    #[schemars(with = "Counter")]
    pub nr_periods: u64,
    /// Those of them in which it was throttled.
    #[schemars(with = "Counter")]
    pub nr_throttled: u64,
    /// Time so far in which some task waited for a CPU, where the kernel tells.
    #[schemars(with = "Option<Microseconds>")]
    pub stalled_usec: Option<Span>,
}

/// The machine's counters were read: CPU time over all CPUs that workloads may use.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct MachineTaken {
    /// CPU time that was idle so far.
    #[schemars(with = "Microseconds")]
    pub idle_usec: Span,
    /// CPU time that was used so far.
    #[schemars(with = "Microseconds")]
    pub busy_usec: Span,
}

/// A workload is gone.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct WorkloadRemoved {
    /// Which.
    #[schemars(with = "Uid")]
    pub uid: WorkloadUid,
}

/// A loop ticked: this is when things are decided.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Tick {
    /// The fast loop only raises limits of workloads that are held back; the slow one clears the
    /// market.
    #[schemars(with = "LoopWord")]
    pub r#loop: Loop,
}

/// The node has another capacity from now on.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Capacity {
    /// What there is to divide.
    #[schemars(with = "Cpu")]
    pub capacity_milli: Millicores,
}

/// The limit last decided for a workload was seen to be in force.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Applied {
    /// Whose.
    #[schemars(with = "Uid")]
    pub uid: WorkloadUid,
}

/// A workload was found to miss its latency target, or to meet it again.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Latency {
    /// Which.
    #[schemars(with = "Uid")]
    pub uid: WorkloadUid,
    /// Whether it misses it.
    #[schemars(with = "Flag")]
    pub missed: bool,
}

/// A workload was found to have another limit than the one last decided: a change failed, was not
/// carried out, or another process made one.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Found {
    /// Which.
    #[schemars(with = "Uid")]
    pub uid: WorkloadUid,
    /// The limit in force.
    #[schemars(with = "Cpu")]
    pub limit_milli: Millicores,
}

/// A learned table was brought back from where it was saved. One that cannot be understood is
/// replaced by a fresh one.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct TableRestored {
    /// Whose.
    #[schemars(rename = "workload", with = "Family")]
    pub family: FamilyKey,
    /// The bytes that were saved, each as two digits. They need not be a table.
    #[schemars(with = "TableHex")]
    pub saved_hex: Vec<u8>,
}

/// What a family used was brought back from where it was saved. What cannot be understood is left
/// out.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct UseRestored {
    /// Whose.
    #[schemars(rename = "workload", with = "Family")]
    pub family: FamilyKey,
    /// The bytes that were saved, each as two digits. They need not be a record.
    #[schemars(with = "TableHex")]
    pub saved_hex: Vec<u8>,
}

/// What the requests of a node may add up to from now on.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AllocatableTold {
    /// What the node has for workloads, whatever is kept back of it.
    #[schemars(with = "Cpu")]
    pub allocatable_milli: Millicores,
    /// What those request that are not sized.
    #[schemars(with = "Cpu")]
    pub set_aside_milli: Millicores,
}

/// The `type` of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FactType {
    Config,
    WorkloadAdded,
    Sample,
    Machine,
    WorkloadRemoved,
    Tick,
    Capacity,
    Applied,
    Latency,
    Found,
    TableRestored,
    UseRestored,
    Allocatable,
}

/// Reads one line of a replay, without its line end. `number` is told in errors.
///
/// # Errors
/// Whatever is wrong with the bytes, the JSON or the fact in it; all mistakes of a line at once.
pub fn parse_line(bytes: &[u8], number: u64) -> Result<Fact, ReadError> {
    let object: Object = json::line(bytes, number)?;
    let mut problems = Problems::default();
    let mut fields = Fields::new(Place::Line(number), object, &mut problems);
    let fact = fields.required::<FactType>("type").and_then(|kind| {
        let at = if kind.needs_time() {
            fields.required::<Milliseconds>("at_ms")
        } else {
            Some(fields.optional::<Milliseconds>("at_ms").unwrap_or_default())
        };
        let event = kind.read(&mut fields);
        fields.finish();
        Some(Fact { at: at?, event: event? })
    });
    match fact {
        Some(fact) if problems.is_empty() => Ok(fact),
        Some(_) | None => Err(ReadError::Invalid(problems)),
    }
}

// === impl FactType ===

impl FactType {
    pub(super) const ALL: [Self; 13] = [
        Self::Config,
        Self::WorkloadAdded,
        Self::Sample,
        Self::Machine,
        Self::WorkloadRemoved,
        Self::Tick,
        Self::Capacity,
        Self::Applied,
        Self::Latency,
        Self::Found,
        Self::TableRestored,
        Self::UseRestored,
        Self::Allocatable,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Config => "config",
            Self::WorkloadAdded => "pod_added",
            Self::Sample => "sample",
            Self::Machine => "machine",
            Self::WorkloadRemoved => "pod_removed",
            Self::Tick => "tick",
            Self::Capacity => "capacity",
            Self::Applied => "applied",
            Self::Latency => "latency",
            Self::Found => "found",
            Self::TableRestored => "table_restored",
            Self::UseRestored => "use_restored",
            Self::Allocatable => "allocatable",
        }
    }

    /// Only what stands at the beginning can do without a time.
    pub(super) fn needs_time(self) -> bool {
        self != Self::Config
    }

    pub(super) fn schema(self, generator: &mut SchemaGenerator) -> Schema {
        match self {
            Self::Config => Config::json_schema(generator),
            Self::WorkloadAdded => WorkloadAdded::json_schema(generator),
            Self::Sample => SampleTaken::json_schema(generator),
            Self::Machine => MachineTaken::json_schema(generator),
            Self::WorkloadRemoved => WorkloadRemoved::json_schema(generator),
            Self::Tick => Tick::json_schema(generator),
            Self::Capacity => Capacity::json_schema(generator),
            Self::Applied => Applied::json_schema(generator),
            Self::Latency => Latency::json_schema(generator),
            Self::Found => Found::json_schema(generator),
            Self::TableRestored => TableRestored::json_schema(generator),
            Self::UseRestored => UseRestored::json_schema(generator),
            Self::Allocatable => AllocatableTold::json_schema(generator),
        }
    }

    fn read(self, fields: &mut Fields<'_>) -> Option<Event> {
        Some(match self {
            Self::Config => Event::Config(Box::new(Config::read(fields)?)),
            Self::WorkloadAdded => Event::WorkloadAdded(WorkloadAdded::read(fields)?),
            Self::Sample => Event::Sample(SampleTaken::read(fields)?),
            Self::Machine => {
                let idle = fields.required::<Microseconds>("idle_usec");
                let busy = fields.required::<Microseconds>("busy_usec");
                Event::Machine(MachineTaken { idle_usec: idle?, busy_usec: busy? })
            }
            Self::WorkloadRemoved => {
                Event::WorkloadRemoved(WorkloadRemoved { uid: fields.required::<Uid>("uid")? })
            }
            Self::Tick => Event::Tick(Tick { r#loop: fields.required::<LoopWord>("loop")? }),
            Self::Capacity => {
                let capacity_milli = fields.required::<Cpu>("capacity_milli")?;
                Event::Capacity(Capacity { capacity_milli })
            }
            Self::Applied => Event::Applied(Applied { uid: fields.required::<Uid>("uid")? }),
            Self::Latency => {
                let uid = fields.required::<Uid>("uid");
                let missed = fields.required::<Flag>("missed");
                Event::Latency(Latency { uid: uid?, missed: missed? })
            }
            Self::Found => {
                let uid = fields.required::<Uid>("uid");
                let limit = fields.required::<Cpu>("limit_milli");
                Event::Found(Found { uid: uid?, limit_milli: limit? })
            }
            Self::TableRestored => {
                let family = fields.required::<Family>("workload");
                let saved = fields.required::<TableHex>("saved_hex");
                Event::TableRestored(TableRestored { family: family?, saved_hex: saved? })
            }
            Self::UseRestored => {
                let family = fields.required::<Family>("workload");
                let saved = fields.required::<TableHex>("saved_hex");
                Event::UseRestored(UseRestored { family: family?, saved_hex: saved? })
            }
            Self::Allocatable => {
                let size = fields.required::<Cpu>("allocatable_milli");
                let set_aside = fields.required::<Cpu>("set_aside_milli");
                let (allocatable_milli, set_aside_milli) = (size?, set_aside?);
                Event::Allocatable(AllocatableTold { allocatable_milli, set_aside_milli })
            }
        })
    }
}

impl Kind for FactType {
    type Meaning = Self;
    const WHAT: &'static str = "\"config\", \"pod_added\", \"sample\", \"machine\", \
                                \"pod_removed\", \"tick\", \"capacity\", \"applied\", \
                                \"latency\", \"found\", \"table_restored\", \
                                \"use_restored\" or \"allocatable\"";

    fn accept(written: &Scalar) -> Option<Self> {
        word(written, &Self::ALL, Self::name)
    }

    fn schema() -> Schema {
        schemars::json_schema!({ "enum": Self::ALL.map(Self::name) })
    }
}

// === impl MachineTaken ===

impl MachineTaken {
    /// What the core is told.
    #[must_use]
    pub const fn sample(&self, at: Moment) -> MachineSample {
        MachineSample { at, idle: self.idle_usec, busy: self.busy_usec }
    }
}

// === impl TableRestored ===

impl TableRestored {
    /// The table that was saved as these bytes. Of what is too long for a table, only as much is
    /// kept as makes it too long.
    #[must_use]
    pub fn new(family: FamilyKey, saved: &[u8]) -> Self {
        let saved = saved.get(..TABLE_BYTES_MAX).unwrap_or(saved);
        Self { family, saved_hex: saved.to_vec() }
    }
}

// === impl UseRestored ===

impl UseRestored {
    /// The record that was saved as these bytes. Of what is too long for one, only as much is kept
    /// as makes it too long.
    #[must_use]
    pub fn new(family: FamilyKey, saved: &[u8]) -> Self {
        let saved = saved.get(..TABLE_BYTES_MAX).unwrap_or(saved);
        Self { family, saved_hex: saved.to_vec() }
    }
}

// === impl AllocatableTold ===

impl AllocatableTold {
    /// What the core is told.
    #[must_use]
    pub const fn told(&self) -> Allocatable {
        Allocatable { size: self.allocatable_milli, set_aside: self.set_aside_milli }
    }
}

impl From<Allocatable> for AllocatableTold {
    fn from(told: Allocatable) -> Self {
        Self { allocatable_milli: told.size, set_aside_milli: told.set_aside }
    }
}

// === impl SampleTaken ===

impl SampleTaken {
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let uid = fields.required::<Uid>("uid");
        let usage = fields.required::<Microseconds>("usage_usec");
        let throttled = fields.required::<Microseconds>("throttled_usec");
        let periods = fields.required::<Counter>("nr_periods");
        let throttled_periods = fields.required::<Counter>("nr_throttled");
        let stalled_usec = fields.optional::<Microseconds>("stalled_usec");
        Some(Self {
            uid: uid?,
            usage_usec: usage?,
            throttled_usec: throttled?,
            nr_periods: periods?,
            nr_throttled: throttled_periods?,
            stalled_usec,
        })
    }

    /// What the core is told.
    #[must_use]
    pub const fn sample(&self, at: Moment) -> Sample {
        Sample {
            at,
            usage: self.usage_usec,
            throttled: self.throttled_usec,
            nr_periods: self.nr_periods,
            nr_throttled: self.nr_throttled,
            stalled: self.stalled_usec,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> String {
        match parse_line(line.as_bytes(), 17) {
            Ok(fact) => format!("{fact:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_fact_is_read_with_its_time() {
        assert_eq!(
            check(r#"{"at_ms": 12400, "type": "tick", "loop": "slow"}"#),
            "Fact { at: Moment(12400000), event: Tick(Tick { loop: Slow }) }"
        );
        assert_eq!(
            check(r#"{"type": "latency", "at_ms": 0, "uid": "a", "missed": true}"#),
            "Fact { at: Moment(0), event: Latency(Latency { uid: WorkloadUid(\"a\"), \
             missed: true }) }"
        );
    }

    #[test]
    fn a_fact_without_a_time_or_type_is_refused() {
        assert_eq!(
            check(r#"{"type": "pod_removed", "uid": "a"}"#),
            "line 17: at_ms: is missing; it must be a whole number of milliseconds from 0 to \
             1000000000000000"
        );
        assert_eq!(
            check(r#"{"type": "pod_addet", "at_ms": 1}"#),
            "line 17: type: \"pod_addet\" is not \"config\", \"pod_added\", \"sample\", \
             \"machine\", \"pod_removed\", \"tick\", \"capacity\", \"applied\", \"latency\", \
             \"found\", \"table_restored\", \"use_restored\" or \"allocatable\""
        );
        assert!(check("{}").starts_with("line 17: type: is missing; it must be \"config\""));
    }

    #[test]
    fn every_mistake_of_a_line_is_told_at_once() {
        assert_eq!(
            check(
                r#"{"type": "pod_added", "at_ms": -1, "uid": "", "min_milli": 9, "max_milli": 8,
                   "limit_milli": 5, "request_milli": 6, "wieght": 2}"#
            ),
            "5 problems\n  \
             line 17: at_ms: -1 is not a whole number of milliseconds from 0 to \
             1000000000000000\n  \
             line 17: uid: \"\" is not a name of 1 to 512 characters, all of them visible\n  \
             line 17: min_milli: 9 is more than max_milli, which is 8\n  \
             line 17: request_milli: 6 is more than limit_milli, which is 5\n  \
             line 17: wieght: 2 is given to an unknown field; did you mean weight?"
        );
    }

    #[test]
    fn a_truncated_line_is_refused_where_it_ends() {
        assert_eq!(
            check(r#"{"type": "tick", "at_ms": 1"#),
            "line 17: the text ends in the middle of the JSON, \
             near `ype\": \"tick\", \"at_ms\": 1` (column 27)"
        );
    }

    #[test]
    fn the_words_of_the_types_are_all_promised() {
        for kind in FactType::ALL {
            assert!(FactType::WHAT.contains(&format!("\"{}\"", kind.name())));
        }
    }
}
