//! What is kept of a machine, and where.
//!
//! A machine has a folder on disk (what it is, its version, its console, how it ended) and one in
//! memory (QEMU's monitor, the image for cloud-init, what is secret for the moment of the start).
//! What is kept is written before it has an effect, to a new file that then takes the place of the
//! old one, so that a crash leaves the one or the other.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::args::hash;
use crate::port::Handover;
use crate::spec::MachineSpec;

/// The version of the file, as it is written.
const FORMAT: u32 = 1;
/// The console is cut in two when it is longer than this, and the older part is kept once.
pub(crate) const CONSOLE_MAX: u64 = 1 << 20;
/// No path of a socket is longer.
const SOCKET_MAX: usize = 107;

/// What a machine is, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Saved {
    format: u32,
    pub(crate) spec: MachineSpec,
    /// What whoever defined it wants to know again.
    pub(crate) tags: BTreeMap<String, String>,
    /// What it was when it came from another host.
    pub(crate) received: Option<Handover>,
}

/// How a machine ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ending {
    /// Zero if its guest switched it off, or it was asked to; else not.
    pub code: i64,
    /// What happened, for a person.
    pub words: String,
}

/// Where the files of one machine are.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    state: PathBuf,
    run: PathBuf,
}

impl Saved {
    pub(crate) const fn new(spec: MachineSpec, tags: BTreeMap<String, String>) -> Self {
        Self { format: FORMAT, spec, tags, received: None }
    }
}

impl Folder {
    /// The folders of the machine `name`, which need not be there.
    pub(crate) fn of(state: &Path, run: &Path, name: &str) -> Self {
        // A socket has a short path, so a long name is cut and told apart by a number.
        let short: String = name.chars().take(20).collect();
        let key = format!("{short}-{:08x}", hash(name) & 0xffff_ffff);
        Self { state: state.join(name), run: run.join(key) }
    }

    pub(crate) fn pid(&self) -> PathBuf {
        self.state.join("pid")
    }

    pub(crate) fn console(&self) -> PathBuf {
        self.state.join("console.log")
    }

    /// The part of the console that was cut off.
    pub(crate) fn older_console(&self) -> PathBuf {
        self.state.join("console.log.1")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.state.join("qemu.log")
    }

    pub(crate) fn uefi_variables(&self) -> PathBuf {
        self.state.join("uefi-vars.fd")
    }

    pub(crate) fn qmp(&self) -> PathBuf {
        self.run.join("qmp")
    }

    pub(crate) fn seed(&self) -> PathBuf {
        self.run.join("seed.iso")
    }

    pub(crate) fn secret(&self, name: &str) -> PathBuf {
        self.run.join(format!("secret-{name}"))
    }

    /// A folder for the key of a move.
    pub(crate) fn key(&self) -> PathBuf {
        self.run.join("key")
    }

    /// What the program in the guest proves itself with, for as long as the machine runs.
    pub(crate) fn guest_key(&self) -> PathBuf {
        self.run.join("guest-key")
    }

    pub(crate) fn exists(&self) -> bool {
        self.state.join("machine.json").exists()
    }

    /// Makes both folders, for nobody but us.
    pub(crate) fn make(&self) -> io::Result<()> {
        let qmp = self.qmp();
        if qmp.as_os_str().len() > SOCKET_MAX {
            let words = format!("{} is too long for a socket; use a shorter folder", qmp.display());
            return Err(io::Error::other(words));
        }
        for folder in [&self.state, &self.run] {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        Ok(())
    }

    pub(crate) fn save(&self, saved: &Saved) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(saved).map_err(io::Error::other)?;
        self.replace("machine.json", &text)
    }

    pub(crate) fn load(&self) -> io::Result<Saved> {
        let text = fs::read(self.state.join("machine.json"))?;
        let saved: Saved = serde_json::from_slice(&text).map_err(io::Error::other)?;
        if saved.format != FORMAT {
            let words = format!("format {} is not {FORMAT}, which this reads", saved.format);
            return Err(io::Error::other(words));
        }
        Ok(saved)
    }

