//! What the files of a container engine say about a container, where the engine itself is silent.

use std::fs;
use std::path::{Path, PathBuf};

use crate::adopt::read::read_file;
use crate::adopt::{Marks, Source};

/// Docker's own configuration, which may say where its files are.
const DOCKER_CONFIG: &str = "/etc/docker/daemon.json";
/// Where they are if it does not.
const DOCKER_ROOT: &str = "/var/lib/docker";
/// Where Podman's are.
const PODMAN_ROOT: &str = "/var/lib/containers/storage";

/// Reads what is known of the container `id` of an engine that keeps its files in `root`; where the
/// engine's configuration says, if nothing is said here.
///
/// # Errors
/// Why nothing is known, in words that fit after "and".
pub(super) fn read(source: Source, root: Option<&Path>, id: &str) -> Result<Marks, String> {
    match source {
        Source::Podman => of_podman(root.unwrap_or(Path::new(PODMAN_ROOT)), id),
        Source::Docker | Source::Walras | Source::Systemd | Source::Path => {
            let configured = || read_file(Path::new(DOCKER_CONFIG));
            let root = root.map_or_else(|| docker_root(configured()), Path::to_owned);
            of_docker(&root, id)
        }
    }
}

/// Where Docker keeps its files, by its configuration.
pub(super) fn docker_root(config: Option<String>) -> PathBuf {
    let config: Option<serde_json::Value> =
        config.and_then(|text| serde_json::from_str(&text).ok());
    let said = config.and_then(|config| {
        // The second was its name before.
        let root = config.get("data-root").or_else(|| config.get("graph"))?;
        Some(PathBuf::from(root.as_str()?))
    });
    said.unwrap_or_else(|| PathBuf::from(DOCKER_ROOT))
}

fn of_docker(root: &Path, id: &str) -> Result<Marks, String> {
    let places = docker_places(root, id);
    let Some((file, text)) = places.iter().find_map(|file| Some((file, read_file(file)?))) else {
        return Err(format!("it has no files in {}", root.display()));
    };
    Marks::of_docker(&text)
        .map_err(|error| format!("{} cannot be understood: {error}", file.display()))
}

/// Where the file of a container may be. With users mapped, Docker has a folder for each mapping,
/// named by its numbers.
fn docker_places(root: &Path, id: &str) -> Vec<PathBuf> {
    let mapped = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_mapping = |folder: &PathBuf| {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let numbers = name.split_once('.').is_some_and(|(uid, gid)| {
            [uid, gid].iter().all(|it| !it.is_empty() && it.bytes().all(|b| b.is_ascii_digit()))
        });
        numbers && folder.is_dir()
    };
    let roots = std::iter::once(root.to_owned()).chain(mapped.filter(is_mapping));
    roots.map(|root| root.join("containers").join(id).join("config.v2.json")).collect()
}

/// Podman keeps labels in a database of its own. Only what is an annotation as well can be read.
fn of_podman(root: &Path, id: &str) -> Result<Marks, String> {
    let folder = root.join("overlay-containers");
    let file = folder.join(id).join("userdata/config.json");
    let Some(config) = read_file(&file) else {
        return Err(format!("it has no files in {}", root.display()));
    };
    let containers = read_file(&folder.join("containers.json")).unwrap_or_default();
    let marks = Marks::of_podman(id, &config, &containers)
        .map_err(|error| format!("{} cannot be understood: {error}", file.display()))?;
    if marks.managed.is_none() {
        return Err("its files do not have its labels; podman.socket makes Podman answer".into());
    }
    Ok(marks)
}
