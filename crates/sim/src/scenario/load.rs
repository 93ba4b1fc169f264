//! What a pod of a scenario file is going to want: a service, a batch job or replayed usage, with
//! its shape over time. A shape may be a recorded one; its file is read here, through the reader
//! that the caller brought.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::SystemSpec;
use super::groups::{DEFAULT_KERNEL_WEIGHT, KERNEL_WEIGHT};
use super::kind::Text;
use super::trace::{self, Format, Reading, Trace, Unit};
use crate::load::{LoadSpec, Memory, Shape, Startup};
use walras_wire::settings::Fields;
use walras_wire::settings::{Number, Whole, Word};

/// How a file is read: all that is asked of the outside.
pub type Reader<'a> = dyn Fn(&Path) -> io::Result<Vec<u8>> + 'a;

/// What is known of a scenario before its pods are read.
pub(super) struct Surroundings<'a> {
    /// Where the paths of traces begin.
    pub(super) folder: &'a Path,
    pub(super) read: &'a Reader<'a>,
    /// The threads of a pod that does not say: as many as the node can run.
    pub(super) node_threads: f64,
}

const RATE: Number = Number { of: "requests per second", least: 0.0, most: 1e6 };
const CORES: Number = Number { of: "cores", least: 0.0, most: 1e6 };
/// A time within a scenario.
const TIME_S: Number = Number { of: "seconds", least: 0.0, most: 2_592_000.0 };
/// A length of time within a scenario, which lasts up to thirty days.
const LENGTH_S: Number = Number { of: "seconds", least: 0.001, most: 2_592_000.0 };
const PER_HOUR: Number = Number { of: "storms an hour", least: 0.001, most: 3600.0 };
const COST_MS: Number = Number { of: "milliseconds", least: 0.001, most: 3_600_000.0 };
const VARIATION: Number = Number { of: "", least: 0.0, most: 10.0 };
const WORK: Number = Number { of: "core-seconds", least: 0.001, most: 1e9 };
const THREADS: Whole<u32> = Whole { of: "threads", least: 1, most: 100_000 };
const MIB: Number = Number { of: "MiB", least: 0.0, most: 1e9 };
const FACTOR: Number = Number { of: "", least: 1e-6, most: 1e6 };
const MACHINE_CORES: Number = Number { of: "cores", least: 0.001, most: 1e6 };
const PATH: Text = Text { most_bytes: 4096 };
const FORMAT: Word<Format> = Word {
    all: &[
        ("requests", Format::Requests),
        ("percent", Format::Percent),
        ("bitbrains", Format::Bitbrains),
        ("alibaba", Format::Alibaba),
        ("google", Format::Google),
    ],
};

/// How much the cost of requests varies where a scenario does not say: as much as it is.
const DEFAULT_VARIATION: f64 = 1.0;

const LOADS: [&str; 3] = ["service", "batch", "usage"];
const SHAPES: [&str; 7] = ["constant", "periodic", "ramp", "steps", "storms", "pulses", "trace"];

/// The load of a pod.
pub(super) fn load(pod: &mut Fields<'_>, around: &Surroundings<'_>) -> Option<LoadSpec> {
    let given = LOADS.into_iter().filter(|name| pod.has(name)).count();
    if given != 1 {
        let wanted = LOADS.map(|name| format!("[pod.{name}]")).join(", ");
        pod.problem_here(format!("has {given} loads; it must have exactly one of {wanted}"));
    }
    let [service_table, batch_table, usage_table] = LOADS.map(|name| pod.table(name));
    let mut found = None;
    if let Some(mut table) = service_table {
        found = service(&mut table, around);
        pod.finish(table);
    }
    if let Some(mut table) = batch_table {
        found = batch(&mut table);
        pod.finish(table);
    }
    if let Some(mut table) = usage_table {
        found = usage(&mut table, around);
        pod.finish(table);
    }
    found
}

/// What runs on a node outside of all pods.
pub(super) fn system(node: &mut Fields<'_>, around: &Surroundings<'_>) -> Option<SystemSpec> {
    let mut table = node.table("system")?;
    let cores = shape(&mut table, "cores", Unit::Cores, around);
    let weight = table.optional("weight", &KERNEL_WEIGHT).unwrap_or(DEFAULT_KERNEL_WEIGHT);
    node.finish(table);
    Some(SystemSpec { cores: cores?, weight })
}

