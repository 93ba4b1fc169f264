//! A file of the kernel that is kept open and read from its beginning, again and again.
//!
//! Opening costs more than reading. A file that could not be opened, or that stopped working, is
//! opened anew at the next look: a machine changes while a daemon runs.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::reading::{Seen, Unavailable};

/// No file that is read here is longer; `/proc/stat` of a thousand CPUs has 200 kB.
const LONGEST: usize = 4 << 20;
/// What a buffer has at first.
const AT_FIRST: usize = 16 << 10;
/// What the kernel says where a measurement is switched off.
const NOT_SUPPORTED: i32 = 95;

/// A file, kept open.
#[derive(Debug)]
pub(crate) struct KeptFile {
    path: PathBuf,
    /// How reasons name it.
    what: &'static str,
    file: Option<File>,
}

/// Why something that is read here is not there.
pub(crate) fn reason(error: &io::Error, what: &'static str) -> Unavailable {
    let switched_off = error.raw_os_error() == Some(NOT_SUPPORTED);
    if error.kind() == io::ErrorKind::NotFound || switched_off {
        Unavailable::Absent { what }
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        Unavailable::NotAllowed { what }
    } else {
        Unavailable::Unreadable { what }
    }
}

/// The text of a small file that is read once.
pub(crate) fn text_of(path: &Path, what: &'static str) -> Seen<String> {
    let bytes = std::fs::read(path).map_err(|error| reason(&error, what))?;
    String::from_utf8(bytes).map_err(|_| Unavailable::Unreadable { what })
}

// === impl KeptFile ===

impl KeptFile {
    /// The file at `path`, which is opened when it is first read.
    pub(crate) fn new(path: PathBuf, what: &'static str) -> Self {
        Self { path, what, file: None }
    }

    /// What it holds now, in `buffer`.
    pub(crate) fn read<'a>(&mut self, buffer: &'a mut Vec<u8>) -> Seen<&'a [u8]> {
        let file = match &self.file {
            Some(file) => file,
            None => {
                let file = File::open(&self.path).map_err(|error| reason(&error, self.what))?;
                self.file.insert(file)
            }
        };
        match read_whole(file, buffer) {
            Ok(length) => buffer.get(..length).ok_or(Unavailable::Unreadable { what: self.what }),
            Err(error) => {
                self.file = None;
                Err(reason(&error, self.what))
            }
        }
    }

    /// What `parse` makes of it.
    pub(crate) fn parsed<T>(
        &mut self,
        buffer: &mut Vec<u8>,
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Seen<T> {
        let text = self.read(buffer)?;
        parse(text).ok_or(Unavailable::Unreadable { what: self.what })
    }
}

/// Reads until there is no more. The kernel gives most files in parts of a page.
fn read_whole(file: &File, buffer: &mut Vec<u8>) -> io::Result<usize> {
    if buffer.len() < AT_FIRST {
        buffer.resize(AT_FIRST, 0);
    }
    let mut length = 0;
    loop {
        if length == buffer.len() {
            if length >= LONGEST {
                return Err(io::Error::from(io::ErrorKind::FileTooLarge));
            }
            buffer.resize(length * 2, 0);
        }
        let room = buffer.get_mut(length..).unwrap_or_default();
        let offset = u64::try_from(length).unwrap_or(u64::MAX);
        match file.read_at(room, offset) {
            Ok(0) => return Ok(length),
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_kept_file_tells_what_is_in_it_now_however_long() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut kept = KeptFile::new(path.clone(), "a");
        let mut buffer = Vec::new();
        assert_eq!(kept.read(&mut buffer), Err(Unavailable::Absent { what: "a" }));
        for length in [0, 5, AT_FIRST, 3 * AT_FIRST, 7] {
            fs::write(&path, vec![b'x'; length]).unwrap();
            assert_eq!(kept.read(&mut buffer).unwrap().len(), length);
        }
        fs::write(&path, vec![b'x'; LONGEST + 1]).unwrap();
        assert_eq!(kept.read(&mut buffer), Err(Unavailable::Unreadable { what: "a" }));
        let folder = KeptFile::new(folder.path().to_path_buf(), "b").read(&mut buffer);
        assert_eq!(folder, Err(Unavailable::Unreadable { what: "b" }));
    }

    #[test]
    fn reasons_follow_what_the_kernel_says() {
        let of = |errno| reason(&io::Error::from_raw_os_error(errno), "x");
        assert_eq!(of(2), Unavailable::Absent { what: "x" });
        assert_eq!(of(13), Unavailable::NotAllowed { what: "x" });
        assert_eq!(of(NOT_SUPPORTED), Unavailable::Absent { what: "x" });
        assert_eq!(of(5), Unavailable::Unreadable { what: "x" });
    }
}
