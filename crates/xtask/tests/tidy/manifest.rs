//! Reads what the checks need from Cargo manifests, line by line.
//!
//! Not a TOML parser: it knows the forms that our manifests have, one dependency to a line or to a
//! table of its own.

use std::collections::BTreeSet;

use crate::repository::Repository;

/// One dependency as a manifest declares it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// The table that it is in, such as `dev-dependencies`.
    pub(crate) table: String,
    pub(crate) line: usize,
}

/// All dependencies that the manifest declares, in its order.
pub(crate) fn dependencies(text: &str) -> Vec<Dependency> {
    let mut found = Vec::new();
    let mut table = "";
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if let Some(header) = content.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            table = header;
            // A dependency may have a table of its own.
            if let Some((outer, name)) = header.rsplit_once('.')
                && is_dependency_table(outer)
            {
                let (name, table) = (name.to_owned(), outer.to_owned());
                found.push(Dependency { name, table, line });
            }
        } else if is_dependency_table(table)
            && let Some((key, _)) = content.split_once('=')
        {
            let key = key.split('.').next().unwrap_or_default().trim().trim_matches('"');
            if is_name(key) {
                found.push(Dependency { name: key.to_owned(), table: table.to_owned(), line });
            }
        }
    }
    found
}

/// The names of the repository's own packages.
pub(crate) fn packages(repository: &Repository) -> BTreeSet<String> {
    let manifests = repository.texts().filter(|(path, _)| is_manifest(path));
    manifests.filter_map(|(_, text)| package(text)).collect()
}

/// Whether `path` is a Cargo manifest.
pub(crate) fn is_manifest(path: &str) -> bool {
    path == "Cargo.toml" || path.ends_with("/Cargo.toml")
}

fn package(text: &str) -> Option<String> {
    let mut lines = text.lines().skip_while(|line| line.trim() != "[package]").skip(1);
    let name = lines.by_ref().take_while(|line| !line.starts_with('[')).find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "name").then_some(value)
    })?;
    Some(name.trim().trim_matches('"').to_owned())
}

fn is_dependency_table(header: &str) -> bool {
    let last = header.rsplit('.').next().unwrap_or_default();
    ["dependencies", "dev-dependencies", "build-dependencies"].contains(&last)
}

fn is_name(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"[package]
name = "walras-x"
version.workspace = true

[dependencies]
# A comment = not a dependency.
serde = { workspace = true }
thiserror.workspace = true
long = { features = [
  "a",
] }

[target.'cfg(unix)'.dependencies]
rustix = "1"

[dev-dependencies.syn]
version = "3.0"

[lints]
workspace = true
"#;

    #[test]
    fn dependencies_are_found_in_every_form() {
        let found: Vec<_> = dependencies(MANIFEST)
            .into_iter()
            .map(|dependency| format!("{} {}", dependency.name, dependency.line))
            .collect();
        assert_eq!(found, ["serde 7", "thiserror 8", "long 9", "rustix 14", "syn 16"]);
    }

    #[test]
    fn a_package_is_known_by_its_name() {
        let files = [("crates/x/Cargo.toml", MANIFEST), ("Cargo.toml", "[workspace]\n")];
        let names = packages(&Repository::of(&files));
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["walras-x"]);
    }
}
