//! A compose project as it was asked for, and what of the host it may not have.
//!
//! What is allowed is a list: a key that is not on it is refused with its place, so that a key that
//! compose learns tomorrow opens nothing. [`Compose::check`] looks at the file with its variables
//! filled in, which is what is run.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::units::Bytes;

use super::check::{is_volume, shortened};
use super::container::FieldFault;
use super::interpolate::{InterpolateError, escape, interpolate};
use super::spec::Restart;

/// The longest name of a project.
pub const PROJECT_MAX: usize = 63;
/// The most services of a project.
const SERVICES_MAX: usize = 100;

/// Several containers that belong together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compose {
    /// The name of the project, which its containers, networks and volumes begin with.
    pub project: String,
    /// The file as it was written, with its variables.
    pub file: Value,
    /// The values of its variables that are no secret.
    pub env: BTreeMap<String, String>,
    /// What happens when all of it has ended.
    pub restart: Restart,
    /// The memory that its services may use, as far as the file says.
    pub memory: Bytes,
}

/// What a compose file may have of its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Privileges, devices, namespaces and folders of the host.
    pub host_access: bool,
}

/// What a service may say under every policy.
const SERVICE_KEYS: [&str; 58] = [
    "attach",
    "cap_drop",
    "command",
    "configs",
    "container_name",
    "cpu_count",
    "cpu_percent",
    "cpu_period",
    "cpu_quota",
    "cpu_shares",
    "cpus",
    "cpuset",
    "depends_on",
    "deploy",
    "dns",
    "dns_opt",
    "dns_search",
    "domainname",
    "entrypoint",
    "environment",
    "expose",
    "extra_hosts",
    "healthcheck",
    "hostname",
    "image",
    "init",
    "labels",
    "links",
    "logging",
    "mac_address",
    "mem_limit",
    "mem_reservation",
    "mem_swappiness",
    "memswap_limit",
    "network_mode",
    "networks",
    "oom_kill_disable",
    "pids_limit",
    "platform",
    "ports",
    "profiles",
    "pull_policy",
    "read_only",
    "restart",
    "scale",
    "shm_size",
    "stdin_open",
    "stop_grace_period",
    "stop_signal",
    "storage_opt",
    "tmpfs",
    "tty",
    "ulimits",
    "user",
    "volumes",
    "working_dir",
    "annotations",
    "blkio_config",
];
/// What reads files beside the compose file, or runs programs: refused under every policy.
const NEVER_KEYS: [&str; 6] = ["build", "develop", "env_file", "extends", "label_file", "provider"];
const TOP_KEYS: [&str; 6] = ["configs", "name", "networks", "services", "version", "volumes"];

// === impl Compose ===

impl Compose {
    /// The project of a file. What is wrong with it is told by [`Compose::check`].
    #[must_use]
    pub fn new(project: String, file: Value, env: BTreeMap<String, String>) -> Self {
        let known = interpolate(&file, &|name| Some(env.get(name).map_or("", |value| value)));
        let known = known.unwrap_or_else(|_| file.clone());
        let stays = services(&known).any(|(_, service)| stays(service));
        let restart = if stays { Restart::Always } else { Restart::OnFailure { retries: 0 } };
        let memory =
            services(&known).map(|(_, service)| memory(service)).fold(0, u64::saturating_add);
        Self { project, file, env, restart, memory: Bytes::new(memory) }
    }

    /// How many services it has.
    #[must_use]
    pub fn services(&self) -> usize {
        services(&self.file).count()
    }

    /// The file with its variables filled in.
    ///
    /// # Errors
    /// A variable has no value.
    pub fn filled(&self, secrets: &BTreeMap<String, String>) -> Result<Value, InterpolateError> {
        interpolate(&self.file, &|name| {
            secrets.get(name).or_else(|| self.env.get(name)).map(String::as_str)
        })
    }

    /// The images that it needs.
    ///
    /// # Errors
    /// A variable has no value.
    pub fn images(&self, secrets: &[String]) -> Result<Vec<String>, InterpolateError> {
        let unknown: BTreeMap<String, String> =
            secrets.iter().map(|name| (name.clone(), String::new())).collect();
        let filled = self.filled(&unknown)?;
        let images = services(&filled).filter_map(|(_, service)| service.get("image")?.as_str());
        let mut images: Vec<String> = images.map(ToOwned::to_owned).collect();
        images.sort();
        images.dedup();
        Ok(images)
    }

