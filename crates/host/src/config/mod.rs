//! What a host daemon is told to do: one TOML file, with flags and environment above it.
//!
//! The daemon loads it at its start, and again when it changed. A flag goes before the environment,
//! that before the file, and that before the default. Everything that is wrong is told at once,
//! with its key, its value and what is allowed; then nothing of it is in force.

mod error;
mod market;
mod pattern;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use toml::de::DeTable;
use walras_core::claim::Nature;
use walras_core::profile::{Profile, ProfileName};
use walras_core::units::{Millicores, Span};

use walras_node::log::{LogFormat, LogLevel};
use walras_node::record::RecordTo;

use walras_wire::settings::{
    AbsolutePath, Address, BargainingWeight, Cpu, Fields, Flag, HostName, HttpAddress, Latency,
    Number, Problem, Problems, Query, Whole, Word, line_at,
};

use self::pattern::Pattern;
use crate::adopt::{AdoptRules, Reach, Rule};
use crate::latency::LatencyTerms;

pub use self::error::ConfigError;

/// Where the configuration is looked for where nothing is said.
pub const DEFAULT_FILE: &str = "/etc/walras/host.toml";
/// Where the dashboard and the metrics are served where nothing is said.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8082);

/// What a host daemon is told to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Whether it changes anything, or only watches.
    pub act: bool,
    /// Whether every workload gets back what it came with when the daemon stops.
    pub restore: bool,
    /// Where to serve.
    pub listen: SocketAddr,
    /// Where to answer probes for health and readiness alone, if anywhere.
    pub probe_listen: Option<SocketAddr>,
    /// Names by which a browser may ask for this machine, beside its own.
    pub names: Vec<String>,
    /// Where the store is.
    pub state_dir: PathBuf,
    /// Where the lock is that keeps a second daemon out.
    pub run_dir: PathBuf,
    /// What there is to divide; the machine's CPUs where nothing is said.
    pub capacity: Option<Millicores>,
    /// How often to look for workloads that came or went.
    pub look_interval: Span,
    /// The least urgent message that is logged.
    pub log_level: LogLevel,
    /// How messages are written.
    pub log_format: LogFormat,
    /// Where facts are recorded, if they are.
    pub record: Option<RecordTo>,
    /// The constants of the market.
    pub profile: Profile,
    /// Which cgroups are workloads.
    pub adopt: AdoptRules,
    /// How latency targets are judged.
    pub latency: LatencyTerms,
}

/// What was said on the command line or in the environment, and so goes before the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Whether it changes anything.
    pub act: Option<bool>,
    /// Whether it restores at the end.
    pub restore: Option<bool>,
    /// Where to serve.
    pub listen: Option<SocketAddr>,
    /// Where the store is.
    pub state_dir: Option<PathBuf>,
    /// Where the lock is.
    pub run_dir: Option<PathBuf>,
    /// The least urgent message that is logged.
    pub log_level: Option<LogLevel>,
    /// How messages are written.
    pub log_format: Option<LogFormat>,
    /// Where facts are recorded.
    pub record: Option<PathBuf>,
    /// How large a recording may become.
    pub record_max_mib: Option<u64>,
    /// The constants to start from.
    pub profile: Option<ProfileName>,
    /// Docker's socket, where the file names none.
    pub docker_socket: Option<PathBuf>,
}

impl Config {
    /// Reads a file. One that was not asked for by name may be missing.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is wrong.
    pub fn load(file: Option<&Path>, overrides: &Overrides) -> Result<Self, ConfigError> {
        let path = file.unwrap_or(Path::new(DEFAULT_FILE));
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if file.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
                String::new()
            }
            Err(source) => {
                return Err(ConfigError::Unreadable { file: path.to_owned(), source });
            }
        };
        Self::read(&text, overrides)
            .map_err(|problems| ConfigError::Refused { file: path.display().to_string(), problems })
    }

    /// Reads a text.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(text: &str, overrides: &Overrides) -> Result<Self, Problems> {
        let document = DeTable::parse(text).map_err(|error| {
            let line = error.span().map(|span| line_at(text, span.start));
            let what = format!("this is not TOML: {}", error.message());
            Problems::new(vec![Problem { key: String::new(), value: None, what, line }])
        })?;
        let mut root = Fields::root(text, document.get_ref());
        let config = Self::take(&mut root, overrides);
        let problems = root.problems();
        if problems.is_empty() { Ok(config) } else { Err(Problems::new(problems)) }
    }

    /// What is different in `newer` and needs a restart, by its key.
    #[must_use]
    pub fn needs_restart(&self, newer: &Self) -> Vec<&'static str> {
        let differs = [
            ("listen", self.listen != newer.listen),
            ("probe_listen", self.probe_listen != newer.probe_listen),
            ("names", self.names != newer.names),
            ("state_dir", self.state_dir != newer.state_dir),
            ("run_dir", self.run_dir != newer.run_dir),
            ("log_level", self.log_level != newer.log_level),
            ("log_format", self.log_format != newer.log_format),
            ("record", self.record != newer.record),
        ];
        differs.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }

    /// Whether the loop has to start over with this one in the place of `older`.
    #[must_use]
    pub fn affects_loop(&self, older: &Self) -> bool {
        self.act != older.act
            || self.capacity != older.capacity
            || self.look_interval != older.look_interval
            || self.profile != older.profile
            || self.adopt != older.adopt
            || self.latency != older.latency
    }

    fn take(root: &mut Fields<'_>, flags: &Overrides) -> Self {
        const MIB: Whole<u64> = Whole { of: "MiB", least: 1, most: 1_000_000 };
        const LOOK: Whole<u64> = Whole { of: "milliseconds", least: 100, most: 600_000 };
        let act = root.optional("act", &Flag);
        let restore = root.optional("restore", &Flag);
        let listen = root.optional("listen", &Address);
        let probe_listen = root.optional("probe_listen", &Address);
        let names = root.list("names", &HostName).unwrap_or_default();
        let state_dir = root.optional("state_dir", &AbsolutePath);
        let run_dir = root.optional("run_dir", &AbsolutePath);
        let capacity = root.optional("capacity", &Cpu);
        let look_interval = root.optional("look_interval_ms", &LOOK);
        let log_level = root.optional("log_level", &Word { all: &LogLevel::WORDS });
        let log_format = root.optional("log_format", &Word { all: &LogFormat::WORDS });
        let record = root.optional("record", &AbsolutePath);
        let max_mib = root.optional("record_max_mib", &MIB);
        let name = root.optional("profile", &Word { all: &PROFILES });
        let name = flags.profile.or(name).unwrap_or(ProfileName::Direct);
        let profile = market::take(root, Profile::named(name));
        let adopt = take_adopt(root, flags.docker_socket.as_ref());
        let latency = take_latency(root);
        let max_mib = flags.record_max_mib.or(max_mib).unwrap_or(RecordTo::DEFAULT_MAX_MIB);
        let record = flags.record.clone().or(record);
        let folder = |flag: &Option<PathBuf>, written: Option<PathBuf>, default: &str| {
            flag.clone().or(written).unwrap_or_else(|| PathBuf::from(default))
        };
        Self {
            act: flags.act.or(act).unwrap_or(false),
            restore: flags.restore.or(restore).unwrap_or(true),
            listen: flags.listen.or(listen).unwrap_or(DEFAULT_LISTEN),
            probe_listen,
            names,
            state_dir: folder(&flags.state_dir, state_dir, "/var/lib/walras"),
            run_dir: folder(&flags.run_dir, run_dir, "/run/walras"),
            capacity,
            look_interval: Span::from_ms(look_interval.unwrap_or(1000)),
            log_level: flags.log_level.or(log_level).unwrap_or(LogLevel::Info),
            log_format: flags.log_format.or(log_format).unwrap_or(LogFormat::Text),
            record: record.map(|file| RecordTo { file, max_mib }),
            profile,
            adopt,
            latency,
        }
    }
}

