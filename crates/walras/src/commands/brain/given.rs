//! The files that `walras brain` is given: events, and models.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use walras_brain::data::Rows;
use walras_brain::events::{self, Event, LineError};
use walras_brain::features::Order;
use walras_brain::file::{self, ModelFile};
use walras_brain::label::LabelSettings;
use walras_brain::train::Kind;
use walras_brain::{embedded, embedded_bytes, sha256};
use walras_sim::place::teach;

use crate::commands::sim::threads_of;
use crate::failure::Failure;

/// Events of one or more files, one after the other.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) events: Vec<Event>,
    /// Lines that are no events, with the file and the line.
    pub(super) bad: Vec<(String, LineError)>,
    pub(super) pending: usize,
    pub(super) replaced: usize,
    /// The sum of all bytes, one file after the other.
    pub(super) sha256: String,
}

impl Given {
    pub(super) fn read(paths: &[PathBuf]) -> Result<Self, Failure> {
        let mut bytes: Vec<u8> = Vec::new();
        let mut joined: Vec<u8> = Vec::new();
        // The first line of each file among all lines.
        let mut starts: Vec<(usize, &PathBuf)> = Vec::new();
        for path in paths {
            let file = fs::read(path).map_err(|error| refused(path, &error))?;
            starts.push((joined.iter().filter(|byte| **byte == b'\n').count() + 1, path));
            bytes.extend(&file);
            joined.extend(&file);
            if joined.last().is_some_and(|last| *last != b'\n') {
                joined.push(b'\n');
            }
        }
        Self::of(&bytes, &joined, &starts)
    }

    /// What becomes of pods in the simulator, by the lesson of the models that are built in.
    pub(super) fn simulated() -> Result<Self, Failure> {
        let events = teach::events(&teach::SHIPPED, threads_of(None));
        let bytes = events::written(&events).into_bytes();
        Self::of(&bytes, &bytes, &[(1, &PathBuf::from("simulated"))])
    }

    fn of(bytes: &[u8], joined: &[u8], starts: &[(usize, &PathBuf)]) -> Result<Self, Failure> {
        let read = events::read(joined);
        let place = |line: usize| {
            let file = starts.partition_point(|(start, _)| *start <= line);
            let (start, path) = starts[file.saturating_sub(1)];
            format!("{}:{}", path.display(), line - start + 1)
        };
        let bad: Vec<(String, LineError)> =
            read.bad.into_iter().map(|(line, error)| (place(line), error)).collect();
        if let Some((place, error)) = bad.first()
            && bad.len() > read.events.len() + read.pending
        {
            let message =
                format!("{} lines are no events; the first is {place}: {error}", bad.len());
            return Err(Failure::Input(message));
        }
        Ok(Self {
            events: read.events,
            bad,
            pending: read.pending,
            replaced: read.replaced,
            sha256: sha256(bytes),
        })
    }

    pub(super) fn rows(&self, settings: &LabelSettings) -> Rows {
        Rows::of(&self.events, settings)
    }

    /// What was left out, for people; empty where nothing was.
    pub(super) fn left_out(&self) -> Vec<String> {
        let mut told = Vec::new();
        for (place, error) in self.bad.iter().take(3) {
            told.push(format!("left out: {place}: {error}"));
        }
        if self.bad.len() > 3 {
            told.push(format!("left out: {} more lines that are no events", self.bad.len() - 3));
        }
        if self.pending > 0 {
            told.push(format!("left out: {} events without an outcome so far", self.pending));
        }
        if self.replaced > 0 {
            told.push(format!("left out: {} lines with a younger one of their id", self.replaced));
        }
        told
    }

    /// What was left out, for programs.
    pub(super) fn left_out_json(&self) -> Value {
        let bad = self.bad.iter();
        let bad: Vec<Value> =
            bad.map(|(place, error)| json!({"at": place, "error": error.to_string()})).collect();
        json!({"bad_lines": bad, "pending": self.pending, "replaced": self.replaced})
    }
}

/// Reads a model of any kind, or takes one that is built in.
pub(super) fn model(path: &Path, order: Option<Order>) -> Result<(ModelFile, usize), Failure> {
    if let Some(kind) = built_in(path) {
        return Ok((embedded(kind), embedded_bytes(kind).len()));
    }
    let bytes = fs::read(path).map_err(|error| refused(path, &error))?;
    let read = file::read(&bytes, order);
    let read = read.map_err(|error| {
        let hint = if error == file::FileError::NoOrder { " with --feature-order" } else { "" };
        Failure::Input(format!("{}: {error}{hint}", path.display()))
    })?;
    Ok((read, bytes.len()))
}

/// The kind of model that a name stands for.
fn built_in(path: &Path) -> Option<Kind> {
    match path.to_str()? {
        "embedded" => Some(Kind::Mlp),
        "embedded-trees" => Some(Kind::Trees),
        _ => None,
    }
}

fn refused(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Input(format!("{}: {error}", path.display()))
}
