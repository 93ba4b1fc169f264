//! Messages of compose projects, and of runtimes of one's own, in the core's types.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use walras_core::run::{Compose, Custom, Work, is_variable};
use walras_rpc::agent::{ComposeSpec, CustomSpec};
use walras_rpc::to_json;

use super::Reader;

/// The largest compose file.
const FILE_MAX: usize = 1 << 20;

impl Reader {
    /// A compose project; its name is the workload's where it is not said.
    pub(super) fn compose(&mut self, id: &str, spec: ComposeSpec) -> Option<Compose> {
        let ComposeSpec { project_name, compose_yaml, env } = spec;
        let project = if project_name.is_empty() { id.to_lowercase() } else { project_name };
        for name in env.keys().filter(|name| !is_variable(name)) {
            let shown: String = name.chars().take(80).collect();
            self.fault("env", format!("`{shown}` is no name of a variable"));
        }
        if compose_yaml.is_empty() {
            self.fault("compose_yaml", "is missing");
            return None;
        }
        if compose_yaml.len() > FILE_MAX {
            let what = format!("has {} bytes of at most {FILE_MAX}", compose_yaml.len());
            self.fault("compose_yaml", what);
            return None;
        }
        let text = decoded(&compose_yaml).unwrap_or(compose_yaml);
        match serde_saphyr::from_str::<Value>(&text) {
            Ok(file) => Some(Compose::new(project, file, env)),
            Err(error) => {
                self.fault("compose_yaml", error.to_string());
                None
            }
        }
    }

    pub(super) fn custom(&mut self, spec: CustomSpec) -> Work {
        if spec.runtime.is_empty() {
            self.fault("custom.runtime", "is missing");
        }
        let settings = spec.settings.map_or(Value::Null, to_json);
        Work::Custom(Custom { runtime: spec.runtime, settings })
    }
}

/// A file that some clients send encoded. What is YAML has a colon in it, and this has none.
fn decoded(text: &str) -> Option<String> {
    let text = text.trim();
    if text.contains(':') {
        return None;
    }
    let lines: String = text.split_whitespace().collect();
    String::from_utf8(BASE64_STANDARD.decode(lines).ok()?).ok()
}