    /// The file to hand to compose: filled in, with `labels` on every service, and with nothing
    /// left that compose would fill in.
    ///
    /// # Errors
    /// A variable has no value.
    pub fn to_run(
        &self,
        secrets: &BTreeMap<String, String>,
        labels: &[(&str, &str)],
    ) -> Result<Value, InterpolateError> {
        let mut file = self.filled(secrets)?;
        escape(&mut file);
        let services = file.get_mut("services").and_then(Value::as_object_mut);
        for service in services.into_iter().flat_map(Map::values_mut) {
            if let Value::Object(service) = service {
                add_labels(service, labels);
            }
        }
        Ok(file)
    }

    /// Everything that is wrong with it, with the place of each.
    #[must_use]
    pub fn check(&self, secrets: &BTreeMap<String, String>, policy: Policy) -> Vec<FieldFault> {
        let mut faults = Faults { found: Vec::new(), policy };
        if !is_project(&self.project) {
            let what = "is no name of a project: 1 to 63 of a-z, 0-9, `-` and `_`, beginning with \
                        a letter or a digit";
            faults.add("project_name", format!("`{}` {what}", shortened(&self.project)));
        }
        match self.filled(secrets) {
            Ok(file) => faults.file(&file),
            Err(error) => faults.add("compose_yaml", format!("{error}")),
        }
        faults.found
    }
}

fn services(file: &Value) -> impl Iterator<Item = (&String, &Value)> {
    file.get("services").and_then(Value::as_object).into_iter().flatten()
}

/// Whether a service is to run for ever.
fn stays(service: &Value) -> bool {
    let policy = service.get("restart").and_then(Value::as_str).unwrap_or_default();
    policy == "always" || policy == "unless-stopped"
}

/// The memory that a service may use, in bytes; zero where it is not said.
fn memory(service: &Value) -> u64 {
    let deploy = service.get("deploy");
    let limit = deploy.and_then(|it| it.get("resources")?.get("limits")?.get("memory"));
    let limit = service.get("mem_limit").or(limit).map_or(0, size);
    let scale = deploy.and_then(|it| it.get("replicas")).or_else(|| service.get("scale"));
    limit.saturating_mul(scale.and_then(Value::as_u64).unwrap_or(1))
}

/// Bytes as compose writes them, such as 64m or 1.5gb.
fn size(value: &Value) -> u64 {
    let Some(text) = value.as_str() else { return value.as_u64().unwrap_or(0) };
    let text = text.trim().to_ascii_lowercase();
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let shift = match unit.trim().trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return 0,
    };
    let unit = 1_u64 << shift;
    let tenths = part.chars().next().and_then(|digit| digit.to_digit(10)).unwrap_or(0);
    let whole = whole.parse::<u64>().unwrap_or(0).saturating_mul(unit);
    whole.saturating_add(unit / 10 * u64::from(tenths))
}

/// Labels may be a list or a map; both can be added to.
fn add_labels(service: &mut Map<String, Value>, labels: &[(&str, &str)]) {
    let mut all = Map::new();
    match service.remove("labels") {
        Some(Value::Object(there)) => all = there,
        Some(Value::Array(there)) => {
            for label in there.iter().filter_map(Value::as_str) {
                let (name, value) = label.split_once('=').unwrap_or((label, ""));
                all.insert(name.to_owned(), value.into());
            }
        }
        Some(_) | None => {}
    }
    for (name, value) in labels {
        all.insert((*name).to_owned(), value.replace('$', "$$").into());
    }
    service.insert("labels".to_owned(), Value::Object(all));
}

fn is_project(name: &str) -> bool {
    let fits = |letter: char| {
        letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_".contains(letter)
    };
    let begins = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    begins && name.len() <= PROJECT_MAX && name.chars().all(fits)
}

/// Faults found so far.
struct Faults {
    found: Vec<FieldFault>,
    policy: Policy,
}

impl Faults {
    fn add(&mut self, field: impl Into<String>, what: impl Into<String>) {
        self.found.push(FieldFault { field: field.into(), what: what.into() });
    }

    /// Something of the host, which only a policy allows.
    fn host(&mut self, field: String, what: &str) {
        if !self.policy.host_access {
            let rule = "a compose file may have nothing of the host here";
            self.add(field, format!("{what}; {rule} (see --run-compose-host-access)"));
        }
    }