/// The work before a pod is ready.
pub(super) fn startup(pod: &mut Fields<'_>) -> Option<Startup> {
    let mut table = pod.table("startup")?;
    let work_core_s = table.required("work_core_s", &WORK);
    let threads = table.required("threads", &THREADS);
    pod.finish(table);
    Some(Startup { work_core_s: work_core_s?, threads: f64::from(threads?) })
}

/// The memory a pod takes.
pub(super) fn memory(pod: &mut Fields<'_>) -> Option<Memory> {
    let mut table = pod.table("memory")?;
    let base_mib = table.required("base_mib", &MIB);
    let per_request_mib = table.optional("per_request_mib", &MIB).unwrap_or(0.0);
    pod.finish(table);
    Some(Memory { base_mib: base_mib?, per_request_mib })
}

fn service(table: &mut Fields<'_>, around: &Surroundings<'_>) -> Option<LoadSpec> {
    let rate = shape(table, "rate", Unit::Requests, around);
    let cost_ms = table.required("cost_ms", &COST_MS);
    let cost_variation = table.optional("cost_variation", &VARIATION).unwrap_or(DEFAULT_VARIATION);
    let threads = table.optional("threads", &THREADS).map_or(around.node_threads, f64::from);
    Some(LoadSpec::Service { rate: rate?, cost_ms: cost_ms?, cost_variation, threads })
}

fn batch(table: &mut Fields<'_>) -> Option<LoadSpec> {
    let work_core_s = table.optional("work_core_s", &WORK);
    let threads = table.required("threads", &THREADS);
    let every_s = table.optional("every_s", &LENGTH_S);
    if every_s.is_some() && !table.has("work_core_s") {
        let what = "is given, but work without an end does not come again; give work_core_s, too";
        table.problem("every_s", what.to_owned());
    }
    Some(LoadSpec::Batch { work_core_s, threads: f64::from(threads?), every_s })
}

fn usage(table: &mut Fields<'_>, around: &Surroundings<'_>) -> Option<LoadSpec> {
    let cores = shape(table, "cores", Unit::Cores, around);
    let threads = table.optional("threads", &THREADS).map_or(around.node_threads, f64::from);
    Some(LoadSpec::Usage { cores: cores?, threads })
}

/// A quantity over time.
fn shape(
    outer: &mut Fields<'_>,
    name: &'static str,
    unit: Unit,
    around: &Surroundings<'_>,
) -> Option<Shape> {
    let is_there = outer.has(name);
    let Some(mut table) = outer.table(name) else {
        if !is_there {
            let what = "is missing; it must be a shape such as { constant = 10 }";
            outer.problem(name, what.to_owned());
        }
        return None;
    };
    let given = SHAPES.into_iter().filter(|name| table.has(name)).count();
    if given != 1 {
        let what = format!("has {given} shapes; it must have exactly one of {}", SHAPES.join(", "));
        table.problem_here(what);
    }
    let level = match unit {
        Unit::Requests => RATE,
        Unit::Cores => CORES,
    };
    let drawn = [drawn(&mut table, &level), recorded(&mut table, unit, around)];
    outer.finish(table);
    drawn.into_iter().flatten().next()
}

/// One of the shapes that are worked out.
fn drawn(table: &mut Fields<'_>, level: &Number) -> Option<Shape> {
    let constant = table.optional("constant", level).map(|level| Shape::Constant { level });
    let mut of = |name, make: fn(&mut Fields<'_>, &Number) -> Option<Shape>| {
        let mut inner = table.table(name)?;
        let made = make(&mut inner, level);
        table.finish(inner);
        made
    };
    let shapes = [constant, of("periodic", periodic), of("ramp", ramp), of("steps", steps)];
    shapes.into_iter().chain([of("storms", storms), of("pulses", pulses)]).flatten().next()
}

fn periodic(table: &mut Fields<'_>, level: &Number) -> Option<Shape> {
    let (low, high) = range(table, level, "low", "high");
    let period_s = table.required("period_s", &LENGTH_S);
    Some(Shape::Periodic { low: low?, high: high?, period_s: period_s? })
}

fn ramp(table: &mut Fields<'_>, level: &Number) -> Option<Shape> {
    let from = table.required("from", level);
    let to = table.required("to", level);
    let over_s = table.required("over_s", &LENGTH_S);
    Some(Shape::Ramp { from: from?, to: to?, over_s: over_s? })
}

