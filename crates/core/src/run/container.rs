//! One container as it was asked for, and what is wrong with a container that cannot be.
//!
//! [`Container::check`] tells every fault at once, each with its field and value. What passes can
//! be handed to a runtime as it is: no path leads upwards, no label claims to be ours.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Millicores, Span};

use super::spec::{Needs, Restart};

/// Labels that begin so are ours.
pub const OUR_LABELS: &str = "persys.";
/// A container with less memory than this cannot start.
pub const MEMORY_MIN: Bytes = Bytes::new(6 << 20);
/// The most entries of any list of a container.
pub(super) const ENTRIES_MAX: usize = 1000;
/// The most bytes of any text of a container.
pub(super) const TEXT_MAX: usize = 64 << 10;

/// One container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Container {
    /// The image to start from.
    pub image: String,
    /// What to run in the place of the image's entry point; the image's own where it is empty.
    pub command: Vec<String>,
    /// Its arguments; the image's own where they are empty.
    pub args: Vec<String>,
    /// Its environment.
    pub env: BTreeMap<String, String>,
    /// Folders of the host and named volumes in it.
    pub mounts: Vec<Mount>,
    /// Ports of the host that lead into it.
    pub ports: Vec<Port>,
    /// Its part of the machine.
    pub resources: Resources,
    /// What happens when it ends.
    pub restart: Restart,
    /// Labels of its owner.
    pub labels: BTreeMap<String, String>,
    /// How to find out whether it is well.
    pub health: Option<HealthCheck>,
}

/// Something of the host in a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// What.
    pub source: Source,
    /// Where in the container.
    pub path: String,
    /// Whether the container may only read it.
    pub read_only: bool,
}

/// What of the host is in a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A folder or file of the host.
    Path(String),
    /// A named volume, which outlives its container.
    Volume(String),
}

/// A port of the host that leads into a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// On the host; zero is any that is free.
    pub host: u16,
    /// In the container.
    pub container: u16,
    /// TCP or UDP.
    pub protocol: Protocol,
}

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// A container's part of the machine. What is not said is the runtime's own choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// The kernel's weight for CPU, where 1024 is usual.
    pub cpu_shares: Option<u32>,
    /// The most memory.
    pub memory: Option<Bytes>,
    /// The most memory and swap together.
    pub memory_swap: Option<Bytes>,
    /// CPU that it has a right to in the market.
    pub cpu_min: Option<Millicores>,
    /// The most CPU that the market gives it.
    pub cpu_max: Option<Millicores>,
}

/// How to find out whether a container is well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthCheck {
    /// What to run in it; ending with 0 is well.
    pub command: Vec<String>,
    /// How often.
    pub interval: Span,
    /// How long it may take.
    pub timeout: Span,
    /// After so many failures in a row it is not well.
    pub retries: u32,
    /// Failures in this time after the start do not count.
    pub start_period: Span,
}

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {what}")]
pub struct FieldFault {
    /// Which field.
    pub field: String,
    /// What is wrong with it, with its value.
    pub what: String,
}

// === impl Container ===

impl Container {
    /// What it needs for itself.
    #[must_use]
    pub const fn needs(&self) -> Needs {
        let Resources { memory, cpu_min, .. } = self.resources;
        Needs {
            cpu: match cpu_min {
                Some(cpu) => cpu,
                None => Millicores::ZERO,
            },
            memory: match memory {
                Some(memory) => memory,
                None => Bytes::new(0),
            },
        }
    }

    /// Everything that is wrong with it, in the order of its fields.
    #[must_use]
    pub fn check(&self) -> Vec<FieldFault> {
        let mut faults = Faults(Vec::new());
        faults.image(&self.image);
        faults.texts("command", &self.command);
        faults.texts("args", &self.args);
        faults.env(&self.env);
        faults.mounts(&self.mounts);
        faults.ports(&self.ports);
        faults.resources(&self.resources);
        faults.labels(&self.labels);
        faults.health(self.health.as_ref());
        faults.0
    }
}

/// Faults found so far.
struct Faults(Vec<FieldFault>);

impl Faults {
    fn add(&mut self, field: impl Into<String>, what: impl Into<String>) {
        self.0.push(FieldFault { field: field.into(), what: what.into() });
    }

    fn image(&mut self, image: &str) {
        let odd = |letter: char| letter.is_whitespace() || letter.is_control();
        if image.is_empty() {
            self.add("image", "is missing");
        } else if image.len() > 512 || image.contains(odd) || image.starts_with('-') {
            self.add("image", format!("`{}` is no name of an image", shortened(image)));
        }
    }

    fn texts(&mut self, field: &str, texts: &[String]) {
        self.count(field, texts.len());
        for (place, text) in texts.iter().enumerate() {
            self.text(&format!("{field}[{place}]"), text);
        }
    }

    fn text(&mut self, field: &str, text: &str) {
        if text.len() > TEXT_MAX {
            self.add(field, format!("has {} bytes of at most {TEXT_MAX}", text.len()));
        } else if text.contains('\0') {
            self.add(field, "has a zero byte in it");
        }
    }

    fn count(&mut self, field: &str, entries: usize) {
        if entries > ENTRIES_MAX {
            self.add(field, format!("has {entries} entries of at most {ENTRIES_MAX}"));
        }
    }

