//! Which disks and interfaces are the machine's own.
//!
//! What sits on top of another device would count everything twice: partitions, loops, mappings,
//! bridges and the ends of tunnels. A device of the machine has a link called `device`. Where there
//! is none at all, as in some containers, everything counts that is not known to be made of memory.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use walras_core::units::{Moment, Span};

/// What is plugged in is looked for this often.
const LOOK_EVERY: Span = Span::from_ms(30_000);
/// Beginnings of names of what is no device.
const UNREAL: [&[u8]; 5] = [b"loop", b"ram", b"zram", b"lo", b"ifb"];

/// The names of devices of one kind.
#[derive(Debug)]
pub(crate) struct Devices {
    names: BTreeSet<Vec<u8>>,
    /// Whether the user named them.
    fixed: bool,
    looked_at: Option<Moment>,
}

// === impl Devices ===

impl Devices {
    /// Those that the user named, or those that are found.
    pub(crate) fn new(named: Option<&BTreeSet<String>>) -> Self {
        let names = named.into_iter().flatten().map(|name| name.as_bytes().to_vec()).collect();
        Self { names, fixed: named.is_some(), looked_at: None }
    }

    /// Looks into `folder`, unless that was done a moment ago or need not be done.
    pub(crate) fn look(&mut self, folder: &Path, now: Moment) {
        let due = self.looked_at.is_none_or(|at| now.since(at) >= LOOK_EVERY);
        if self.fixed || !due {
            return;
        }
        self.looked_at = Some(now);
        let names = |real: bool| -> BTreeSet<Vec<u8>> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let wanted = entries.filter(|entry| !real || entry.path().join("device").exists());
            wanted.map(|entry| entry.file_name().as_bytes().to_vec()).collect()
        };
        self.names = names(true);
        if self.names.is_empty() {
            self.names = names(false);
            self.names.retain(|name| !UNREAL.iter().any(|unreal| name.starts_with(unreal)));
        }
    }

    /// Whether a device is one of them.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.names.contains(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(make: &[&str]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        make.iter().for_each(|name| fs::create_dir_all(folder.path().join(name)).unwrap());
        let mut devices = Devices::new(None);
        devices.look(folder.path(), Moment::ORIGIN);
        devices.names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }

    #[test]
    fn what_is_on_top_of_something_does_not_count() {
        assert_eq!(found(&["vda/device", "loop0", "dm-0", "zram0"]), ["vda"]);
        assert_eq!(found(&["eth0/device", "veth1", "lo", "docker0"]), ["eth0"]);
        assert_eq!(found(&["loop0", "dm-0", "zram0", "ram1", "lo"]), ["dm-0"]);
        assert_eq!(found(&[]), Vec::<String>::new());
    }

    #[test]
    fn what_the_user_named_is_taken_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("vda/device")).unwrap();
        let named = ["vdb".to_owned()].into();
        let mut devices = Devices::new(Some(&named));
        devices.look(folder.path(), Moment::ORIGIN);
        assert!(devices.has(b"vdb") && !devices.has(b"vda"));
    }
}
