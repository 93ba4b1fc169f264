//! Where a report or a model goes: a file that is there as a whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The file that a report or a model is written to.
#[derive(Debug)]
pub(crate) struct Target {
    path: PathBuf,
    /// Next to it, so that it can be renamed in one step.
    unfinished: PathBuf,
}

impl Target {
    /// Refuses a path that no file can be written to.
    pub(crate) fn new(path: &Path) -> Result<Self, Failure> {
        let refused = |what: &str| Failure::Input(format!("{}: {what}", path.display()));
        if path.is_dir() {
            return Err(refused("is a folder; give the name of a file"));
        }
        let Some(name) = path.file_name() else {
            return Err(refused("is not the name of a file"));
        };
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            Some(_) | None => Path::new("."),
        };
        if !folder.is_dir() {
            return Err(refused(&format!("there is no folder {}", folder.display())));
        }
        let mut unfinished = std::ffi::OsString::from(".");
        unfinished.push(name);
        unfinished.push(format!(".{}.unfinished", std::process::id()));
        Ok(Self { path: path.to_owned(), unfinished: folder.join(unfinished) })
    }

    /// Writes the whole page, or leaves what was there before.
    pub(crate) fn write(&self, page: &str) -> Result<(), Failure> {
        self.write_bytes(page.as_bytes())
    }

    /// Writes all of it, or leaves what was there before.
    pub(crate) fn write_bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let written =
            self.write_aside(bytes).and_then(|()| fs::rename(&self.unfinished, &self.path));
        written.map_err(|error| {
            // There may be nothing to remove, and the first error is the one to be told.
            fs::remove_file(&self.unfinished).ok();
            let message = format!("{}: {error}", self.path.display());
            Failure::Output(io::Error::new(error.kind(), message))
        })
    }

    fn write_aside(&self, bytes: &[u8]) -> io::Result<()> {
        let mut file = File::create_new(&self.unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_in(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn a_page_replaces_the_one_before_and_leaves_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        for text in ["one", "another"] {
            Target::new(&path).unwrap().write(text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(names_in(folder.path()), ["page.html"]);
    }

    #[test]
    fn a_page_that_cannot_be_put_in_place_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        let target = Target::new(&path).unwrap();
        // A folder that came into being while the simulation ran.
        fs::create_dir_all(path.join("inside")).unwrap();
        let Err(Failure::Output(error)) = target.write("text") else {
            panic!("a folder cannot be replaced");
        };
        assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
        assert_eq!(names_in(folder.path()), ["page.html"]);
    }

    #[test]
    fn folders_are_refused_and_missing_ones_too() {
        let folder = tempfile::tempdir().unwrap();
        let told = |path: &Path| match Target::new(path) {
            Err(Failure::Input(message)) => message,
            other => panic!("{other:?}"),
        };
        assert!(told(folder.path()).ends_with("is a folder; give the name of a file"));
        assert!(
            told(&folder.path().join("no/page.html")).contains("page.html: there is no folder ")
        );
    }
}
