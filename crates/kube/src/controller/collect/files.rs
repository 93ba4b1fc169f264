//! The files of the collector: events, which training reads, and placements that are still open.
//!
//! `events.jsonl` grows by whole lines; when it is large enough it becomes `events-TIME.jsonl`, and
//! the oldest of those goes when there are too many. `open.jsonl` has what would be lost by a
//! crash, and is written anew now and then. A line that a crash cut off is taken away at the next
//! start, before anything is appended behind it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use walras_brain::collect::Record;

const EVENTS: &str = "events.jsonl";
const OPEN: &str = "open.jsonl";
const FRESH: &str = "open.jsonl.fresh";
/// The whole size is split into so many files.
const PARTS: u64 = 8;
/// Placements are written anew when their file has so many bytes, or all of them twice that.
const OPEN_BYTES: u64 = 1 << 20;

/// The collector's files, open for appending.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    events: File,
    events_bytes: u64,
    open: File,
    open_bytes: u64,
    /// The size of `open.jsonl` when it was last written anew.
    open_anew_bytes: u64,
    part_bytes: u64,
}

/// What an earlier collector left.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Placements that were open at some time.
    pub(super) open: Vec<Record>,
    /// The uids of pods whose events are there.
    pub(super) settled: Vec<String>,
    /// Bytes of lines that were cut off.
    pub(super) cut_bytes: u64,
}

/// What is read of an event: of which pod it is.
#[derive(Deserialize)]
struct Id {
    event_id: String,
}

impl Files {
    /// Opens the files in `folder`, whose events may have `max_bytes` together, and says what is in
    /// them.
    pub(super) fn open(folder: &Path, max_bytes: u64) -> io::Result<(Self, Left)> {
        fs::create_dir_all(folder)?;
        let mut left = Left::default();
        for path in parts(folder)? {
            left.settled.extend(ids(&fs::read(&path)?));
        }
        let (events, text) = appended(&folder.join(EVENTS), &mut left.cut_bytes)?;
        left.settled.extend(ids(&text));
        let events_bytes = length(&text);
        let (open, text) = appended(&folder.join(OPEN), &mut left.cut_bytes)?;
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        left.open = lines.filter_map(|line| Record::read(line).ok()).collect();
        let files = Self {
            folder: folder.to_owned(),
            events,
            events_bytes,
            open,
            open_bytes: length(&text),
            open_anew_bytes: 0,
            part_bytes: (max_bytes / PARTS).max(1),
        };
        Ok((files, left))
    }

    /// Writes down a placement, in one call to the system.
    pub(super) fn opened(&mut self, record: &Record) -> io::Result<()> {
        let line = record.line() + "\n";
        self.open.write_all(line.as_bytes())?;
        self.open_bytes += length(line.as_bytes());
        Ok(())
    }

    /// Writes down an event, in one call to the system.
    pub(super) fn settled(&mut self, record: &Record, now_ms: i64) -> io::Result<()> {
        let line = record.line() + "\n";
        if self.events_bytes > 0 && self.events_bytes + length(line.as_bytes()) > self.part_bytes {
            self.rotate(now_ms)?;
        }
        self.events.write_all(line.as_bytes())?;
        self.events_bytes += length(line.as_bytes());
        Ok(())
    }

    /// Whether placements should be written anew.
    pub(super) const fn is_open_long(&self) -> bool {
        self.open_bytes > OPEN_BYTES && self.open_bytes > 2 * self.open_anew_bytes
    }

    /// Writes placements anew: the old file is there until the new one is whole.
    pub(super) fn rewrite<'a>(
        &mut self,
        records: impl Iterator<Item = &'a Record>,
    ) -> io::Result<()> {
        let fresh = self.folder.join(FRESH);
        let mut text = String::new();
        for record in records {
            text += &record.line();
            text.push('\n');
        }
        let mut file = File::create(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, self.folder.join(OPEN))?;
        self.open = OpenOptions::new().append(true).open(self.folder.join(OPEN))?;
        self.open_bytes = length(text.as_bytes());
        self.open_anew_bytes = self.open_bytes;
        Ok(())
    }

    fn rotate(&mut self, now_ms: i64) -> io::Result<()> {
        // Two rotations of one millisecond would overwrite each other.
        let mut name = now_ms.max(0);
        let path = loop {
            let path = self.folder.join(format!("events-{name:015}.jsonl"));
            if !path.exists() {
                break path;
            }
            name += 1;
        };
        fs::rename(self.folder.join(EVENTS), path)?;
        let mut unused = 0;
        (self.events, _) = appended(&self.folder.join(EVENTS), &mut unused)?;
        self.events_bytes = 0;
        let parts = parts(&self.folder)?;
        let keep = usize::try_from(PARTS - 1).unwrap_or(usize::MAX);
        for old in parts.iter().take(parts.len().saturating_sub(keep)) {
            fs::remove_file(old)?;
        }
        Ok(())
    }
}

