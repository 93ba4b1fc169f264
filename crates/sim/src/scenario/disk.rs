//! Scenarios and traces from files: the only part of this module that touches a disk.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::Scenario;
use super::file::parse;
use super::problem::ScenarioError;
use super::recorded::recorded;
use super::trace::{self, Format, Reading};

/// No file is read beyond this size; a trace of ten million lines is smaller.
const BYTES_MAX: u64 = 1 << 30;

/// Reads a scenario, and the traces it names.
///
/// # Errors
/// Where the file cannot be read, or anything in it is wrong.
pub fn read(path: &Path) -> Result<Scenario, ScenarioError> {
    parse(&bytes(path).map_err(|error| unreadable(path, &error))?, path, &bytes)
}

/// Makes a scenario of trace files, each as a pod with the name of the file ([`recorded`]). A path
/// may end in `#` and the name of a machine. Where no format is given, each file tells its own.
///
/// # Errors
/// Where a file cannot be read or is no trace, and as for [`recorded`].
pub fn from_traces(paths: &[PathBuf], format: Option<Format>) -> Result<Scenario, ScenarioError> {
    let mut traces = Vec::with_capacity(paths.len());
    for path in paths {
        let name = path.to_string_lossy();
        let (file, machine) = trace::split_name(&name);
        // A path that is not text cannot name a machine, and is taken as it is.
        let file = if machine.is_some() { Path::new(file) } else { path };
        let bytes = bytes(file).map_err(|error| unreadable(file, &error))?;
        let how = Reading { format, machine, machine_cores: None };
        let trace = trace::parse(&bytes, &file.display().to_string(), &how)?;
        traces.push((pod_name(file, machine), trace));
    }
    recorded(&traces)
}

/// The name of the file without its ending, and of the machine.
fn pod_name(file: &Path, machine: Option<&str>) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let name = match machine {
        Some(machine) => format!("{stem}-{machine}"),
        None => stem.into_owned(),
    };
    name.replace(char::is_control, "_")
}

/// The whole file, unless it is too large to be one of ours.
fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if u64::try_from(read).is_ok_and(|read| read <= BYTES_MAX) {
        return Ok(bytes);
    }
    let most_mib = BYTES_MAX >> 20;
    let problem = format!("is larger than {most_mib} MiB; cut it, or take out one machine");
    Err(io::Error::new(io::ErrorKind::FileTooLarge, problem))
}

fn unreadable(path: &Path, error: &io::Error) -> ScenarioError {
    ScenarioError::Unreadable { file: path.display().to_string(), problem: error.to_string() }
}

#[cfg(test)]
mod tests {
    use walras_core::units::Millicores;

    use super::*;

    /// A file of this crate.
    fn ours(path: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
    }

    #[test]
    fn a_scenario_and_the_trace_next_to_it_are_read() {
        let scenario = read(&ours("testdata/replay.toml")).expect("it is there");
        assert_eq!((scenario.name.as_str(), scenario.pods.len()), ("replay", 1));
    }

    #[test]
    fn traces_become_pods_with_the_names_of_their_files() {
        let paths = ["testdata/machines.csv", "testdata/machines.csv#m_2"].map(ours);
        let scenario = from_traces(&paths, None).expect("they are there");
        let pods = scenario.pods.iter().map(|pod| (pod.name.as_str(), pod.request));
        let pods: Vec<(&str, Millicores)> = pods.collect();
        // The means of 10 and 30, and of 20 and 60 percent of a core.
        let expected = [("machines", 200), ("machines-m_2", 400)];
        assert_eq!(pods, expected.map(|(name, request)| (name, Millicores::new(request))));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let path = ours("testdata/nowhere.toml");
        let told = read(&path).expect_err("not there").to_string();
        assert!(told.starts_with(&format!("{}: ", path.display())), "{told}");
        let told = from_traces(&[ours("nowhere.csv#m_1")], None).expect_err("nor that").to_string();
        assert!(told.starts_with(&format!("{}: ", ours("nowhere.csv").display())), "{told}");
    }
}
