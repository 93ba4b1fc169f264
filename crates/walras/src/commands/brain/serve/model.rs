//! Which model serves: what the flags, a file of settings and the model's own file say, looked at
//! again and again.
//!
//! A model is checked when it is read (its features, its golden vectors, that it gives numbers) and
//! once more when it serves; one that does not pass is taken back. What is wrong is told once.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tracing::{error, info};
use walras_brain::embedded;
use walras_brain::features::{NodeFacts, NodeFeature, Order, PodFacts};
use walras_brain::file::ModelFile;
use walras_brain::train::Kind;
use walras_brain::verdict::{Basis, Scale, Verdict};

use super::super::given;
use super::answer::Serving;
use crate::failure::Failure;

/// What is to serve.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) model: Choice,
    pub(super) scale: Scale,
    pub(super) order: Option<Order>,
}

/// Which model.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Choice {
    /// None: neutral answers.
    None,
    /// One that is built in.
    BuiltIn(Kind),
    /// That of a file.
    File(PathBuf),
}

/// What a file was when it was looked at.
type Stamp = Option<(SystemTime, u64)>;

/// Keeps the model in service up to date.
#[derive(Debug)]
pub(super) struct Models {
    serving: Arc<Serving>,
    /// What the flags say.
    flags: Wanted,
    settings: Option<(PathBuf, Stamp)>,
    /// What holds, and what its file was.
    wanted: Wanted,
    stamp: Stamp,
}

impl Models {
    pub(super) fn new(serving: Arc<Serving>, flags: Wanted, settings: Option<PathBuf>) -> Self {
        let settings = settings.map(|file| (file, None));
        Self { serving, wanted: flags.clone(), flags, settings, stamp: None }
    }

    /// Takes the first model into service.
    ///
    /// # Errors
    /// The settings or the model cannot be used.
    pub(super) fn begin(&mut self) -> Result<(), String> {
        if let Some((file, stamp)) = &mut self.settings {
            *stamp = stamp_of(file);
            self.wanted = read_settings(file, &self.flags)?;
        }
        self.take(self.wanted.clone())
    }

    /// Looks whether something changed. Whether another model serves now.
    pub(super) fn look(&mut self) -> bool {
        let wanted = self.look_at_settings();
        let stamp = wanted.model.stamp();
        if wanted == self.wanted && stamp == self.stamp {
            return false;
        }
        let same_model = wanted.model == self.wanted.model && stamp == self.stamp;
        if same_model {
            self.serving.set_scale(wanted.scale);
            self.wanted = wanted;
            return false;
        }
        // A file that is being replaced is missing for a moment.
        if stamp.is_none() && matches!(wanted.model, Choice::File(_)) && self.stamp.is_some() {
            return false;
        }
        match self.take(wanted) {
            Ok(()) => true,
            Err(words) => {
                self.serving.counts.swap_failed();
                error!("the model in service goes on: {words}");
                false
            }
        }
    }

    fn look_at_settings(&mut self) -> Wanted {
        let Some((file, before)) = &mut self.settings else { return self.wanted.clone() };
        let stamp = stamp_of(file);
        if stamp == *before {
            return self.wanted.clone();
        }
        *before = stamp;
        read_settings(file, &self.flags).unwrap_or_else(|words| {
            error!("the changed settings are refused, and the old ones go on: {words}");
            self.wanted.clone()
        })
    }

    /// Takes over what is wanted. What cannot be used is remembered as looked at, so that it is
    /// told once.
    fn take(&mut self, wanted: Wanted) -> Result<(), String> {
        self.stamp = wanted.model.stamp();
        self.wanted = wanted.clone();
        let file = wanted.model.load(wanted.order)?;
        self.serving.set_scale(wanted.scale);
        let slot = &self.serving.slot;
        slot.swap(file);
        if slot.serving().is_some() && !answers_well(&self.serving) {
            slot.roll_back();
            return Err("the new model does not answer as it should, and was taken back".to_owned());
        }
        info!(model = self.serving.model_version(), "in service");
        Ok(())
    }
}

/// Whether the model in service scores a few nodes by numbers in their ranges.
fn answers_well(serving: &Serving) -> bool {
    let nodes = [0.0, 0.3, 0.7, 1.0].map(|load| {
        let busy = NodeFacts::UNKNOWN.with(NodeFeature::CpuUtilization, load);
        busy.with(NodeFeature::MemoryUtilization, 1.0 - load)
    });
    let mut verdicts = [Verdict::NO_MODEL; 4];
    serving.slot.score(&PodFacts::default(), &nodes, Scale::Absolute, &mut verdicts);
    verdicts.iter().all(|verdict| {
        let in_range =
            (0.0..=100.0).contains(&verdict.score) && (0.0..=1.0).contains(&verdict.confidence);
        verdict.basis == Basis::Model && in_range
    })
}

impl Choice {
    /// What `--model` says, or else which one of those that are built in.
    pub(super) fn of(said: Option<&Path>, kind: Kind) -> Self {
        match said {
            None => Self::BuiltIn(kind),
            Some(path) if path.as_os_str().is_empty() => Self::BuiltIn(kind),
            Some(path) if path == Path::new("none") => Self::None,
            Some(path) if path == Path::new("embedded") => Self::BuiltIn(kind),
            Some(path) => Self::File(path.to_owned()),
        }
    }