    /// The machine's version, which grows with every change.
    pub(crate) fn version(&self) -> io::Result<u64> {
        match fs::read_to_string(self.state.join("version")) {
            Ok(text) => text.trim().parse().map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(1),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn save_version(&self, version: u64) -> io::Result<()> {
        self.replace("version", version.to_string().as_bytes())
    }

    /// Takes note that a process is about to be started.
    pub(crate) fn begun(&self) -> io::Result<()> {
        remove(&self.state.join("ended.json"))?;
        remove(&self.pid())?;
        self.replace("begun", (self.starts() + 1).to_string().as_bytes())
    }

    /// How often a process was started, or was about to be.
    pub(crate) fn starts(&self) -> u64 {
        let text = fs::read_to_string(self.state.join("begun")).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    pub(crate) fn save_ending(&self, ending: &Ending) -> io::Result<()> {
        let text = serde_json::to_vec(ending).map_err(io::Error::other)?;
        self.replace("ended.json", &text)
    }

    pub(crate) fn ending(&self) -> Option<Ending> {
        serde_json::from_slice(&fs::read(self.state.join("ended.json")).ok()?).ok()
    }

    /// Writes a file in memory that nobody else can read.
    pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
        remove(path)?;
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(content)
    }

    /// Removes what is in memory.
    pub(crate) fn clear_run(&self) -> io::Result<()> {
        gone(fs::remove_dir_all(&self.run))
    }

    /// Removes everything.
    pub(crate) fn remove(&self) -> io::Result<()> {
        self.clear_run()?;
        gone(fs::remove_dir_all(&self.state))
    }

    /// The console from a place on, and where it ends; from the start where it was cut since, and
    /// with what was cut off where no place is given.
    pub(crate) fn console_from(&self, place: Option<u64>) -> io::Result<(Vec<u8>, u64)> {
        let older = match place {
            Some(_) => Ok(Vec::new()),
            None => fs::read(self.older_console()),
        };
        let mut text = none_if_missing(older)?;
        let current = none_if_missing(fs::read(self.console()))?;
        let end = current.len();
        let start = place.and_then(|place| usize::try_from(place).ok()).unwrap_or(0);
        text.extend(current.get(start..).unwrap_or(&current));
        Ok((text, u64::try_from(end).unwrap_or(u64::MAX)))
    }

    /// Cuts the console where it is too long. QEMU goes on at the end of what is there, which is
    /// the beginning then.
    pub(crate) fn trim_console(&self) -> io::Result<()> {
        let path = self.console();
        let mut console = OpenOptions::new().read(true).write(true).open(&path)?;
        let length = console.metadata()?.len();
        if length <= CONSOLE_MAX {
            return Ok(());
        }
        console.seek(SeekFrom::Start(length - CONSOLE_MAX))?;
        let mut tail = Vec::new();
        (&console).take(CONSOLE_MAX).read_to_end(&mut tail)?;
        fs::write(self.older_console(), tail)?;
        console.set_len(0)
    }

    fn replace(&self, name: &str, content: &[u8]) -> io::Result<()> {
        let (new, old) = (self.state.join(format!("{name}.new")), self.state.join(name));
        let mut file = File::create(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(new, old)
    }
}

fn none_if_missing(read: io::Result<Vec<u8>>) -> io::Result<Vec<u8>> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

fn remove(path: &Path) -> io::Result<()> {
    gone(fs::remove_file(path))
}

/// What is not there is as good as removed.
fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{CpuRange, MemoryRange};
    use walras_core::units::{Bytes, Millicores};

    fn folder(base: &Path, name: &str) -> Folder {
        let folder = Folder::of(&base.join("state"), &base.join("run"), name);
        folder.make().unwrap();
        folder
    }

    #[test]
    fn what_is_kept_comes_back() {
        let base = tempfile::tempdir().unwrap();
        let folder = folder(base.path(), "db");
        assert!(!folder.exists());
        let one = Bytes::new(1 << 28);
        let memory = MemoryRange { min: one, start: one, max: one };
        let cpus = CpuRange { start: Millicores::new(1000), max: 1 };
        let tags = BTreeMap::from([("revision".to_owned(), "7".to_owned())]);
        let saved = Saved::new(MachineSpec::new("db", cpus, memory), tags);
        folder.save(&saved).unwrap();
        assert_eq!(folder.load().unwrap(), saved);
        assert_eq!(folder.version().unwrap(), 1);
        folder.save_version(7).unwrap();
        assert_eq!(folder.version().unwrap(), 7);
        assert_eq!(folder.starts(), 0);
        let ending = Ending { code: 0, words: "its guest switched it off".to_owned() };
        folder.save_ending(&ending).unwrap();
        assert_eq!(folder.ending(), Some(ending));
        folder.begun().unwrap();
        folder.begun().unwrap();
        assert_eq!((folder.ending(), folder.starts()), (None, 2));
        folder.remove().unwrap();
        assert!(!folder.exists());
        folder.remove().unwrap();
    }

    #[test]
    fn long_names_have_short_sockets_that_differ() {
        let base = Path::new("/run/walras/vm");
        let (one, other) = ("x".repeat(127) + "1", "x".repeat(127) + "2");
        let (one, other) = (Folder::of(base, base, &one), Folder::of(base, base, &other));
        assert_ne!(one.qmp(), other.qmp());
        assert!(one.qmp().as_os_str().len() <= SOCKET_MAX);
        let deep = tempfile::tempdir().unwrap().path().join("d".repeat(120));
        let words = Folder::of(&deep, &deep, "db").make().unwrap_err().to_string();
        assert!(words.contains("too long for a socket"), "{words}");
    }

    #[test]
    fn a_console_is_cut_and_its_end_is_kept() {
        let base = tempfile::tempdir().unwrap();
        let folder = folder(base.path(), "db");
        let qemu = || OpenOptions::new().append(true).create(true).open(folder.console());
        let mut writing = qemu().unwrap();
        writing.write_all(&[b'a'; 100]).unwrap();
        folder.trim_console().unwrap();
        assert_eq!(fs::metadata(folder.console()).unwrap().len(), 100);
        writing.write_all(&vec![b'b'; 1 << 20]).unwrap();
        folder.trim_console().unwrap();
        let (text, end) = folder.console_from(None).unwrap();
        assert_eq!((text.len(), end), (1 << 20, 0));
        writing.write_all(b"next").unwrap();
        assert_eq!(folder.console_from(Some(end)).unwrap(), (b"next".to_vec(), 4));
        assert_eq!(folder.console_from(Some(2)).unwrap(), (b"xt".to_vec(), 4));
        // It was cut since, so that the place is no more.
        assert_eq!(folder.console_from(Some(100)).unwrap(), (b"next".to_vec(), 4));
        assert_eq!(fs::read(folder.console()).unwrap(), b"next");
        assert_eq!(fs::read(folder.older_console()).unwrap(), vec![b'b'; 1 << 20]);
    }
}
