//! A scenario from the text of a TOML file.
//!
//! Called by [`super::read`] for files of users and by [`super::builtin`]. The file is taken as a
//! whole or refused as a whole, with everything that is wrong with it: keys that nobody knows,
//! values of the wrong kind or out of range, and values that contradict each other.

use std::collections::BTreeMap;
use std::path::Path;

use toml::de::DeTable;
use walras_core::claim::Nature;
use walras_core::units::{Millicores, Weight};

use super::groups::{self, CpuChoice, Turn};
use super::kind::{Cores, Cpu, CpuOrNone, Seed, Text};
use super::load::{self, Reader, Surroundings};
use super::problem::ScenarioError;
use super::{NodeSpec, PodSpec, Scenario, Suite};
use crate::load::{LoadSpec, Memory};
use crate::machine::CpuSet;
use walras_wire::settings::{BargainingWeight, Flag, Number, Whole, Word};
use walras_wire::settings::{Fields, line_at};
use walras_wire::settings::{Problem, Problems};

const NAME: Text = Text { most_bytes: 100 };
const ABOUT: Text = Text { most_bytes: 1000 };
const SUITE: Word<Suite> = Word { all: &[("train", Suite::Train), ("test", Suite::Test)] };
const NATURE: Word<Nature> =
    Word { all: &[("batch", Nature::Batch), ("service", Nature::Service)] };
/// A run of thirty days is as long as the simulator's clock allows in whole milliseconds.
const HOURS: Number = Number { of: "hours", least: 0.001, most: 720.0 };
const MINUTES: Number = Number { of: "minutes", least: 0.05, most: 43_200.0 };
const NODES: Whole<u32> = Whole { of: "nodes", least: 1, most: 100_000 };
const REPLICAS: Whole<u32> = Whole { of: "pods", least: 1, most: PODS_MAX };
const TIME_S: Number = Number { of: "seconds", least: 0.0, most: 2_592_000.0 };
const LATENCY_MS: Number = Number { of: "milliseconds", least: 0.001, most: 3_600_000.0 };

/// A node has at most so many pods.
const PODS_MAX: u32 = 10_000;
/// How long a scenario goes on that does not say.
const DEFAULT_DURATION_S: u32 = 3600;
/// The seed of a scenario that does not say.
const DEFAULT_SEED: u64 = 1;

/// Reads a scenario. The paths of traces are relative to the folder of `file`; what they hold comes
/// from `read`.
///
/// # Errors
/// Where anything is wrong, with all that is.
pub fn parse(bytes: &[u8], file: &Path, read: &Reader<'_>) -> Result<Scenario, ScenarioError> {
    let refused = |problems| ScenarioError::Refused {
        file: file.display().to_string(),
        problems: Problems::new(problems),
    };
    let text = str::from_utf8(bytes).map_err(|error| refused(vec![not_text(bytes, error)]))?;
    let (document, faults) = DeTable::parse_recoverable(text);
    if !faults.is_empty() {
        // What follows a fault on its line is mostly the fault again.
        let mut problems: Vec<Problem> = faults.iter().map(|fault| not_toml(text, fault)).collect();
        problems.dedup_by_key(|problem| problem.line);
        return Err(refused(problems));
    }
    let mut fields = Fields::root(text, document.get_ref());
    let folder = file.parent().unwrap_or(Path::new(""));
    let scenario = scenario(&mut fields, folder, read);
    let problems = fields.problems();
    match scenario {
        Some(scenario) if problems.is_empty() => Ok(scenario),
        Some(_) | None => Err(refused(problems)),
    }
}

fn scenario(fields: &mut Fields<'_>, folder: &Path, read: &Reader<'_>) -> Option<Scenario> {
    let name = fields.required("name", &NAME);
    let about = fields.required("about", &ABOUT);
    let suite = fields.optional("suite", &SUITE).unwrap_or_default();
    let seed = fields.optional("seed", &Seed).unwrap_or(DEFAULT_SEED);
    let duration_s = duration_s(fields);
    let capacity = fields.required("cores", &Cores);
    let nodes = fields.optional("nodes", &NODES).unwrap_or(1);
    // Where the node is not known, its pods are read all the same, for the sake of their problems.
    let node_threads = capacity.map_or(1.0, threads_of);
    let around = Surroundings { folder, read, node_threads };
    let system = load::system(fields, &around);
    let pods = pods(fields, duration_s, &around, Turn::of(capacity));
    let node = NodeSpec { capacity: capacity?, system };
    Some(Scenario { name: name?, about: about?, suite, seed, duration_s, node, nodes, pods })
}

