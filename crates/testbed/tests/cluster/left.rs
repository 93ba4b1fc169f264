//! What a testbed has left in the machine, as far as the machine shows it.

use std::fs;
use std::path::Path;

use walras_testbed::State;

/// Everything that is left of the testbed that `state` describes; empty if it is gone.
pub(crate) fn of(state: &State) -> Vec<String> {
    let mut left = processes(&state.dir);
    let groups = walras_testbed::groups(&state.cgroup());
    left.extend(groups.iter().map(|group| format!("cgroup {}", group.display())));
    let bridge = Path::new("/sys/class/net").join(state.bridge());
    left.extend(bridge.exists().then(|| format!("bridge {}", state.bridge())));
    left.extend(state.dir.exists().then(|| format!("folder {}", state.dir.display())));
    let dir = state.dir.display().to_string();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounts = mounts.lines().filter(|line| line.contains(&dir) || line.contains("testbed"));
    left.extend(mounts.map(|line| format!("mount {line}")));
    left
}

/// The processes of the testbed in `dir`, found by their environment.
pub(crate) fn processes(dir: &Path) -> Vec<String> {
    let mark = format!("WALRAS_TESTBED={}", dir.display()).into_bytes();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|pair| pair == mark.as_slice()) {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            found.push(format!("process {} {}", entry.file_name().display(), name.trim()));
        }
    }
    found
}

/// The network and mount namespaces that some process of the machine is in, or that are mounted.
pub(crate) fn namespaces_of(pids: &[u32]) -> Vec<String> {
    let links = pids
        .iter()
        .flat_map(|pid| ["net", "mnt"].map(|kind| fs::read_link(format!("/proc/{pid}/ns/{kind}"))));
    links.flatten().map(|link| link.display().to_string()).collect()
}

/// Those of `namespaces` that some process is still in.
pub(crate) fn still_used(namespaces: &[String]) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let used = namespaces_of(&pids);
    namespaces.iter().filter(|namespace| used.contains(namespace)).cloned().collect()
}
