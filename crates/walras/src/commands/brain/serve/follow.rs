//! Follows what became of pods, and sets a model aside that does worse than none.
//!
//! Reads what was appended to the files of events since the last look, whole lines only. What the
//! model says of the chosen node is computed from what that node measured at the placement.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use tracing::{info, warn};
use walras_brain::drift::{Drift, DriftSettings, Standing};
use walras_brain::events::{Event, read_line};
use walras_brain::file::ModelFile;
use walras_brain::label::LabelSettings;
use walras_brain::verdict::Verdict;

use super::answer::Serving;

/// So much of a file is read at one look; the rest waits for the next.
const READ_MAX: u64 = 4 << 20;
/// So many files are remembered, of which most are gone: a collector keeps about ten.
const KNOWN_MAX: usize = 64;

/// Follows a folder of events.
#[derive(Debug)]
pub(super) struct Follower {
    folder: PathBuf,
    /// How much of each file was read, by its device and number: a file that is full gets another
    /// name, and is no other file for that.
    read: BTreeMap<(u64, u64), u64>,
    drift: Drift,
    /// Events that were placed before are about the past.
    from_ms: i64,
    told: Option<String>,
}

impl Follower {
    pub(super) fn new(folder: PathBuf, now_ms: i64) -> Self {
        let settings = DriftSettings::USUAL;
        let drift = Drift::new(settings);
        let from_ms = now_ms - settings.window_ms;
        Self { folder, read: BTreeMap::new(), drift, from_ms, told: None }
    }

    /// Another model serves now.
    pub(super) fn model_changed(&mut self) {
        self.drift.model_changed();
    }

    /// Takes in what is new, judges, and acts on it.
    pub(super) fn look(&mut self, serving: &Serving, now_ms: i64) {
        let lines = match self.new_lines() {
            Ok(lines) => {
                self.told = None;
                lines
            }
            Err(words) => {
                if self.told.as_deref() != Some(&words) {
                    warn!("what became of pods cannot be followed: {words}");
                    self.told = Some(words);
                }
                Vec::new()
            }
        };
        let Some(file) = serving.slot.serving() else { return };
        let labels = file.about.trained.as_ref().map(|trained| trained.settings.labels.clone());
        let labels = labels.unwrap_or_default();
        for line in lines {
            if let Ok(event) = read_line(&line) {
                self.take(&file, &labels, &event, now_ms);
            }
        }
        let was_aside = serving.slot.is_aside();
        let aside = self.drift.tick(now_ms) != Standing::Serves;
        serving.set_errors(self.drift.errors());
        if aside != was_aside {
            serving.slot.set_aside(aside);
            let errors = self.drift.errors();
            let (model, neutral) =
                errors.map(|errors| (errors.model, errors.neutral)).unwrap_or_default();
            if aside {
                warn!(
                    "the model is set aside, and answers are neutral: its scores are off by \
                     {model:.1} points, and 50 for everybody would be off by {neutral:.1}"
                );
            } else {
                info!("the model serves again: {model:.1} points off, neutral {neutral:.1}");
            }
        }
    }

    fn take(&mut self, file: &ModelFile, labels: &LabelSettings, event: &Event, now_ms: i64) {
        let Some(node) = event.nodes.get(&event.chosen) else { return };
        let Some(label) = labels.of_chosen(node, event.outcome) else { return };
        if event.time_ms < self.from_ms {
            return;
        }
        let mut verdict = [Verdict::NO_MODEL];
        file.model.score(&event.pod, std::slice::from_ref(node), &mut verdict);
        let window_ms = i64::from(labels.outcome_window_s) * 1000;
        let at_ms = event.time_ms.saturating_add(window_ms).min(now_ms);
        self.drift.outcome_seen(at_ms, verdict[0].score, label);
    }

