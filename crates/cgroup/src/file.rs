//! One control group in one hierarchy, as an open folder, and what is read from and written to it.
//!
//! Everything is reached from the open folder, so that all of it is of the same group even if the
//! group is removed and made again meanwhile. No link is followed. A file is read with one call
//! into a buffer of fixed size, and nothing is allocated unless something fails.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use walras_core::parse::ParseError;

use crate::error::CgroupError;
use crate::path::CgroupPath;
use crate::retry::{Failed, retry};

/// No file that is read here is longer. The longest, `cpu.stat`, has about 400 bytes.
pub(crate) const BUFFER_BYTES: usize = 1024;

/// Every control group of either version has this file.
const ALWAYS_THERE: &str = "cgroup.procs";
/// How errors name the group itself.
const ITSELF: &str = ".";

/// A control group in one hierarchy.
#[derive(Debug)]
pub(crate) struct Folder {
    fd: OwnedFd,
    path: CgroupPath,
}

/// A file of a control group that is kept open for reading.
#[derive(Debug)]
pub(crate) struct Kept {
    fd: OwnedFd,
    name: &'static str,
}

/// What the kernel said when something failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) errno: Errno,
    pub(crate) file: &'static str,
}

/// Why a file could not be read as what it should be.
#[derive(Debug)]
pub(crate) enum ReadFault {
    Kernel(Fault),
    TooLong { file: &'static str },
    Text(ParseError),
}

// === impl Folder ===

impl Folder {
    /// Opens the group `path` below `root`.
    pub(crate) fn open(root: &Path, path: &CgroupPath) -> Result<Self, CgroupError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fault = |errno| Fault { errno, file: ITSELF }.of(path);
        let open = |at: &OwnedFd, name: &[u8]| {
            retry(|| {
                passing_or_not(rustix::fs::openat(
                    at,
                    name,
                    flags | OFlags::NOFOLLOW,
                    Mode::empty(),
                ))
            })
        };
        let top = retry(|| passing_or_not(rustix::fs::openat(CWD, root, flags, Mode::empty())));
        // One name at a time, because only the last one of a path can be kept from being a link.
        let fd = path.names().try_fold(top.map_err(fault)?, |at, name| open(&at, name));
        Ok(Self { fd: fd.map_err(fault)?, path: path.clone() })
    }

    /// The group.
    pub(crate) fn path(&self) -> &CgroupPath {
        &self.path
    }

    /// The open folder.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The number of the group, which no other group of the same boot ever has.
    pub(crate) fn inode(&self) -> Result<u64, CgroupError> {
        let stat = rustix::fs::fstat(&self.fd);
        stat.map(|stat| stat.st_ino).map_err(|errno| self.fault(errno, ITSELF))
    }

    /// Opens a file for reading; nothing if the group has no such file.
    pub(crate) fn keep_open(&self, name: &'static str) -> Result<Option<Kept>, CgroupError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let open = || passing_or_not(rustix::fs::openat(&self.fd, name, flags, Mode::empty()));
        match retry(open) {
            Ok(fd) => Ok(Some(Kept { fd, name })),
            Err(Errno::NOENT) if self.is_there() => Ok(None),
            Err(errno) => Err(self.fault(errno, name)),
        }
    }

    /// Reads a file once; nothing if the group has no such file.
    pub(crate) fn read<T>(
        &self,
        name: &'static str,
        parse: impl Fn(&[u8]) -> Result<T, ParseError>,
    ) -> Result<Option<T>, CgroupError> {
        let Some(file) = self.keep_open(name)? else { return Ok(None) };
        let value = retry(|| file.read(&parse));
        value.map(Some).map_err(|fault| fault.of(&self.path))
    }

    /// Whether there is anything in a file; not if the group has no such file.
    pub(crate) fn has_content(&self, name: &'static str) -> Result<bool, CgroupError> {
        let Some(file) = self.keep_open(name)? else { return Ok(false) };
        // One byte is enough, however many there are.
        let read = retry(|| passing_or_not(rustix::io::pread(&file.fd, &mut [0; 1], 0)));
        read.map(|length| length > 0).map_err(|errno| self.fault(errno, name))
    }

