//! Reads what a workload says about itself, where that is in files.
//!
//! A unit without any says nothing.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Marks, Seen, Source};

/// A file larger than this is not what it should be.
const FILE_MAX: u64 = 16 * 1024 * 1024;
/// Where systemd looks for units, the later overriding the earlier.
const UNIT_FOLDERS: [&str; 4] = [
    "/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/run/systemd/system",
    "/etc/systemd/system",
];

/// What the workload says about itself; nothing if an engine has to be asked.
#[must_use]
pub fn read_marks(seen: &Seen) -> Option<Marks> {
    match seen.source {
        Source::Walras | Source::Path => Some(Marks::default()),
        Source::Docker | Source::Podman => None,
        Source::Systemd => {
            let files = unit_files(&seen.id, UNIT_FOLDERS.map(Path::new).as_slice());
            let texts: Vec<String> = files.iter().filter_map(|file| read_file(file)).collect();
            Some(Marks::of_unit(texts.iter().map(String::as_str)))
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

/// The text of a file that is no larger than it should be.
pub(super) fn read_file(file: &Path) -> Option<String> {
    let size = fs::metadata(file).ok()?.len();
    if size > FILE_MAX {
        return None;
    }
    fs::read_to_string(file).ok()
}
