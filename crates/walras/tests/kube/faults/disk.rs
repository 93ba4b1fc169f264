//! A disk that is too small for what an agent writes to it, and soon full.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A file system in memory, gone when dropped.
#[derive(Debug)]
pub(super) struct Disk {
    folder: tempfile::TempDir,
}

impl Disk {
    /// One of 64 KiB: a recording fills it within seconds.
    pub(super) fn small() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=64k,mode=700", "soak"];
        let mounted = Command::new("mount").args(mount).arg(folder.path()).status().unwrap();
        assert!(mounted.success(), "tests on clusters run as root");
        Self { folder }
    }

    /// What makes an agent record to it.
    pub(super) fn recording(&self) -> [String; 2] {
        ["--record".to_owned(), self.file().display().to_string()]
    }

    /// Takes away what was recorded, as whoever is called because a disk is full.
    pub(super) fn empty(&self) {
        for entry in fs::read_dir(self.folder.path()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }

    /// Whether not another page fits.
    pub(super) fn is_full(&self) -> bool {
        let attempt = self.folder.path().join("attempt");
        let full = fs::write(&attempt, [0; 8192]).is_err();
        fs::remove_file(attempt).ok();
        full
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("agent.jsonl")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What still writes to it loses it; if it was never mounted, there is nothing to do.
        Command::new("umount").arg("--lazy").arg(self.folder.path()).status().ok();
    }
}