/// The files that are full, the oldest first.
fn parts(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("events-") && name.ends_with(".jsonl") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A file to append to, and its text; what is behind its last whole line is taken away.
fn appended(path: &Path, cut_bytes: &mut u64) -> io::Result<(File, Vec<u8>)> {
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    let mut text = fs::read(path)?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if whole < text.len() {
        *cut_bytes += length(&text) - length(&text[..whole]);
        text.truncate(whole);
        file.set_len(length(&text))?;
    }
    Ok((file, text))
}

fn ids(text: &[u8]) -> Vec<String> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let read = lines.filter_map(|line| serde_json::from_slice::<Id>(line).ok());
    read.map(|id| id.event_id).collect()
}

fn length(text: &[u8]) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use walras_brain::collect::Placed;
    use walras_brain::events::{self, Outcome};

    fn record(uid: &str) -> Record {
        let placed = Placed {
            uid: uid.to_owned(),
            name: "web".to_owned(),
            namespace: "shop".to_owned(),
            labels: BTreeMap::new(),
            cpu_milli: 1,
            memory_bytes: 2,
            workload_type: None,
            criticality: None,
            node: "a".to_owned(),
            scheduler: "default-scheduler".to_owned(),
            bound_ms: 1_763_368_200_000,
        };
        let nodes = BTreeMap::from([(
            "a".to_owned(),
            BTreeMap::from([("cpu_utilization".to_owned(), 0.5)]),
        )]);
        Record::opened(placed, nodes)
    }

    fn event(uid: &str) -> Record {
        record(uid).settled(Outcome::Running, 1_763_368_500_000)
    }

    #[test]
    fn a_line_that_was_cut_off_anywhere_is_taken_away_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (mut files, _) = Files::open(folder.path(), 1 << 20).unwrap();
        for uid in ["one", "two"] {
            files.opened(&record(uid)).unwrap();
            files.settled(&event(uid), 0).unwrap();
        }
        drop(files);
        let path = folder.path().join(EVENTS);
        let whole = fs::read(&path).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        // However much of the last line a crash left.
        for kept in (first..whole.len()).step_by(37) {
            fs::write(&path, &whole[..kept]).unwrap();
            let (mut files, left) = Files::open(folder.path(), 1 << 20).unwrap();
            assert_eq!(left.settled, ["one"], "{kept} bytes");
            assert_eq!(left.cut_bytes, length(&whole[first..kept]));
            assert_eq!(left.open.len(), 2);
            files.settled(&event("two"), 0).unwrap();
            assert_eq!(fs::read(&path).unwrap(), whole, "{kept} bytes");
            let read = events::read(&fs::read(&path).unwrap());
            assert_eq!((read.events.len(), read.bad.len()), (2, 0));
        }
    }

    #[test]
    fn files_are_full_at_some_time_and_never_more_than_they_may_be() {
        let folder = tempfile::tempdir().unwrap();
        let line = length((event("p-0000").line() + "\n").as_bytes());
        let max = line * 3 * PARTS;
        let (mut files, _) = Files::open(folder.path(), max).unwrap();
        for number in 0..100_i64 {
            files.settled(&event(&format!("p-{number:04}")), number).unwrap();
            let sizes = fs::read_dir(folder.path()).unwrap();
            let sizes = sizes.map(|entry| entry.unwrap().metadata().unwrap().len());
            assert!(sizes.sum::<u64>() <= max, "after {number}");
        }
        let (_, left) = Files::open(folder.path(), max).unwrap();
        assert!(left.settled.len() > 20 && left.settled.is_sorted(), "{:?}", left.settled);
        assert_eq!(left.settled.last().map(String::as_str), Some("p-0099"), "the oldest go");
    }

    #[test]
    fn placements_are_written_anew_without_those_that_are_settled() {
        let folder = tempfile::tempdir().unwrap();
        let (mut files, _) = Files::open(folder.path(), 1 << 20).unwrap();
        let (one, two) = (record("one"), record("two"));
        files.opened(&one).unwrap();
        files.opened(&two).unwrap();
        files.rewrite([&two].into_iter()).unwrap();
        files.opened(&one).unwrap();
        let (_, left) = Files::open(folder.path(), 1 << 20).unwrap();
        assert_eq!(left.open, [two, one]);
    }
}