    fn stamp(&self) -> Stamp {
        match self {
            Self::None | Self::BuiltIn(_) => None,
            Self::File(path) => stamp_of(path),
        }
    }

    fn load(&self, order: Option<Order>) -> Result<Option<ModelFile>, String> {
        match self {
            Self::None => Ok(None),
            Self::BuiltIn(kind) => Ok(Some(embedded(*kind))),
            Self::File(path) => match given::model(path, order) {
                Ok((file, _)) => Ok(Some(file)),
                Err(Failure::Input(words) | Failure::Machine(words)) => Err(words),
                Err(Failure::Output(error)) => Err(error.to_string()),
                Err(Failure::Interrupted) => Err("it was interrupted".to_owned()),
            },
        }
    }
}

fn stamp_of(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

fn read_settings(file: &Path, flags: &Wanted) -> Result<Wanted, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    settings_in(&text, flags).map_err(|words| format!("{}: {words}", file.display()))
}

/// Settings of lines `key: value`, above what the flags say.
fn settings_in(text: &str, flags: &Wanted) -> Result<Wanted, String> {
    let mut wanted = flags.clone();
    let mut path = None;
    let lines = text.lines().map(str::trim).zip(1..);
    for (line, number) in lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#')) {
        let (key, value) = line
            .split_once(':')
            .map(|(key, value)| (key.trim(), value.trim().trim_matches('"')))
            .ok_or_else(|| format!("line {number} is not `key: value`: {line}"))?;
        match (key, value) {
            ("model", "mlp") => wanted.model = Choice::BuiltIn(Kind::Mlp),
            ("model", "trees") => wanted.model = Choice::BuiltIn(Kind::Trees),
            ("model", "none") => wanted.model = Choice::None,
            ("model", _) => return Err(format!("model: {value} is not mlp, trees or none")),
            ("modelPath", _) => path = Some(PathBuf::from(value)),
            ("scale", "absolute") => wanted.scale = Scale::Absolute,
            ("scale", "batch") => wanted.scale = Scale::Batch,
            ("scale", _) => return Err(format!("scale: {value} is not absolute or batch")),
            _ => return Err(format!("{key}: is not one of model, modelPath, scale")),
        }
    }
    if let Some(path) = path.filter(|path| !path.as_os_str().is_empty()) {
        wanted.model = Choice::File(path);
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: Wanted =
        Wanted { model: Choice::BuiltIn(Kind::Mlp), scale: Scale::Absolute, order: None };

    #[test]
    fn settings_go_before_flags_and_bad_ones_are_named() {
        let read = |text| settings_in(text, &FLAGS);
        assert_eq!(read("# nothing\n"), Ok(FLAGS));
        let both = read("model: trees\nscale: \"batch\"\n").unwrap();
        assert_eq!((both.model, both.scale), (Choice::BuiltIn(Kind::Trees), Scale::Batch));
        let path = read("model: trees\nmodelPath: /m/a.safetensors").unwrap();
        assert_eq!(path.model, Choice::File("/m/a.safetensors".into()));
        assert_eq!(read("model: gpu").unwrap_err(), "model: gpu is not mlp, trees or none");
        assert_eq!(
            read("scales: batch").unwrap_err(),
            "scales: is not one of model, modelPath, scale"
        );
        assert_eq!(read("model").unwrap_err(), "line 1 is not `key: value`: model");
    }

    #[test]
    fn a_model_is_swapped_when_its_file_changes_and_a_broken_one_changes_nothing() {
        let trees: &[u8] =
            include_bytes!("../../../../../brain/testdata/models/xgboost-squarederror.ubj");
        let perceptron: &[u8] =
            include_bytes!("../../../../../brain/testdata/models/perceptron.pt");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        let put = |bytes: &[u8]| {
            let fresh = folder.path().join("fresh");
            fs::write(&fresh, bytes).unwrap();
            fs::rename(&fresh, &path).unwrap();
        };
        put(trees);
        let wanted = Wanted {
            model: Choice::File(path.clone()),
            scale: Scale::Absolute,
            order: Some(Order::Kubeattention),
        };
        let serving = Arc::new(Serving::default());
        let kind = || serving.slot.serving().map(|file| file.model.kind());
        let mut models = Models::new(Arc::clone(&serving), wanted, None);
        models.begin().unwrap();
        assert_eq!(kind(), Some("trees"));
        assert!(!models.look(), "nothing changed");
        put(perceptron);
        assert!(models.look());
        assert_eq!(kind(), Some("mlp"));
        put(&perceptron[..1000]);
        assert!(!models.look() && !models.look());
        assert_eq!(kind(), Some("mlp"));
        assert!(serving.metrics().contains("walras_brain_swap_failures_total 1\n"));
        fs::remove_file(&path).unwrap();
        assert!(!models.look(), "a file that is being replaced is missing for a moment");
        put(trees);
        assert!(models.look());
        assert_eq!(kind(), Some("trees"));
    }
}