    /// The whole lines that were appended since the last look.
    fn new_lines(&mut self) -> Result<Vec<Vec<u8>>, String> {
        let place = self.folder.display().to_string();
        let words = |error: std::io::Error| format!("{place}: {error}");
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(words)? {
            let path = entry.map_err(words)?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with("events") && name.ends_with(".jsonl") {
                files.push(path);
            }
        }
        files.sort();
        let mut present = BTreeSet::new();
        let mut lines = Vec::new();
        for path in files {
            let mut file = match File::open(&path) {
                Ok(file) => file,
                // It was full or old, and got another name or went, since the folder was read.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(words(error)),
            };
            let about = file.metadata().map_err(words)?;
            let number = (about.dev(), about.ino());
            present.insert(number);
            let done = self.read.entry(number).or_default();
            if about.len() < *done {
                // It was begun anew.
                *done = 0;
            }
            file.seek(SeekFrom::Start(*done)).map_err(words)?;
            let mut bytes = Vec::new();
            file.take(READ_MAX).read_to_end(&mut bytes).map_err(words)?;
            let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            *done += u64::try_from(whole).unwrap_or_default();
            let found = bytes[..whole].split(|byte| *byte == b'\n');
            lines.extend(found.filter(|line| !line.is_empty()).map(<[u8]>::to_vec));
        }
        // Not at once: a file that got its other name just now was not seen by either.
        if self.read.len() > KNOWN_MAX {
            self.read.retain(|number, _| present.contains(number));
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use walras_brain::features::Order;
    use walras_brain::file;
    use walras_brain::verdict::Basis;

    /// Outcomes every minute from `from_ms` on, for a pod that runs or is evicted.
    fn outcomes(from_ms: i64, minutes: i64, outcome: &str) -> String {
        (0..minutes)
            .map(|minute| {
                let at_ms = from_ms + minute * 60_000;
                format!(
                    "{{\"timestamp\":{at_ms},\"event_id\":\"{at_ms}\",\"chosen_node\":\"a\",\
                     \"outcome\":\"{outcome}\",\"node_telemetry\":{{\"a\":\
                     {{\"cpu_utilization\":0.1,\"memory_utilization\":0.1}}}}}}\n"
                )
            })
            .collect()
    }

    #[test]
    fn a_model_whose_pods_fail_is_set_aside_and_half_a_line_waits() {
        let bytes: &[u8] = include_bytes!("../../../../../brain/testdata/models/perceptron.pt");
        let serving = Serving::default();
        serving.slot.swap(Some(file::read(bytes, Some(Order::Kubeattention)).unwrap()));
        // What this model says of an idle node, and so which outcome proves it wrong.
        let event = read_line(outcomes(1_800_000_000_000, 1, "running").trim().as_bytes()).unwrap();
        let mut verdict = [Verdict::NO_MODEL];
        let model = serving.slot.serving().unwrap();
        model.model.score(&event.pod, &[event.nodes["a"]], &mut verdict);
        let bad = if verdict[0].score > 50.0 { "evicted" } else { "running" };
        let folder = tempfile::tempdir().unwrap();
        let start_ms: i64 = 1_800_000_000_000;
        let mut follower = Follower::new(folder.path().to_owned(), start_ms);
        let mut file = File::create(folder.path().join("events.jsonl")).unwrap();
        let text = outcomes(start_ms, 90, bad);
        let (most, half) = text.split_at(text.len() - 40);
        file.write_all(most.as_bytes()).unwrap();
        for minute in 0..91 {
            follower.look(&serving, start_ms + minute * 60_000 + 300_000);
        }
        assert!(serving.slot.is_aside(), "{}", serving.metrics());
        assert_eq!(follower.read.values().next(), Some(&(most.rfind('\n').unwrap() as u64 + 1)));
        let mut verdicts = [Verdict::NO_MODEL];
        serving.slot.score(&event.pod, &[event.nodes["a"]], Default::default(), &mut verdicts);
        assert_eq!(verdicts[0].basis, Basis::SetAside);
        file.write_all(half.as_bytes()).unwrap();
        assert_eq!(follower.new_lines().unwrap().len(), 1);
    }

    #[test]
    fn a_file_that_is_full_and_gets_another_name_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut follower = Follower::new(folder.path().to_owned(), 0);
        let events = folder.path().join("events.jsonl");
        fs::write(&events, outcomes(0, 3, "running")).unwrap();
        assert_eq!(follower.new_lines().unwrap().len(), 3);
        fs::rename(&events, folder.path().join("events-000000000000001.jsonl")).unwrap();
        fs::write(&events, outcomes(1_000_000, 2, "running")).unwrap();
        assert_eq!(follower.new_lines().unwrap().len(), 2);
        assert!(follower.new_lines().unwrap().is_empty());
    }
}