fn steps(table: &mut Fields<'_>, level: &Number) -> Option<Shape> {
    let (low, high) = range(table, level, "low", "high");
    let every_s = table.required("every_s", &LENGTH_S);
    Some(Shape::Steps { low: low?, high: high?, every_s: every_s? })
}

fn storms(table: &mut Fields<'_>, level: &Number) -> Option<Shape> {
    let (base, peak) = range(table, level, "base", "peak");
    let per_hour = table.required("per_hour", &PER_HOUR);
    let (shortest_s, longest_s) = range(table, &LENGTH_S, "shortest_s", "longest_s");
    let (per_hour, longest_s) = (per_hour?, longest_s?);
    let room_s = 3600.0 / per_hour;
    if longest_s > room_s {
        let what =
            format!("does not fit: with {per_hour} storms an hour there are {room_s} s each");
        table.problem("longest_s", what);
    }
    let (base, peak, shortest_s) = (base?, peak?, shortest_s?);
    Some(Shape::Storms { base, peak, per_hour, shortest_s, longest_s })
}

fn pulses(table: &mut Fields<'_>, level: &Number) -> Option<Shape> {
    let (base, peak) = range(table, level, "base", "peak");
    let first_s = table.optional("first_s", &TIME_S).unwrap_or(0.0);
    let length_s = table.required("length_s", &LENGTH_S);
    let every_s = table.optional("every_s", &LENGTH_S);
    if let (Some(length_s), Some(every_s)) = (length_s, every_s) {
        table.ordered(("length_s", length_s), ("every_s", every_s));
    }
    Some(Shape::Pulses { base: base?, peak: peak?, first_s, length_s: length_s?, every_s })
}

/// Two numbers of which the first is not above the second.
fn range(
    table: &mut Fields<'_>,
    kind: &Number,
    low: &'static str,
    high: &'static str,
) -> (Option<f64>, Option<f64>) {
    let found = (table.required(low, kind), table.required(high, kind));
    if let (Some(least), Some(most)) = found {
        table.ordered((low, least), (high, most));
    }
    found
}

/// A shape that was recorded in a file.
fn recorded(table: &mut Fields<'_>, unit: Unit, around: &Surroundings<'_>) -> Option<Shape> {
    let name = table.optional("trace", &PATH);
    if !table.has("trace") {
        return None;
    }
    let format = table.optional("format", &FORMAT);
    let machine_cores = table.optional("machine_cores", &MACHINE_CORES);
    let scale = table.optional("scale", &FACTOR);
    let mean = table.optional("mean", &FACTOR);
    let trace = match open(&name?, format, machine_cores, around) {
        Ok(trace) => trace,
        Err(problem) => {
            table.problem("trace", format!("cannot be used: {problem}"));
            return None;
        }
    };
    let scale = match (scale, mean) {
        (None, None) if trace.unit != unit => {
            let what = format!(
                "holds {}, but {unit} are wanted here; give another format, or scale or mean",
                trace.unit
            );
            table.problem("trace", what);
            return None;
        }
        (Some(_), Some(_)) => {
            table.problem("scale", "is given, and mean is, too; give one of them".to_owned());
            return None;
        }
        (Some(scale), None) => scale,
        (None, Some(mean)) if trace.peak() > 0.0 => mean / trace.mean(),
        (None, Some(_)) => {
            table.problem("mean", "cannot be reached, since the trace is all zeros".to_owned());
            return None;
        }
        (None, None) => 1.0,
    };
    let peak = trace.peak() * scale;
    if peak > RATE.most {
        table.problem("trace", format!("goes up to {peak}; at most {} is accepted", RATE.most));
    }
    let levels: Arc<[f64]> = trace.levels.iter().map(|level| level * scale).collect();
    Some(Shape::Series { levels, step_s: trace.step_s })
}

fn open(
    name: &str,
    format: Option<Format>,
    machine_cores: Option<f64>,
    around: &Surroundings<'_>,
) -> Result<Trace, String> {
    let (path, machine) = trace::split_name(name);
    let path = around.folder.join(path);
    let file = path.display().to_string();
    let bytes = (around.read)(&path).map_err(|error| format!("{file}: {error}"))?;
    let how = Reading { format, machine, machine_cores };
    trace::parse(&bytes, &file, &how).map_err(|error| error.to_string())
}
