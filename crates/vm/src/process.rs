//! One QEMU process: started, known again, and ended.
//!
//! A process is known by the file that QEMU writes its number to, and by having that file on its
//! command line, so that another process with the same number is never taken for it. It leads a
//! group of processes of its own, and goes on when the daemon that started it ends.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How much of what QEMU wrote is told when it does not start.
const WORDS_MAX: usize = 2000;

/// A process that was seen to be this machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pid: u32,
    /// When it started, in ticks since the host did.
    started: u64,
}

/// Starts QEMU, and returns its number. What it writes goes to `log`.
///
/// # Errors
/// It cannot be started.
pub(crate) fn spawn(program: &Path, args: &[String], log: &Path) -> io::Result<u32> {
    let log = File::create(log)?;
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()?;
    let pid = child.id();
    // Whoever starts a process has to take note of its end. Others see it by its absence.
    thread::Builder::new().name("walras-vm-wait".to_owned()).spawn(move || child.wait())?;
    Ok(pid)
}

/// The end of what QEMU wrote.
pub(crate) fn words(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(WORDS_MAX)..]).into_owned();
    let text = text.trim();
    if text.is_empty() { "it wrote nothing".to_owned() } else { text.to_owned() }
}

/// Whether a process of this number is there, and is no remnant.
pub(crate) fn is_there(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

impl Process {
    /// The process that wrote its number to `pid_file`, if it lives.
    pub(crate) fn find(pid_file: &Path) -> Option<Self> {
        let pid: u32 = fs::read_to_string(pid_file).ok()?.trim().parse().ok()?;
        let (_, started) = stat(pid)?;
        let command_line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let ours = pid_file.as_os_str().as_encoded_bytes();
        let process = Self { pid, started };
        let names_it = command_line.split(|byte| *byte == 0).any(|argument| argument == ours);
        (names_it && process.lives()).then_some(process)
    }

    /// Whether it is still there.
    pub(crate) fn lives(&self) -> bool {
        stat(self.pid)
            .is_some_and(|(state, started)| started == self.started && !['Z', 'X'].contains(&state))
    }

    /// Its number.
    pub(crate) const fn pid(&self) -> u32 {
        self.pid
    }

    /// When it started, for people and for telling one start from another.
    pub(crate) fn stamp(&self) -> String {
        format!("{}@{}", self.pid, self.started)
    }

    /// Ends it at once. One that is gone already is fine.
    pub(crate) fn kill(&self) -> io::Result<()> {
        let number = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let Some(number) = number else { return Ok(()) };
        let handle = match pidfd_open(number, PidfdFlags::empty()) {
            Ok(handle) => handle,
            Err(rustix::io::Errno::SRCH) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        // The handle is of this process or of one that took its number: now it cannot change.
        if !self.lives() {
            return Ok(());
        }
        match pidfd_send_signal(&handle, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// State and start of a process.
fn stat(pid: u32) -> Option<(char, u64)> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(text: &str) -> Option<(char, u64)> {
    // The name is in brackets and may hold anything, also brackets.
    let rest = &text[text.rfind(')')? + 1..];
    let mut words = rest.split_whitespace();
    let state = words.next()?.chars().next()?;
    // After the state, which is the third field, the twenty-second is eighteen words on.
    Some((state, words.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let rest = "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 777 8 9";
        assert_eq!(parse_stat(&format!("12 (a) b) S {rest}")), Some(('S', 777)));
        assert_eq!(parse_stat("12 (a) S 1"), None);
        assert!(is_there(std::process::id()));
    }

    #[test]
    fn a_process_is_found_by_its_file_and_no_other_is_taken_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        assert_eq!(Process::find(&file), None);
        // A process that does not name the file on its command line is another one.
        fs::write(&file, std::process::id().to_string()).unwrap();
        assert_eq!(Process::find(&file), None);
        let args = ["-c".to_owned(), "exec sleep 60".to_owned(), file.display().to_string()];
        let pid = spawn(Path::new("/bin/sh"), &args, &folder.path().join("log")).unwrap();
        fs::write(&file, pid.to_string()).unwrap();
        // `exec` gives the process another command line, and it is no longer known.
        let args = ["-c".to_owned(), "sleep 60; true".to_owned(), file.display().to_string()];
        let other = spawn(Path::new("/bin/sh"), &args, &folder.path().join("log2")).unwrap();
        fs::write(&file, other.to_string()).unwrap();
        let found = Process::find(&file).unwrap();
        assert_eq!(found.pid(), other);
        found.kill().unwrap();
        while found.lives() {
            thread::yield_now();
        }
        found.kill().unwrap();
        assert_eq!(Process::find(&file), None);
        let number = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(number, Signal::KILL).unwrap();
    }
}