    fn file(&mut self, file: &Value) {
        let Value::Object(top) = file else {
            return self.add("compose_yaml", "is no compose file: it has no `services`");
        };
        for key in top.keys() {
            if !TOP_KEYS.contains(&&**key) && !key.starts_with("x-") {
                let what = match &**key {
                    "include" => "reads other files, which this host does not have",
                    "secrets" => "use the workload's own `secrets`, as ${NAME}",
                    _ => "is not supported",
                };
                self.add(format!("compose_yaml.{}", shortened(key)), what);
            }
        }
        let count = services(file).count();
        if count == 0 || count > SERVICES_MAX {
            let what = format!("has {count} services, and must have 1 to {SERVICES_MAX}");
            self.add("compose_yaml.services", what);
        }
        for (name, service) in services(file) {
            self.service(&format!("compose_yaml.services.{}", shortened(name)), service);
        }
        for kind in ["volumes", "networks", "configs"] {
            let entries = top.get(kind).and_then(Value::as_object);
            for (name, entry) in entries.into_iter().flatten() {
                self.entry(kind, &format!("compose_yaml.{kind}.{}", shortened(name)), entry);
            }
        }
    }

    fn service(&mut self, place: &str, service: &Value) {
        let Value::Object(fields) = service else {
            return self.add(place, "is no service");
        };
        if fields.get("image").and_then(Value::as_str).is_none_or(str::is_empty) {
            self.add(format!("{place}.image"), "is missing; images are not built here");
        }
        for (key, value) in fields {
            let field = format!("{place}.{}", shortened(key));
            if NEVER_KEYS.contains(&&**key) {
                self.add(field, "is not supported: it needs files that this host does not have");
            } else if key == "gpus" {
                self.add(field, "is not supported yet; GPUs are on the roadmap");
            } else if *value == Value::Bool(false) || *value == Value::Null {
                // What is off asks for nothing.
            } else if !SERVICE_KEYS.contains(&&**key) && !key.starts_with("x-") {
                self.host(field, &format!("`{}` is not allowed", shortened(key)));
            } else {
                self.value(key, field, value);
            }
        }
    }

    /// Keys that are allowed with some values only.
    fn value(&mut self, key: &str, field: String, value: &Value) {
        match key {
            "volumes" => {
                for (place, volume) in value.as_array().into_iter().flatten().enumerate() {
                    self.volume(&format!("{field}[{place}]"), volume);
                }
            }
            "network_mode" => {
                let mode = value.as_str().unwrap_or_default();
                let own = ["none", "bridge"].contains(&mode) || mode.starts_with("service:");
                if !own {
                    self.host(field, &format!("`{}` is not allowed", shortened(mode)));
                }
            }
            "deploy" => {
                let reserved = value.get("resources").and_then(|it| it.get("reservations"));
                if reserved.is_some_and(|it| it.get("devices").is_some()) {
                    let field = format!("{field}.resources.reservations.devices");
                    self.add(field, "is not supported yet; GPUs are on the roadmap");
                }
            }
            "logging" => {
                let driver = value.get("driver").and_then(Value::as_str).unwrap_or("json-file");
                if !["json-file", "local", "none"].contains(&driver) {
                    let what = format!("`{}` is not allowed", shortened(driver));
                    self.host(format!("{field}.driver"), &what);
                }
            }
            "labels" => {
                let ours = match value {
                    Value::Object(labels) => labels.keys().any(|name| is_ours(name)),
                    Value::Array(labels) => labels.iter().filter_map(Value::as_str).any(is_ours),
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
                };
                if ours {
                    self.add(field, "`persys.*` and `com.docker.compose.*` are set by the host");
                }
            }
            _ => {}
        }
    }