/// As many threads as a node of this size can run at once.
pub(super) fn threads_of(capacity: Millicores) -> f64 {
    let cores = capacity.get().div_ceil(1000).min(Millicores::LIMIT.get() / 1000);
    u32::try_from(cores).map_or(1.0, f64::from)
}

fn duration_s(fields: &mut Fields<'_>) -> u32 {
    let hours = fields.optional("hours", &HOURS);
    let minutes = fields.optional("minutes", &MINUTES);
    if fields.has("hours") && fields.has("minutes") {
        fields.problem("minutes", "is given, and hours are, too; give one of them".to_owned());
    }
    let seconds = hours.map(|hours| hours * 3600.0).or(minutes.map(|minutes| minutes * 60.0));
    match seconds {
        Some(seconds) => {
            u32::try_from(walras_wire::settings::nearest_u64(seconds)).unwrap_or(u32::MAX)
        }
        None => DEFAULT_DURATION_S,
    }
}

fn pods(
    fields: &mut Fields<'_>,
    duration_s: u32,
    around: &Surroundings<'_>,
    mut turn: Turn,
) -> Vec<PodSpec> {
    let mut pods: Vec<PodSpec> = Vec::new();
    let mut taken: BTreeMap<String, String> = BTreeMap::new();
    let mut total = 0_u32;
    for mut table in fields.tables("pod") {
        if let Some((pod, replicas)) = pod(&mut table, duration_s, around, &turn) {
            total = total.saturating_add(replicas.count);
            if total > PODS_MAX {
                let what = format!("makes {total} pods; a node has at most {PODS_MAX}");
                table.problem("replicas", what);
            } else {
                let before = pods.len();
                pods.extend(
                    (0..replicas.count).map(|number| replicas.pod(&pod, number, &mut turn)),
                );
                claim_names(&mut table, pods.iter().skip(before), &mut taken);
            }
        }
        fields.finish(table);
    }
    let bound = pods.iter().filter_map(|pod| pod.cpus);
    if CpuSet::regions(bound.chain(turn.all())).is_none() {
        let what = "is bound to CPUs that overlap in too many ways; give fewer sets of cpus";
        fields.problem("pod", what.to_owned());
    }
    pods
}

/// Refuses names that an earlier pod has; `taken` has the path of the pod of each name.
fn claim_names<'a>(
    table: &mut Fields<'_>,
    pods: impl Iterator<Item = &'a PodSpec>,
    taken: &mut BTreeMap<String, String>,
) {
    for PodSpec { name, .. } in pods {
        if let Some(other) = taken.get(name) {
            table.problem("name", format!("makes a pod {name:?}, as {other} does"));
        } else {
            taken.insert(name.clone(), table.key_of("name"));
        }
    }
}