    fn env(&mut self, env: &BTreeMap<String, String>) {
        self.count("env", env.len());
        for (name, value) in env {
            if !is_variable(name) {
                self.add("env", format!("`{}` is no name of a variable", shortened(name)));
            }
            self.text(&format!("env.{}", shortened(name)), value);
        }
    }

    fn mounts(&mut self, mounts: &[Mount]) {
        self.count("volumes", mounts.len());
        let mut paths = BTreeSet::new();
        for (place, mount) in mounts.iter().enumerate() {
            match &mount.source {
                Source::Path(path) => self.path(&format!("volumes[{place}].host_path"), path),
                Source::Volume(name) => {
                    if !is_volume(name) {
                        let what = format!("`{}` is no name of a volume", shortened(name));
                        self.add(format!("managed_volumes[{place}].name"), what);
                    }
                }
            }
            self.path(&format!("volumes[{place}].container_path"), &mount.path);
            if mount.path == "/" {
                self.add(format!("volumes[{place}].container_path"), "`/` would hide the image");
            }
            if !paths.insert(&mount.path) {
                let what = format!("`{}` is there twice", shortened(&mount.path));
                self.add(format!("volumes[{place}].container_path"), what);
            }
        }
    }

    fn path(&mut self, field: &str, path: &str) {
        let upwards = path.split('/').any(|part| part == ".." || part == ".");
        // A colon or a comma would end the path in what runtimes read.
        if !path.starts_with('/') || upwards || path.contains(['\0', ':', ',']) {
            let what = "must be an absolute path without `.`, `..`, `:` and `,`";
            self.add(field, format!("`{}` {what}", shortened(path)));
        }
    }

    fn ports(&mut self, ports: &[Port]) {
        self.count("ports", ports.len());
        let mut hosts = BTreeSet::new();
        for (place, port) in ports.iter().enumerate() {
            if port.container == 0 {
                self.add(format!("ports[{place}].container_port"), "must be 1 to 65535, not 0");
            }
            if port.host != 0 && !hosts.insert((port.host, port.protocol)) {
                let what = format!("{} is there twice", port.host);
                self.add(format!("ports[{place}].host_port"), what);
            }
        }
    }

    fn resources(&mut self, resources: &Resources) {
        let Resources { cpu_shares, memory, memory_swap, cpu_min, cpu_max } = *resources;
        if let Some(shares) = cpu_shares
            && !(2..=262_144).contains(&shares)
        {
            self.add("resources.cpu_shares", format!("{shares} is outside 2 to 262144"));
        }
        if let Some(memory) = memory
            && memory < MEMORY_MIN
        {
            let (has, least) = (memory.get(), MEMORY_MIN.get());
            self.add("resources.memory_bytes", format!("{has} is below {least}"));
        }
        match (memory, memory_swap) {
            (None, Some(_)) => self.add("resources.memory_swap_bytes", "needs memory_bytes too"),
            (Some(memory), Some(swap)) if swap < memory => {
                let (swap, memory) = (swap.get(), memory.get());
                let what = format!("{swap} is below memory_bytes, {memory}; it counts both");
                self.add("resources.memory_swap_bytes", what);
            }
            (None | Some(_), _) => {}
        }
        for (field, cpu) in [("cpu_min_milli", cpu_min), ("cpu_max_milli", cpu_max)] {
            if let Some(cpu) = cpu
                && (cpu == Millicores::ZERO || cpu > Millicores::LIMIT)
            {
                let what = format!("{} is outside 1 to {}", cpu.get(), Millicores::LIMIT.get());
                self.add(format!("resources.{field}"), what);
            }
        }
        if let (Some(min), Some(max)) = (cpu_min, cpu_max)
            && min > max
        {
            let what = format!("{} is above cpu_max_milli, {}", min.get(), max.get());
            self.add("resources.cpu_min_milli", what);
        }
    }

    fn labels(&mut self, labels: &BTreeMap<String, String>) {
        self.count("labels", labels.len());
        for (name, value) in labels {
            let shown = shortened(name);
            if name.is_empty() || name.contains(['=', '\0']) {
                self.add("labels", format!("`{shown}` is no name of a label"));
            } else if name.starts_with(OUR_LABELS) {
                self.add(format!("labels.{shown}"), format!("`{OUR_LABELS}*` is set by the host"));
            }
            self.text(&format!("labels.{shown}"), value);
        }
    }

    fn health(&mut self, health: Option<&HealthCheck>) {
        let Some(health) = health else { return };
        if health.command.is_empty() {
            self.add("health_check.command", "is missing");
        }
        self.texts("health_check.command", &health.command);
        for (field, span) in [("interval_s", health.interval), ("timeout_s", health.timeout)] {
            if span < Span::from_s(1) || span > Span::from_s(3600) {
                let what = format!("{} is outside 1 to 3600", span.as_us() / 1_000_000);
                self.add(format!("health_check.{field}"), what);
            }
        }
        if !(1..=100).contains(&health.retries) {
            let what = format!("{} is outside 1 to 100", health.retries);
            self.add("health_check.retries", what);
        }
    }
}

/// Whether `name` can be the name of a variable.
#[must_use]
pub fn is_variable(name: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_graphic() && letter != '=';
    !name.is_empty() && name.len() <= 256 && name.chars().all(fits)
}

fn is_volume(name: &str) -> bool {
    let begins = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    begins && name.len() <= 128 && name.chars().all(fits)
}

/// As much of a text as belongs into a message.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => text[..end].to_string() + "...",
        None => text.to_owned(),
    }
}
