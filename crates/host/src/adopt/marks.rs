//! What a workload says about itself: the labels of a container, or the properties of a unit.
//!
//! Pure: text in, marks out. A mark that cannot be understood is complained about and ignored, so
//! that a slip in one label never hides a workload. Names given by a predecessor of this program
//! are understood as well.

use serde::Deserialize;
use std::collections::BTreeMap;
use walras_core::claim::Nature;
use walras_core::units::{Millicores, Weight};

use walras_wire::settings::{cpu_from, latency_from, weight_from};

/// What a workload says about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marks {
    /// What a person calls it.
    pub name: Option<String>,
    /// Whether it wants to be sized.
    pub managed: Option<bool>,
    /// The least it wants.
    pub min: Option<Millicores>,
    /// The most it wants.
    pub max: Option<Millicores>,
    /// What its claim counts for.
    pub weight: Option<Weight>,
    /// Its latency target.
    pub target_latency_ms: Option<f64>,
    /// What kind of work it does.
    pub nature: Option<Nature>,
    /// Whether this host runs it itself, and said so when it made it.
    pub made_here: bool,
    /// What was written and could not be understood, in sentences.
    pub complaints: Vec<String>,
}

/// A container as Docker describes it, and keeps it in `config.v2.json`.
#[derive(Deserialize)]
struct DockerFile {
    #[serde(rename = "Name", default)]
    name: String,
    #[serde(rename = "Config", default)]
    config: DockerConfig,
}

#[derive(Default, Deserialize)]
struct DockerConfig {
    #[serde(rename = "Labels", default)]
    labels: Option<BTreeMap<String, String>>,
}

/// A container as the OCI runtime gets it, in `config.json`.
#[derive(Deserialize)]
struct OciFile {
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

/// One of the containers in Podman's `containers.json`.
#[derive(Deserialize)]
struct PodmanEntry {
    #[serde(default)]
    id: String,
    #[serde(default)]
    names: Option<Vec<String>>,
}

impl Marks {
    /// What Docker says of a container: its API, or its file `config.v2.json`, which have the same
    /// names for what is read here.
    ///
    /// # Errors
    /// It is not what Docker says of containers.
    pub fn of_docker(text: &str) -> Result<Self, serde_json::Error> {
        let file: DockerFile = serde_json::from_str(text)?;
        let mut marks = Self::of_labels(file.config.labels.unwrap_or_default());
        let name = file.name.trim_start_matches('/');
        marks.name = (!name.is_empty()).then(|| name.to_owned());
        Ok(marks)
    }

    /// What the OCI `config.json` of a Podman container says, and the list of containers about its
    /// name. Podman keeps labels in a database of its own, so annotations are what counts.
    ///
    /// # Errors
    /// The first is not what a runtime gets.
    pub fn of_podman(id: &str, config: &str, containers: &str) -> Result<Self, serde_json::Error> {
        let file: OciFile = serde_json::from_str(config)?;
        let mut marks = Self::of_labels(file.annotations.unwrap_or_default());
        let entries: Vec<PodmanEntry> = serde_json::from_str(containers).unwrap_or_default();
        let entry = entries.into_iter().find(|entry| entry.id == id);
        let name = entry.and_then(|entry| entry.names?.into_iter().next());
        marks.name = name.or(Some(file.hostname)).filter(|name| !name.is_empty());
        Ok(marks)
    }

    /// What the files of a systemd unit say, the later ones overriding the earlier: the section
    /// `X-Walras`, which systemd itself leaves alone, and `CPUWeight=`.
    #[must_use]
    pub fn of_unit<'a>(files: impl IntoIterator<Item = &'a str>) -> Self {
        let mut marks = Self::default();
        for text in files {
            let mut section = "";
            for line in text.lines().map(str::trim) {
                if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                    section = name;
                } else if let Some((key, value)) = line.split_once('=')
                    && !line.starts_with(['#', ';'])
                {
                    marks.unit_setting(section, key.trim(), value.trim());
                }
            }
        }
        marks
    }

    /// What labels or annotations say.
    #[must_use]
    pub fn of_labels(labels: BTreeMap<String, String>) -> Self {
        let mut marks = Self::default();
        for (key, value) in labels {
            if key == "persys.managed" {
                marks.made_here = value == "true";
            }
            let Some(known) = key.strip_prefix("walras.dev/").or(key.strip_prefix("mbcas.io/"))
            else {
                continue;
            };
            match known {
                "managed" => marks.managed = marks.flag(&key, &value),
                "min-cpu" => marks.min = marks.cpu(&key, &value),
                "max-cpu" => marks.max = marks.cpu(&key, &value),
                "weight" => marks.weight = marks.weight(&key, &value),
                "target-latency-ms" => marks.target_latency_ms = marks.latency(&key, &value),
                "nature" => marks.nature = marks.nature(&key, &value),
                _ => marks.complaints.push(format!(
                    "{key}: no such label; known are managed, min-cpu, max-cpu, weight, nature and \
                     target-latency-ms"
                )),
            }
        }
        marks
    }

    fn unit_setting(&mut self, section: &str, key: &str, value: &str) {
        match (section, key) {
            ("X-Walras", "Managed") => self.managed = self.flag(key, value),
            ("X-Walras", "MinCPU") => self.min = self.cpu(key, value),
            ("X-Walras", "MaxCPU") => self.max = self.cpu(key, value),
            ("X-Walras", "Weight") => self.weight = self.weight(key, value),
            ("X-Walras", "TargetLatencyMs") => self.target_latency_ms = self.latency(key, value),
            ("X-Walras", "Nature") => self.nature = self.nature(key, value),
            ("X-Walras", _) => self.complaints.push(format!(
                "{key}: no such key of [X-Walras]; known are Managed, MinCPU, MaxCPU, Weight, \
                 Nature and TargetLatencyMs"
            )),
            // CPUWeight is not read here: the kernel tells it, however it was set.
            _ => {}
        }
        if section == "X-Walras" && self.managed.is_none() {
            self.managed = Some(true);
        }
    }

    fn flag(&mut self, key: &str, value: &str) -> Option<bool> {
        match value.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            _ => self.complain(key, value, "true or false"),
        }
    }

    fn cpu(&mut self, key: &str, value: &str) -> Option<Millicores> {
        cpu_from(value).or_else(|| self.complain(key, value, "CPU such as 500m or 1.5"))
    }

    fn weight(&mut self, key: &str, value: &str) -> Option<Weight> {
        let weight = value.parse().ok().and_then(weight_from);
        weight.or_else(|| self.complain(key, value, "a number from 0.001 to 1000000"))
    }

    fn nature(&mut self, key: &str, value: &str) -> Option<Nature> {
        let nature = Nature::ALL.into_iter().find(|nature| nature.name() == value);
        nature.or_else(|| self.complain(key, value, "batch, service or unknown"))
    }

    fn latency(&mut self, key: &str, value: &str) -> Option<f64> {
        let latency = value.parse().ok().and_then(latency_from);
        latency.or_else(|| self.complain(key, value, "milliseconds above 0 and at most 3600000"))
    }

    fn complain<T>(&mut self, key: &str, value: &str, accepted: &str) -> Option<T> {
        let shown: String = value.chars().take(60).collect();
        self.complaints.push(format!("{key}: {shown:?} is not {accepted}, so it is ignored"));
        None
    }
}