/// A pod, and how many of it there are.
fn pod(
    table: &mut Fields<'_>,
    duration_s: u32,
    around: &Surroundings<'_>,
    turn: &Turn,
) -> Option<(PodSpec, Replicas)> {
    let name = table.required("name", &NAME);
    let count = table.optional("replicas", &REPLICAS).unwrap_or(1);
    let request = table.required("request", &Cpu);
    let limit = table.optional("limit", &CpuOrNone).flatten();
    let min = table.optional("min", &Cpu);
    let max = table.optional("max", &Cpu);
    let nature = table.optional("nature", &NATURE).unwrap_or_default();
    let managed = table.optional("managed", &Flag).unwrap_or(true);
    let weight = table.optional("weight", &BargainingWeight).unwrap_or(Weight::ONE);
    let start_s = table.optional("start_s", &TIME_S).unwrap_or(0.0);
    let stop_s = table.optional("stop_s", &TIME_S);
    let stagger_s = table.optional("stagger_s", &TIME_S).unwrap_or(0.0);
    let cpus = groups::cpus(table, turn);
    let containers = groups::containers(table, limit);
    let replicas = Replicas { count, stagger_s, cpus };
    let slo_ms = table.optional("slo_ms", &LATENCY_MS);
    let slo_known = table.optional("slo_known", &Flag).unwrap_or(false);
    let memory = load::memory(table);
    let startup = load::startup(table);
    let load = load::load(table, around);
    for (low, high) in [
        (("request", request), ("limit", limit)),
        (("min", min), ("request", request)),
        (("request", request), ("max", max)),
        (("limit", limit), ("max", max)),
    ] {
        if let (Some(less), Some(more)) = (low.1, high.1)
            && less > more
        {
            table.problem(low.0, format!("is more than {}, which is {more}", high.0));
        }
    }
    check_times(table, duration_s, start_s + replicas.last_s(), stop_s);
    if let Some(load) = &load {
        check_requests(table, load, memory);
    }
    let pod = PodSpec {
        startup,
        limit,
        min,
        max,
        nature,
        managed,
        weight,
        start_s,
        stop_s,
        slo_ms,
        slo_known,
        memory,
        containers,
        ..PodSpec::new(&name?, load?, request?)
    };
    Some((pod, replicas))
}

/// The last replica, and so every one, starts before the end of the run and before it stops.
fn check_times(table: &mut Fields<'_>, duration_s: u32, last_s: f64, stop_s: Option<f64>) {
    let key = if table.has("stagger_s") { "stagger_s" } else { "start_s" };
    if last_s >= f64::from(duration_s) {
        let what = format!("makes a pod start at {last_s} s, but the run ends at {duration_s} s");
        table.problem(key, what);
    } else if let Some(stop_s) = stop_s
        && last_s >= stop_s
    {
        table.problem("stop_s", format!("is not after the start, which is at {last_s} s"));
    }
}

/// Only a service has latencies, and memory by requests.
fn check_requests(table: &mut Fields<'_>, load: &LoadSpec, memory: Option<Memory>) {
    match load {
        LoadSpec::Service { .. } => {}
        LoadSpec::Batch { .. } | LoadSpec::Usage { .. } => {
            for key in ["slo_ms", "slo_known"] {
                if table.has(key) {
                    table.problem(key, "is given, but only a service answers requests".to_owned());
                }
            }
            if memory.is_some_and(|memory| memory.per_request_mib > 0.0) {
                let what = "has per_request_mib, but only a service answers requests";
                table.problem("memory", what.to_owned());
            }
        }
    }
}

/// Several pods that differ in name and start.
struct Replicas {
    count: u32,
    /// The time between the starts of two of them.
    stagger_s: f64,
    /// The CPUs that each is bound to.
    cpus: Option<CpuChoice>,
}

// === impl Replicas ===

impl Replicas {
    /// One of them.
    fn pod(&self, pod: &PodSpec, number: u32, turn: &mut Turn) -> PodSpec {
        let mut pod = pod.clone();
        if self.count > 1 {
            pod.name = format!("{}-{}", pod.name, number + 1);
        }
        pod.start_s += f64::from(number) * self.stagger_s;
        pod.cpus = self.cpus.as_ref().and_then(|choice| turn.take(choice));
        pod
    }

    /// How much later the last of them starts than the first.
    fn last_s(&self) -> f64 {
        f64::from(self.count.saturating_sub(1)) * self.stagger_s
    }
}

fn not_text(bytes: &[u8], error: std::str::Utf8Error) -> Problem {
    let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
    let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
    let what = "is not UTF-8 text".to_owned();
    Problem { key: String::new(), value: None, what, line: Some(line) }
}

