//! What is wrong with a container: every fault at once, each with its field and value.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::units::{Millicores, Span};

use super::container::{
    ENTRIES_MAX, FieldFault, HealthCheck, LOG_MAX, LOG_MIN, LogBounds, MEMORY_MIN, Mount,
    OUR_LABELS, Port, Resources, Source, TEXT_MAX,
};

/// Faults found so far.
pub(super) struct Faults(pub(super) Vec<FieldFault>);

impl Faults {
    fn add(&mut self, field: impl Into<String>, what: impl Into<String>) {
        self.0.push(FieldFault { field: field.into(), what: what.into() });
    }

    pub(super) fn image(&mut self, image: &str) {
        let odd = |letter: char| letter.is_whitespace() || letter.is_control();
        if image.is_empty() {
            self.add("image", "is missing");
        } else if image.len() > 512 || image.contains(odd) || image.starts_with('-') {
            self.add("image", format!("`{}` is no name of an image", shortened(image)));
        }
    }

    pub(super) fn texts(&mut self, field: &str, texts: &[String]) {
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

    pub(super) fn env(&mut self, env: &BTreeMap<String, String>) {
        self.count("env", env.len());
        for (name, value) in env {
            if !is_variable(name) {
                self.add("env", format!("`{}` is no name of a variable", shortened(name)));
            }
            self.text(&format!("env.{}", shortened(name)), value);
        }
    }

    pub(super) fn mounts(&mut self, mounts: &[Mount]) {
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

    pub(super) fn ports(&mut self, ports: &[Port]) {
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

    pub(super) fn resources(&mut self, resources: &Resources) {
        let Resources { cpu_shares, memory, memory_swap, cpu_min, cpu_max, .. } = *resources;
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
        if let Some(weight) = resources.weight_thousandths
            && !(1..=1_000_000_000).contains(&weight)
        {
            self.add("resources.weight", "must be 0.001 to 1000000");
        }
        if let Some(latency) = resources.target_latency_ms
            && !(1..=3_600_000).contains(&latency)
        {
            let what = format!("{latency} is outside 1 to 3600000");
            self.add("resources.target_latency_ms", what);
        }
    }

    pub(super) fn networks(&mut self, networks: &[String]) {
        self.count("networks", networks.len());
        for (place, name) in networks.iter().enumerate() {
            let field = format!("networks[{place}]");
            let shown = shortened(name);
            if ["host", "none", "bridge", "default"].contains(&&**name) {
                self.add(field, format!("`{shown}` is Docker's own; name a bridge of yours"));
            } else if !is_volume(name) {
                self.add(field, format!("`{shown}` is no name of a network"));
            } else if networks[..place].contains(name) {
                self.add(field, format!("`{shown}` is there twice"));
            }
        }
    }

    pub(super) fn oci_runtime(&mut self, name: Option<&str>) {
        if let Some(name) = name
            && !is_volume(name)
        {
            let what = format!("`{}` is no name of a runtime", shortened(name));
            self.add("oci_runtime", what);
        }
    }

    pub(super) fn logs(&mut self, logs: LogBounds) {
        let LogBounds { max, files } = logs;
        if !(LOG_MIN..=LOG_MAX).contains(&max) {
            let (has, least, most) = (max.get(), LOG_MIN.get(), LOG_MAX.get());
            self.add("logs.max_bytes", format!("{has} is outside {least} to {most}"));
        }
        if !(1..=100).contains(&files) {
            self.add("logs.max_files", format!("{files} is outside 1 to 100"));
        }
    }

    pub(super) fn labels(&mut self, labels: &BTreeMap<String, String>) {
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

    pub(super) fn health(&mut self, health: Option<&HealthCheck>) {
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

pub(super) fn is_volume(name: &str) -> bool {
    let begins = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    begins && name.len() <= 128 && name.chars().all(fits)
}

/// As much of a text as belongs into a message.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => text[..end].to_string() + "...",
        None => text.to_owned(),
    }
}
