//! Reads what a workload says about itself, from the files its manager keeps.
//!
//! Files only: no socket of Docker or Podman is needed, and neither has to answer. What is not
//! there says nothing.

use std::fs;
use std::path::{Path, PathBuf};

use super::{AdoptRules, Marks, Seen, Source};

/// A file larger than this is not what it should be.
const FILE_MAX: u64 = 16 * 1024 * 1024;
/// Where systemd looks for units, the later overriding the earlier.
const UNIT_FOLDERS: [&str; 4] = [
    "/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/run/systemd/system",
    "/etc/systemd/system",
];

/// What the workload says about itself.
#[must_use]
pub fn read_marks(rules: &AdoptRules, seen: &Seen) -> Marks {
    match seen.source {
        Source::Walras | Source::Path => Marks::default(),
        Source::Docker => {
            let file = rules.docker_root.join("containers").join(&seen.id).join("config.v2.json");
            read(&file).map_or_else(Marks::default, |text| Marks::of_docker(&text))
        }
        Source::Podman => {
            let folder = rules.podman_root.join("overlay-containers");
            let config = read(&folder.join(&seen.id).join("userdata/config.json"));
            let containers = read(&folder.join("containers.json")).unwrap_or_default();
            let of = |config: String| Marks::of_podman(&seen.id, &config, &containers);
            config.map_or_else(Marks::default, of)
        }
        Source::Systemd => {
            let files = unit_files(&seen.id, UNIT_FOLDERS.map(Path::new).as_slice());
            let texts: Vec<String> = files.iter().filter_map(|file| read(file)).collect();
            Marks::of_unit(texts.iter().map(String::as_str))
        }
    }
}

/// The files of a unit: the unit itself from the last folder that has it, then the drop-ins of all
/// folders by their names, those of later folders replacing those of earlier ones.
fn unit_files(unit: &str, folders: &[&Path]) -> Vec<PathBuf> {
    let own = |name: &str| folders.iter().rev().map(|it| it.join(name)).find(|it| it.is_file());
    // `web@1.service` is made from `web@.service`.
    let template = unit.split_once('@').and_then(|(name, rest)| {
        let (_, suffix) = rest.rsplit_once('.')?;
        Some(format!("{name}@.{suffix}"))
    });
    let mut files: Vec<PathBuf> =
        own(unit).or_else(|| own(template.as_deref()?)).into_iter().collect();
    let mut drop_ins = std::collections::BTreeMap::new();
    for name in template.iter().map(String::as_str).chain([unit]) {
        for folder in folders {
            let entries = fs::read_dir(folder.join(format!("{name}.d"))).into_iter().flatten();
            for entry in entries.flatten() {
                if entry.path().extension().is_some_and(|extension| extension == "conf") {
                    drop_ins.insert(entry.file_name(), entry.path());
                }
            }
        }
    }
    files.extend(drop_ins.into_values());
    files
}

fn read(file: &Path) -> Option<String> {
    let size = fs::metadata(file).ok()?.len();
    if size > FILE_MAX {
        return None;
    }
    fs::read_to_string(file).ok()
}
