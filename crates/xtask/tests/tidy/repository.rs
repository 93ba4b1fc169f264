//! The repository as data: its files, and complaints about them.
//!
//! Every check is a function from a [`Repository`] to a list of [`Complaint`]s, so that it can be
//! tried on a few lines of text. The real files come from git, new ones included and ignored ones
//! not; where there is no git, from the folder tree.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files by their path from the root, with their text; `None` where that is not UTF-8.
#[derive(Debug, Default)]
pub(crate) struct Repository {
    files: BTreeMap<String, Option<String>>,
}

/// What is wrong where, and what to do about it.
#[derive(Debug)]
pub(crate) struct Complaint {
    path: String,
    line: usize,
    what: String,
}

/// The root of the checkout. Asked at run time, because the compiler may have been run for another
/// checkout that shares the target folder.
pub(crate) fn root() -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "cargo says so in the environment")]
    let manifest = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let root = Path::new(&manifest).ancestors().nth(2).expect("crates/xtask is two levels down");
    root.to_path_buf()
}

/// The complaints as text, one a line.
pub(crate) fn lines(complaints: &[Complaint]) -> String {
    complaints.iter().map(|complaint| format!("{complaint}\n")).collect()
}

/// Files that git tracks or would track, if `root` is the root of a git checkout.
fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let listing = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let listing = String::from_utf8(listing.stdout).ok()?;
    let paths: Vec<_> =
        listing.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    // An unpacked archive inside some other checkout is not what that checkout tracks.
    paths.iter().any(|path| path == "Cargo.toml").then_some(paths)
}

/// Files below `root`, without those that `.gitignore` names.
fn listed_by_walking(root: &Path) -> Vec<String> {
    let ignore = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
    let mut folders = vec![root.to_path_buf()];
    let mut paths = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the checkout can be read").flatten() {
            let path = entry.path();
            let below = path.strip_prefix(root).expect("entries are below the root");
            let below = below.to_string_lossy().into_owned();
            if below == ".git" || ignores(&ignore, &below) {
                continue;
            }
            // A link is not followed: it would be checked twice, or lead outside.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(kind) if kind.is_file() => paths.push(below),
                Ok(_) | Err(_) => {}
            }
        }
    }
    paths
}

/// Whether `ignore`, in the two forms that ours has (`/path` and `*.ending`), names `path`.
fn ignores(ignore: &str, path: &str) -> bool {
    ignore.lines().any(|line| match (line.strip_prefix('/'), line.strip_prefix('*')) {
        (Some(exact), _) => path == exact.trim_end_matches('/'),
        (None, Some(ending)) => path.ends_with(ending),
        (None, None) => false,
    })
}

// === impl Repository ===

impl Repository {
    /// The checkout that this test belongs to.
    pub(crate) fn load() -> Self {
        let root = root();
        let paths = listed_by_git(&root).unwrap_or_else(|| listed_by_walking(&root));
        let read = |path: String| {
            // Git still lists a file that was deleted and not yet committed.
            let bytes = fs::read(root.join(&path)).ok()?;
            Some((path, String::from_utf8(bytes).ok()))
        };
        Self { files: paths.into_iter().filter_map(read).collect() }
    }

    /// A repository made up for a test.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), Some((*text).to_owned()));
        Self { files: files.iter().map(owned).collect() }
    }

    /// All paths, sorted.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// All text files, sorted by path.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Text files that are written by hand: all but inputs that a fuzzer made up.
    pub(crate) fn written(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| !path.starts_with("fuzz/corpus/"))
    }

    /// Text files whose name ends with `ending`.
    pub(crate) fn ending(&self, ending: &str) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(move |(path, _)| path.ends_with(ending))
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Whether there is such a file, or a file below such a folder.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.paths().any(|other| other.starts_with(&folder))
    }
}

// === impl Complaint ===

impl Complaint {
    /// A complaint about `line`, counted from one.
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_can_be_followed_by_an_editor() {
        let complaint = Complaint::new("crates/core/src/lib.rs", 7, "is wrong; put it right");
        assert_eq!(lines(&[complaint]), "crates/core/src/lib.rs:7: is wrong; put it right\n");
    }

    #[test]
    fn folders_exist_as_long_as_they_hold_a_file() {
        let repository = Repository::of(&[("docs/adr/a.md", "")]);
        assert!(repository.has("docs/adr") && repository.has("docs/adr/a.md"));
        assert!(!repository.has("docs/ad") && !repository.has("docs/adr/b.md"));
    }

    #[test]
    fn ignored_paths_are_recognised_without_git() {
        let ignore = "/target\n/fuzz/target\n*.profraw\n";
        for path in ["target", "fuzz/target", "crates/core/x.profraw"] {
            assert!(ignores(ignore, path), "{path}");
        }
        for path in ["crates/target", "fuzz/src", "profraw"] {
            assert!(!ignores(ignore, path), "{path}");
        }
    }

    #[test]
    fn walking_finds_at_least_what_git_lists() {
        let root = root();
        let walked = listed_by_walking(&root);
        for path in listed_by_git(&root).unwrap_or_default() {
            assert!(walked.contains(&path) || !root.join(&path).is_file(), "{path}");
        }
    }
}
