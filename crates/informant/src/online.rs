//! Brings CPUs and memory online that were plugged in: some kernels leave that to a program.
//!
//! Memory goes into the zone whose pages can be moved, so that it can be unplugged again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::guest::{devices, numbers};

/// What memory is made, so that it can be taken away again.
const MOVABLE: &str = "online_movable";

/// Where devices are, and what could not be brought online, which is told once.
#[derive(Debug)]
pub struct Online {
    devices: PathBuf,
    failed: Vec<String>,
}

impl Online {
    /// Looks under `root`, and asks the kernel to do it itself from now on.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        let devices = devices(root);
        let automatic = devices.join("memory/auto_online_blocks");
        if automatic.exists() && fs::write(&automatic, MOVABLE).is_err() {
            // An older kernel, or one that does not let us: blocks are looked for then.
        }
        Self { devices, failed: Vec::new() }
    }

    /// Brings CPUs online that are present and are not. Says what was done, and what failed.
    pub fn cpus(&mut self) -> Vec<String> {
        let list = |file: &str| {
            let text = fs::read_to_string(self.devices.join("cpu").join(file));
            numbers(&text.unwrap_or_default())
        };
        let (present, online) = (list("present"), list("online"));
        let missing = present.into_iter().filter(|cpu| !online.contains(cpu));
        let switches: Vec<(String, PathBuf)> = missing
            .map(|cpu| (format!("CPU {cpu}"), self.devices.join(format!("cpu/cpu{cpu}/online"))))
            .collect();
        switches.into_iter().filter_map(|(name, path)| self.switch(name, &path, "1")).collect()
    }

    /// Brings memory blocks online that are not.
    pub fn memory(&mut self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.devices.join("memory")) else {
            return Vec::new();
        };
        let mut told = Vec::new();
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let state = entry.path().join("state");
            let is_block = name.strip_prefix("memory").is_some_and(is_number);
            let offline = || fs::read_to_string(&state).is_ok_and(|text| text.trim() == "offline");
            if is_block && offline() {
                told.extend(self.switch(format!("memory block {}", &name[6..]), &state, MOVABLE));
            }
        }
        told
    }

    fn switch(&mut self, name: String, path: &Path, to: &str) -> Option<String> {
        match fs::write(path, to) {
            Ok(()) => {
                self.failed.retain(|failed| *failed != name);
                Some(format!("{name} is online"))
            }
            // A CPU that is being unplugged is present for a moment, and cannot be had.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(_) if self.failed.contains(&name) => None,
            Err(error) => {
                let words = format!("{name} cannot be brought online: {error}");
                self.failed.push(name);
                Some(words)
            }
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_present_and_offline_is_brought_online() {
        let folder = tempfile::tempdir().unwrap();
        let at = |file: &str| folder.path().join("sys/devices/system").join(file);
        for cpu in 0..3 {
            fs::create_dir_all(at(&format!("cpu/cpu{cpu}"))).unwrap();
        }
        fs::write(at("cpu/present"), "0-2\n").unwrap();
        fs::write(at("cpu/online"), "0,2\n").unwrap();
        fs::write(at("cpu/cpu1/online"), "0\n").unwrap();
        fs::create_dir_all(at("memory/memory32")).unwrap();
        fs::create_dir_all(at("memory/memory33")).unwrap();
        fs::create_dir_all(at("memory/memoryx")).unwrap();
        fs::write(at("memory/auto_online_blocks"), "offline\n").unwrap();
        fs::write(at("memory/memory32/state"), "online\n").unwrap();
        fs::write(at("memory/memory33/state"), "offline\n").unwrap();
        let mut online = Online::new(folder.path());
        assert_eq!(fs::read_to_string(at("memory/auto_online_blocks")).unwrap(), MOVABLE);
        assert_eq!(online.cpus(), ["CPU 1 is online"]);
        assert_eq!(fs::read_to_string(at("cpu/cpu1/online")).unwrap(), "1");
        assert_eq!(online.memory(), ["memory block 33 is online"]);
        assert_eq!(fs::read_to_string(at("memory/memory33/state")).unwrap(), MOVABLE);
        assert_eq!(online.memory(), Vec::<String>::new());
    }

    #[test]
    fn a_failure_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |file: &str| folder.path().join("sys/devices/system").join(file);
        // A folder in the place of the switch cannot be written.
        fs::create_dir_all(at("cpu/cpu1/online")).unwrap();
        fs::write(at("cpu/present"), "0-1\n").unwrap();
        fs::write(at("cpu/online"), "0\n").unwrap();
        let mut online = Online::new(folder.path());
        let told = online.cpus();
        assert!(told[0].starts_with("CPU 1 cannot be brought online: "), "{told:?}");
        assert_eq!(online.cpus(), Vec::<String>::new());
    }
}