const PROFILES: [(&str, ProfileName); 4] = [
    ("seed", ProfileName::Seed),
    ("direct", ProfileName::Direct),
    ("api", ProfileName::Api),
    ("tight", ProfileName::Tight),
];

/// How latency targets are judged.
fn take_latency(root: &mut Fields<'_>) -> LatencyTerms {
    const FACTOR: Number = Number { of: "", least: 1.0, most: 100.0 };
    let usual = LatencyTerms::default();
    LatencyTerms {
        url: root.optional("prometheus_url", &HttpAddress),
        query: root.optional("prometheus_query", &Query).unwrap_or(usual.query),
        factor: root.optional("latency_factor", &FACTOR).unwrap_or(usual.factor),
    }
}

/// `[adopt]` and every `[[rule]]`.
fn take_adopt(root: &mut Fields<'_>, docker_socket: Option<&PathBuf>) -> AdoptRules {
    let mut rules = AdoptRules::default();
    if let Some(socket) = docker_socket {
        rules.docker_socket.clone_from(socket);
    }
    if let Some(mut fields) = root.table("adopt") {
        let reach = Word { all: &Reach::WORDS };
        let mut of = |name, default| fields.optional(name, &reach).unwrap_or(default);
        rules.walras = of("walras", rules.walras);
        rules.docker = of("docker", rules.docker);
        rules.podman = of("podman", rules.podman);
        rules.systemd = of("systemd", rules.systemd);
        rules.paths = fields.list("paths", &Pattern).unwrap_or_default();
        let mut socket = |name, usual| fields.optional(name, &AbsolutePath).unwrap_or(usual);
        rules.docker_socket = socket("docker_socket", rules.docker_socket);
        rules.podman_socket = socket("podman_socket", rules.podman_socket);
        rules.docker_root = fields.optional("docker_root", &AbsolutePath);
        rules.podman_root = fields.optional("podman_root", &AbsolutePath);
        rules.min = fields.optional("min", &Cpu);
        rules.max = fields.optional("max", &Cpu);
        rules.weight = fields.optional("weight", &BargainingWeight).unwrap_or(rules.weight);
        if let (Some(min), Some(max)) = (rules.min, rules.max)
            && max < min
        {
            fields.problem("max", format!("is {max}, less than min, which is {min}"));
        }
        root.finish(fields);
    }
    for mut fields in root.optional_tables("rule") {
        if let Some(rule) = take_rule(&mut fields) {
            rules.rules.push(rule);
        }
        root.finish(fields);
    }
    rules
}

/// What kinds of work there are.
const NATURES: [(&str, Nature); 3] =
    [("unknown", Nature::Unknown), ("batch", Nature::Batch), ("service", Nature::Service)];

fn take_rule(fields: &mut Fields<'_>) -> Option<Rule> {
    let matches = fields.optional("match", &Pattern);
    if !fields.has("match") {
        fields.problem("match", "is missing; it must be a pattern of names or paths".to_owned());
    }
    let managed = fields.optional("managed", &Flag);
    let min = fields.optional("min", &Cpu);
    let max = fields.optional("max", &Cpu);
    let weight = fields.optional("weight", &BargainingWeight);
    let target_latency_ms = fields.optional("target_latency_ms", &Latency);
    let nature = fields.optional("nature", &Word { all: &NATURES });
    if let (Some(low), Some(high)) = (min, max)
        && low > high
    {
        fields.problem("min", format!("is more than max, which is {high}"));
    }
    Some(Rule { matches: matches?, managed, min, max, weight, target_latency_ms, nature })
}