    /// Writes a value.
    pub(crate) fn write(&self, name: &'static str, value: &str) -> Result<(), CgroupError> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::TRUNC;
        let written = retry(|| {
            passing_or_not(
                rustix::fs::openat(&self.fd, name, flags, Mode::empty())
                    .and_then(|fd| rustix::io::write(fd, value.as_bytes())),
            )
        });
        match written {
            Ok(_) => Ok(()),
            Err(Errno::NOENT) if self.is_there() => {
                Err(CgroupError::NoController { path: self.path.clone(), file: name })
            }
            Err(errno @ (Errno::INVAL | Errno::RANGE)) => Err(CgroupError::Refused {
                path: self.path.clone(),
                file: name,
                value: value.to_owned(),
                source: errno.into(),
            }),
            Err(errno) => Err(self.fault(errno, name)),
        }
    }

    fn is_there(&self) -> bool {
        rustix::fs::statat(&self.fd, ALWAYS_THERE, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    fn fault(&self, errno: Errno, file: &'static str) -> CgroupError {
        Fault { errno, file }.of(&self.path)
    }
}

// === impl Kept ===

impl Kept {
    /// Reads the file as it is now, from its beginning, with one call.
    pub(crate) fn read<T>(
        &self,
        parse: impl Fn(&[u8]) -> Result<T, ParseError>,
    ) -> Result<T, Failed<ReadFault>> {
        let mut buffer = [0; BUFFER_BYTES];
        let text = self.read_into(&mut buffer)?;
        // A text that is no numbers may have been cut off; the next one may be whole.
        parse(text).map_err(|error| Failed::Passing(ReadFault::Text(error)))
    }

    /// The same without making numbers of it.
    pub(crate) fn read_into<'a>(
        &self,
        buffer: &'a mut [u8; BUFFER_BYTES],
    ) -> Result<&'a [u8], Failed<ReadFault>> {
        let length = rustix::io::pread(&self.fd, &mut buffer[..], 0).map_err(|errno| {
            let fault = ReadFault::Kernel(Fault { errno, file: self.name });
            if is_passing(errno) { Failed::Passing(fault) } else { Failed::Lasting(fault) }
        })?;
        // What fills the buffer may go on, and half a number is a wrong number.
        match buffer.get(..length) {
            Some(text) if length < BUFFER_BYTES => Ok(text),
            Some(_) | None => Err(Failed::Lasting(ReadFault::TooLong { file: self.name })),
        }
    }
}

// === impl Fault, ReadFault ===

impl Fault {
    /// What it means for the group `path`.
    pub(crate) fn of(self, path: &CgroupPath) -> CgroupError {
        let (path, file) = (path.clone(), self.file);
        match self.errno {
            Errno::NODEV | Errno::NOENT => CgroupError::Gone { path },
            Errno::ACCESS | Errno::PERM => CgroupError::NotAllowed { path, file },
            Errno::ROFS => CgroupError::ReadOnly { path, file },
            errno => CgroupError::Io { path, file, source: errno.into() },
        }
    }
}

impl ReadFault {
    /// What it means for the group `path`.
    pub(crate) fn of(self, path: &CgroupPath) -> CgroupError {
        match self {
            Self::Kernel(fault) => fault.of(path),
            Self::TooLong { file } => {
                CgroupError::TooLong { path: path.clone(), file, limit_bytes: BUFFER_BYTES }
            }
            Self::Text(source) => CgroupError::Text { path: path.clone(), source },
        }
    }
}

/// Whether the same call may work a moment later.
fn is_passing(errno: Errno) -> bool {
    matches!(errno, Errno::INTR | Errno::AGAIN | Errno::BUSY)
}

fn passing_or_not<T>(result: Result<T, Errno>) -> Result<T, Failed<Errno>> {
    result.map_err(
        |errno| {
            if is_passing(errno) { Failed::Passing(errno) } else { Failed::Lasting(errno) }
        },
    )
}
