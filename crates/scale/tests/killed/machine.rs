//! A machine that is the last line about it in a log: what it has, and a version that grows with
//! every change. All machines share the log and a lock, so there is one order of all changes.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use futures_util::future::BoxFuture;
use walras_core::units::{Bytes, Millicores, Resources};
use walras_core::vm::Seen;
use walras_scale::agent::Machine;

/// What machines are sized in.
pub(crate) const UNIT_MILLI: u64 = 250;

pub(crate) fn units(count: u64) -> Resources {
    Resources::new(Millicores::new(count * UNIT_MILLI), Bytes::new(count << 30))
}

pub(crate) struct FileMachine {
    folder: PathBuf,
    name: String,
}

impl FileMachine {
    pub(crate) fn new(folder: &Path, name: &str) -> Self {
        Self { folder: folder.to_owned(), name: name.to_owned() }
    }

    /// A machine of so many units.
    pub(crate) fn create(&self, count: u64) {
        self.write(Seen { using: units(count), version: 1 });
    }

    pub(crate) fn seen(&self) -> Seen {
        let log = fs::read_to_string(self.folder.join("log")).expect("a log");
        let of_us = |line: &&str| line.split(' ').next() == Some(self.name.as_str());
        let last = log.lines().rev().find(of_us).expect("the machine is there");
        let numbers = last.split(' ').skip(1).map(|word| word.parse::<u64>().expect("a number"));
        let numbers: Vec<u64> = numbers.collect();
        let using = Resources::new(Millicores::new(numbers[0]), Bytes::new(numbers[1]));
        Seen { using, version: numbers[2] }
    }

    fn change(&self, to: Resources, version: u64) -> Result<Seen, String> {
        let lock = File::create(self.folder.join("lock")).expect("a lock");
        lock.lock().expect("it can be locked");
        let seen = self.seen();
        if seen.version != version {
            return Err(format!("version {} and not {version}", seen.version));
        }
        let changed = Seen { using: to, version: version + 1 };
        self.write(changed);
        Ok(changed)
    }

    /// One line is all there is to a change: it is there or not, whoever is killed.
    fn write(&self, seen: Seen) {
        let Seen { using, version } = seen;
        let log = OpenOptions::new().create(true).append(true).open(self.folder.join("log"));
        let line = format!("{} {} {} {version}\n", self.name, using.cpu.get(), using.memory.get());
        log.expect("a log").write_all(line.as_bytes()).expect("it is written");
    }
}

impl Machine for FileMachine {
    fn observe(&self) -> BoxFuture<'_, Result<Seen, String>> {
        Box::pin(async move { Ok(self.seen()) })
    }

    fn resize(&self, to: Resources, version: u64) -> BoxFuture<'_, Result<Seen, String>> {
        Box::pin(async move { self.change(to, version) })
    }
}
