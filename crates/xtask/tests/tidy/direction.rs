//! Our packages depend on each other in one direction, and what ships needs nothing made for tests.

use crate::manifest::{self, Dependency};
use crate::repository::{Complaint, Repository};

/// What each package that ships may depend on, of our own.
const MAY_USE: &[(&str, &[&str])] = &[
    ("crates/core", &[]),
    ("crates/wire", &["walras-core"]),
    ("crates/cgroup", &["walras-core"]),
    ("crates/node", &["walras-core", "walras-wire", "walras-cgroup"]),
    ("crates/host", &["walras-core", "walras-wire", "walras-cgroup", "walras-node"]),
    (
        "crates/kube",
        &[
            "walras-core",
            "walras-wire",
            "walras-cgroup",
            "walras-node",
            "walras-brain",
            "walras-rpc",
        ],
    ),
    ("crates/informant", &["walras-core", "walras-wire"]),
    ("crates/scale", &["walras-core", "walras-wire"]),
    ("crates/sim", &["walras-brain", "walras-core", "walras-wire"]),
    ("crates/brain", &["walras-core"]),
    ("crates/telemetry", &["walras-core", "walras-cgroup"]),
    ("crates/rpc", &[]),
    ("crates/run", &["walras-core", "walras-rpc", "walras-scale", "walras-vm", "walras-wire"]),
    ("crates/vm", &["walras-core", "walras-cgroup", "walras-wire"]),
    (
        "crates/walras",
        &[
            "walras-core",
            "walras-wire",
            "walras-cgroup",
            "walras-node",
            "walras-host",
            "walras-kube",
            "walras-sim",
            "walras-brain",
            "walras-telemetry",
            "walras-rpc",
            "walras-run",
            "walras-vm",
        ],
    ),
];
/// Packages that are for development only, and so may use what they like.
const DEVELOPMENT: &[&str] =
    &["crates/browser", "crates/loadgen", "crates/testbed", "crates/xtask", "fuzz", "proto/gen"];

/// Complains about a package that uses one it must not, or that nobody has said anything about.
pub(crate) fn check(repository: &Repository) -> Vec<Complaint> {
    let ours = manifest::packages(repository);
    let mut complaints = Vec::new();
    for (path, text) in repository.texts().filter(|(path, _)| manifest::is_manifest(path)) {
        let Some(folder) = path.strip_suffix("/Cargo.toml") else { continue };
        if DEVELOPMENT.contains(&folder) {
            continue;
        }
        let Some((_, allowed)) = MAY_USE.iter().find(|(package, _)| *package == folder) else {
            let what = "say in the tidy test `direction` what this package may depend on";
            complaints.push(Complaint::new(path, 1, what));
            continue;
        };
        for Dependency { name, table, line } in manifest::dependencies(text) {
            let used = ours.contains(&name) && table != "dev-dependencies";
            if used && !allowed.contains(&name.as_str()) {
                let what = format!("`{folder}` may not depend on `{name}`; see ARCHITECTURE.md");
                complaints.push(Complaint::new(path, line, what));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::lines;

    fn check_manifest(path: &str, dependencies: &str) -> String {
        let text = format!("[package]\nname = \"a\"\n{dependencies}");
        let kube = ("crates/kube/Cargo.toml", "[package]\nname = \"walras-kube\"\n");
        let core = ("crates/core/Cargo.toml", "[package]\nname = \"walras-core\"\n");
        lines(&check(&Repository::of(&[(path, &text), kube, core])))
    }

    #[test]
    fn a_package_may_use_those_below_it_and_no_others() {
        let uses = |name: &str| format!("[dependencies]\n{name} = \"1\"\n");
        assert_eq!(check_manifest("crates/host/Cargo.toml", &uses("walras-core")), "");
        assert_eq!(check_manifest("crates/host/Cargo.toml", &uses("serde")), "");
        let sideways = check_manifest("crates/host/Cargo.toml", &uses("walras-kube"));
        assert_eq!(
            sideways,
            "crates/host/Cargo.toml:4: `crates/host` may not depend on `walras-kube`; see \
             ARCHITECTURE.md\n"
        );
        let tested = "[dev-dependencies]\nwalras-kube = \"1\"\n";
        assert_eq!(check_manifest("crates/host/Cargo.toml", tested), "");
    }

    #[test]
    fn a_package_that_is_new_is_asked_about() {
        let new = check_manifest("crates/new/Cargo.toml", "");
        assert!(new.contains("say in the tidy test"), "{new}");
        assert_eq!(check_manifest("crates/testbed/Cargo.toml", ""), "");
    }
}