    fn volume(&mut self, field: &str, volume: &Value) {
        match volume {
            Value::String(short) => {
                let (source, path) = short.split_once(':').unwrap_or(("", short));
                if path.split('/').any(|part| part == "..") {
                    self.add(field, format!("`{}` leads upwards", shortened(short)));
                } else if !source.is_empty() && !is_volume(source) {
                    self.host(field.to_owned(), &format!("`{}` is a host path", shortened(source)));
                }
            }
            Value::Object(long) => {
                let text = |key: &str| long.get(key).and_then(Value::as_str).unwrap_or_default();
                let (kind, source) = (text("type"), text("source"));
                if !["volume", "tmpfs"].contains(&kind) {
                    let what = format!("a mount of type `{}`", shortened(kind));
                    self.host(format!("{field}.type"), &what);
                } else if !source.is_empty() && !is_volume(source) {
                    let what = format!("`{}` is no name of a volume", shortened(source));
                    self.add(format!("{field}.source"), what);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                self.add(field, "is no volume");
            }
        }
    }

    /// A volume, network or config that services share.
    fn entry(&mut self, kind: &str, field: &str, entry: &Value) {
        let fields = entry.as_object().into_iter().flatten();
        for (key, value) in fields {
            let place = format!("{field}.{}", shortened(key));
            let text = value.as_str().unwrap_or_default();
            match (kind, &**key) {
                ("volumes" | "networks", "external" | "labels" | "name") => {}
                ("volumes", "driver") if text == "local" => {}
                ("networks", "driver") if text == "bridge" => {}
                ("networks", "attachable" | "internal" | "ipam" | "enable_ipv6") => {}
                ("configs", "content" | "name") => {}
                (_, key) if key.starts_with("x-") => {}
                ("volumes", "driver") if ["nfs", "ceph", "ceph-rbd"].contains(&text) => {
                    self.add(place, format!("`{text}` is not supported yet; it is on the roadmap"));
                }
                (_, _) => self.host(place, &format!("`{}` is not allowed", shortened(key))),
            }
        }
    }
}

fn is_ours(label: &str) -> bool {
    label.starts_with("persys.") || label.starts_with("com.docker.compose.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use serde_json::json;

    fn faults(file: Value, policy: Policy) -> Vec<String> {
        let env = [("M".to_owned(), "host".to_owned())].into_iter().collect();
        let compose = Compose::new("shop".to_owned(), file, env);
        compose.check(&BTreeMap::new(), policy).iter().map(ToString::to_string).collect()
    }

    fn of_service(service: Value) -> Vec<String> {
        let mut service = service;
        service["image"] = "x".into();
        faults(json!({"services": {"web": service}}), Policy::default())
    }

    #[test]
    fn a_usual_file_is_allowed() {
        let file = json!({
            "version": "3.8", "name": "other", "x-common": {"a": 1},
            "services": {
                "web": {
                    "image": "nginx", "ports": ["80:80"], "restart": "always",
                    "volumes": ["data:/data", "/cache", {"type": "tmpfs", "target": "/t"}],
                    "environment": {"TOKEN": "${TOKEN:-}"}, "depends_on": ["db"],
                    "privileged": false, "labels": ["team=a"], "mem_limit": "64m",
                    "logging": {"driver": "local"}, "network_mode": "bridge",
                },
                "db": {"image": "postgres", "deploy": {
                    "replicas": 2, "resources": {"limits": {"memory": "1.5gb"}}}},
            },
            "volumes": {"data": null, "other": {"driver": "local", "external": true}},
            "networks": {"back": {"internal": true}},
        });
        assert_eq!(faults(file.clone(), Policy::default()), Vec::<String>::new());
        let compose = Compose::new("shop".to_owned(), file, BTreeMap::new());
        assert_eq!((compose.services(), compose.restart), (2, Restart::Always));
        let tenths = (1_u64 << 30) + (1 << 30) / 10 * 5;
        assert_eq!(compose.memory.get(), (64 << 20) + 2 * tenths);
        assert_eq!(compose.images(&[]).unwrap(), ["nginx", "postgres"]);
    }

    #[test]
    fn what_is_of_the_host_is_refused_with_its_place() {
        for (service, place) in [
            (json!({"privileged": true}), "web.privileged"),
            (json!({"privileged": "${P:-true}"}), "web.privileged"),
            (json!({"volumes": ["/etc:/etc"]}), "web.volumes[0]"),
            (json!({"volumes": ["./a:/b"]}), "web.volumes[0]"),
            (json!({"volumes": ["~/a:/b"]}), "web.volumes[0]"),
            (json!({"volumes": ["${M}/../etc:/b"]}), "web.volumes[0]"),
            (json!({"volumes": ["data:/a/../../b"]}), "web.volumes[0]"),
            (
                json!({"volumes": [{"type": "bind", "source": "/", "target": "/h"}]}),
                "web.volumes[0].type",
            ),
            (
                json!({"volumes": [{"type": "volume", "source": "../x", "target": "/h"}]}),
                "web.volumes[0].source",
            ),
            (json!({"network_mode": "${M}"}), "web.network_mode"),
            (json!({"network_mode": "container:x"}), "web.network_mode"),
            (json!({"pid": "host"}), "web.pid"),
            (json!({"ipc": "host"}), "web.ipc"),
            (json!({"cap_add": ["SYS_ADMIN"]}), "web.cap_add"),
            (json!({"devices": ["/dev/kvm"]}), "web.devices"),
            (json!({"security_opt": ["seccomp=unconfined"]}), "web.security_opt"),
            (json!({"volumes_from": ["container:x"]}), "web.volumes_from"),
            (json!({"use_api_socket": true}), "web.use_api_socket"),
            (json!({"cgroup_parent": "/x"}), "web.cgroup_parent"),
            (json!({"logging": {"driver": "syslog"}}), "web.logging.driver"),
            (json!({"build": "."}), "web.build"),
            (json!({"env_file": "/etc/shadow"}), "web.env_file"),
            (json!({"extends": {"file": "/etc/x"}}), "web.extends"),
            (json!({"gpus": "all"}), "web.gpus"),
            (json!({"labels": {"persys.managed": "false"}}), "web.labels"),
            (
                json!({"deploy": {"resources": {"reservations": {"devices": []}}}}),
                "web.deploy.resources.reservations.devices",
            ),
            (json!({"<<": {"privileged": true}}), "web.<<"),
        ] {
            let found = of_service(service.clone());
            let expected = format!("compose_yaml.services.{place}: ");
            assert!(found.len() == 1 && found[0].starts_with(&expected), "{service}: {found:?}");
        }
    }

    #[test]
    fn what_a_file_may_not_have_is_refused_with_its_place() {
        let web = json!({"web": {"image": "x"}});
        for (file, place) in [
            (json!({"services": web, "include": ["/x"]}), "compose_yaml.include"),
            (json!({"services": web, "secrets": {"a": {"file": "/x"}}}), "compose_yaml.secrets"),
            (
                json!({"services": web, "configs": {"a": {"file": "/x"}}}),
                "compose_yaml.configs.a.file",
            ),
            (
                json!({"services": web, "volumes": {"a": {"driver_opts": {"device": "/"}}}}),
                "compose_yaml.volumes.a.driver_opts",
            ),
            (
                json!({"services": web, "volumes": {"a": {"driver": "nfs"}}}),
                "compose_yaml.volumes.a.driver",
            ),
            (
                json!({"services": web, "networks": {"a": {"driver": "macvlan"}}}),
                "compose_yaml.networks.a.driver",
            ),
            (json!({"services": {}}), "compose_yaml.services"),
            (json!(["x"]), "compose_yaml"),
            (json!({"services": {"web": {"image": "$GONE"}}}), "compose_yaml"),
            (json!({"services": {"web": {}}}), "compose_yaml.services.web.image"),
        ] {
            let found = faults(file.clone(), Policy::default());
            let expected = format!("{place}: ");
            assert!(found.iter().any(|it| it.starts_with(&expected)), "{file}: {found:?}");
        }
        let compose = Compose::new("../x".to_owned(), json!({"services": web}), BTreeMap::new());
        assert_eq!(compose.check(&BTreeMap::new(), Policy::default())[0].field, "project_name");
    }

    #[test]
    fn a_policy_may_allow_what_is_of_the_host_but_no_other_files() {
        let open = Policy { host_access: true };
        let file = |service: Value| json!({"services": {"web": service}});
        let host = json!({"image": "x", "privileged": true, "volumes": ["/etc:/etc"]});
        assert_eq!(faults(file(host), open), Vec::<String>::new());
        assert_eq!(faults(file(json!({"image": "x", "build": "."})), open).len(), 1);
    }

    #[test]
    fn what_is_run_has_labels_values_and_nothing_left_to_fill_in() {
        let file = json!({"services": {
            "a": {"image": "x", "labels": ["team=b"], "environment": {"T": "${TOKEN}", "D": "$$1"}},
            "b": {"image": "x", "labels": {"team": "c"}},
        }});
        let compose = Compose::new("shop".to_owned(), file, BTreeMap::new());
        assert!(compose.filled(&BTreeMap::new()).is_err());
        let secrets = [("TOKEN".to_owned(), "a$b".to_owned())].into_iter().collect();
        let run = compose.to_run(&secrets, &[("persys.managed", "true")]).unwrap();
        let a = &run["services"]["a"];
        assert_eq!(a["environment"], json!({"T": "a$$b", "D": "$$1"}));
        assert_eq!(a["labels"], json!({"team": "b", "persys.managed": "true"}));
        assert_eq!(run["services"]["b"]["labels"]["team"], "c");
        assert_eq!(compose.restart, Restart::OnFailure { retries: 0 });
    }
}