fn not_toml(text: &str, fault: &toml::de::Error) -> Problem {
    let what = format!("not TOML: {}", fault.message());
    let line = fault.span().map(|span| line_at(text, span.start));
    Problem { key: String::new(), value: None, what, line }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::io;

    use walras_core::rng::Rng;

    use super::*;
    use crate::scenario::{ContainerSpec, SystemSpec, builtin, cases};

    fn files(path: &Path) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("dir/requests.txt") => Ok(b"100\n300\n".to_vec()),
            Some("dir/percent.txt") => Ok(b"50\n100\n".to_vec()),
            Some("dir/zeros.txt") => Ok(b"0\n0\n".to_vec()),
            Some(_) | None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn told(input: &str) -> String {
        match parse(input.as_bytes(), Path::new("dir/test.toml"), &files) {
            Ok(scenario) => in_brief(&scenario).expect("a text takes everything"),
            Err(error) => error.to_string(),
        }
    }

    fn in_brief(scenario: &Scenario) -> Result<String, std::fmt::Error> {
        let Scenario { name, about: _, suite, seed, duration_s, node, nodes, pods } = scenario;
        let mut text = format!(
            "{name}: {nodes} nodes of {} for {duration_s} s, seed {seed}, {suite:?}",
            node.capacity
        );
        if let Some(SystemSpec { cores, weight }) = &node.system {
            write!(text, "\nsystem weight {weight}: {cores:?}")?;
        }
        for pod in pods {
            let limit = pod.limit.map_or("none".to_owned(), |limit| limit.to_string());
            write!(text, "\n{} {}..{limit} weight {}", pod.name, pod.request, pod.weight)?;
            write!(text, " from {}", pod.start_s)?;
            if let Some(stop_s) = pod.stop_s {
                write!(text, " to {stop_s}")?;
            }
            if let Some(slo_ms) = pod.slo_ms {
                write!(text, ", target {slo_ms} known {}", pod.slo_known)?;
            }
            if let Some(min) = pod.min {
                write!(text, ", min {min}")?;
            }
            if let Some(max) = pod.max {
                write!(text, ", max {max}")?;
            }
            if pod.nature != Nature::Unknown {
                write!(text, ", {:?}", pod.nature)?;
            }
            if !pod.managed {
                write!(text, ", unmanaged")?;
            }
            if let Some(cpus) = pod.cpus {
                write!(text, ", {cpus:?}")?;
            }
            for ContainerSpec { name, share, limit, weight } in &pod.containers {
                let limit = limit.map_or("none".to_owned(), |limit| limit.to_string());
                write!(text, ", {name} {share} ..{limit} weight {weight}")?;
            }
            if let Some(memory) = pod.memory {
                write!(text, ", memory {} + {}", memory.base_mib, memory.per_request_mib)?;
            }
            if let Some(startup) = pod.startup {
                write!(text, ", startup {} on {}", startup.work_core_s, startup.threads)?;
            }
            write!(text, ": {:?}", pod.load)?;
        }
        Ok(text)
    }

    #[test]
    fn scenarios_are_read_or_refused_as_the_cases_say() {
        cases::check(include_str!("../../testdata/scenarios.txt"), |_, input| told(input));
    }

    #[test]
    fn what_is_not_text_is_refused_with_its_line() {
        let error = parse(b"name = \"a\"\n\xFF", Path::new("a.toml"), &files).expect_err("no text");
        assert_eq!(error.to_string(), "a.toml: is not UTF-8 text (line 2)");
    }

    #[test]
    fn no_text_makes_the_parser_panic() {
        let mut rng = Rng::from_seed(5);
        let mut place = |length: usize| {
            let drawn = rng.below(u64::try_from(length).expect("small"));
            usize::try_from(drawn).expect("small")
        };
        for round in 0..20_000_usize {
            let mut bytes = builtin()[round % builtin().len()].text.as_bytes().to_vec();
            for _ in 0..=place(3) {
                let (one, other) = (place(bytes.len()), place(bytes.len()));
                match place(4) {
                    0 => bytes.insert(one, bytes[other]),
                    1 => bytes[one] = bytes[other],
                    2 => bytes[one] = u8::try_from(place(256)).expect("a byte"),
                    _ => {
                        bytes.remove(one);
                    }
                }
            }
            if let Err(error) = parse(&bytes, Path::new("mutant"), &files) {
                assert!(error.to_string().starts_with("mutant: "), "{error}");
            }
        }
    }
}
