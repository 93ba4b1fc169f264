//! Starts a testbed's processes, finds them again, and ends them.
//!
//! Every process is started with its testbed's folder and its part in its environment, where the
//! kernel shows them to everybody. So a process is found by what it is, not by a number that was
//! written down: after a crash of whoever started it, before anything was written, and never taken
//! for another process that got the same number. Signals go through a handle of the process, which
//! stays its own.

use std::fs::{self, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid,
};

use crate::plan::{Launch, Part};

/// The variable that names the testbed's folder.
const TESTBED: &str = "WALRAS_TESTBED";
/// The variable that names the part.
const PART: &str = "WALRAS_TESTBED_PART";
/// How often to look again at a process that is just becoming another program.
const BECOMING: u32 = 200;
/// How many of the last lines of a log are shown.
const LAST_LINES: usize = 25;

/// A process of a testbed.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its number.
    pub(crate) pid: Pid,
    /// The part that it is, or was started by.
    pub(crate) part: String,
    /// The name of its program.
    pub(crate) program: String,
    handle: OwnedFd,
}

/// A process that was just started. It goes on when this is dropped.
#[derive(Debug)]
pub(crate) struct Started(Child);

/// Starts `launch` as a process of the testbed in `dir`, in the background.
pub(crate) fn start(dir: &Path, launch: &Launch) -> Result<Started> {
    let mut command = match launch.inside {
        Some(anchor) => {
            let mut command = Command::new("nsenter");
            let namespace = format!("--mount=/proc/{}/ns/mnt", anchor.as_raw_nonzero());
            command.arg(namespace).arg("--").arg(&launch.program);
            command
        }
        None => Command::new(&launch.program),
    };
    let path = log(dir, launch.part);
    fs::create_dir_all(path.parent().context("a log is in a folder")?)?;
    let out = OpenOptions::new().create(true).append(true).open(&path)?;
    command
        .args(&launch.args)
        .env_clear()
        .env("PATH", &launch.search_path)
        .env("HOME", dir)
        .env(TESTBED, dir)
        .env(PART, launch.part.name())
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        // Not of our group, so that Ctrl-C reaches us and not the testbed.
        .process_group(0);
    let child = command.spawn();
    child.map(Started).with_context(|| format!("cannot start {}", launch.program.display()))
}

/// Every process of the testbed in `dir`.
pub(crate) fn all(dir: &Path) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found: Vec<Process> =
        numbers.filter_map(Pid::from_raw).filter_map(|pid| look(dir, pid)).collect();
    found.sort_by_key(|process| process.pid.as_raw_nonzero());
    found
}

/// The process that is `part` of the testbed in `dir`, if it runs.
pub(crate) fn find(dir: &Path, part: Part) -> Option<Process> {
    let is_it = |process: &Process| {
        process.part == part.name() && part.programs().contains(&process.program.as_str())
    };
    all(dir).into_iter().find(is_it)
}

/// The last lines of what `part` wrote.
pub(crate) fn last_words(dir: &Path, part: Part) -> String {
    let bytes = fs::read(log(dir, part)).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

/// Where `part` writes.
pub(crate) fn log(dir: &Path, part: Part) -> PathBuf {
    dir.join("logs").join(format!("{}.log", part.name()))
}

/// Kills the process `pid`, if it is still there, and waits for its end.
pub(crate) fn kill_number(pid: Pid) -> Result<()> {
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => end(pid, &handle, Signal::KILL),
        Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error).context("cannot get hold of a process"),
    }
}

/// The process `pid`, if it belongs to the testbed in `dir`.
fn look(dir: &Path, pid: Pid) -> Option<Process> {
    // The handle comes first: what is read after that is about the process it holds, or nothing.
    let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let folder = Path::new("/proc").join(pid.as_raw_nonzero().to_string());
    let environment = environment(&folder)?;
    let variable = |name: &str| {
        let mut pairs = environment.split(|byte| *byte == 0);
        pairs.find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    if variable(TESTBED)? != dir.as_os_str().as_encoded_bytes() {
        return None;
    }
    let part = String::from_utf8_lossy(variable(PART)?).into_owned();
    let arguments = fs::read(folder.join("cmdline")).ok()?;
    let first = arguments.split(|byte| *byte == 0).next().unwrap_or_default();
    let program = String::from_utf8_lossy(first).rsplit('/').next().unwrap_or_default().to_owned();
    Some(Process { pid, part, program, handle })
}

/// The environment that a process was started with.
fn environment(folder: &Path) -> Option<Vec<u8>> {
    let path = folder.join("environ");
    let mut environment = fs::read(&path).ok()?;
    // While a process becomes another program, its environment looks empty for a moment. It is
    // empty for good in a zombie and in the kernel's own processes, which have no program.
    for _ in 0..BECOMING {
        if !environment.is_empty() || fs::read_link(folder.join("exe")).is_err() {
            break;
        }
        thread::yield_now();
        environment = fs::read(&path).ok()?;
    }
    Some(environment)
}

fn end(pid: Pid, handle: &OwnedFd, signal: Signal) -> Result<()> {
    send(handle, signal)?;
    wait(pid, handle, Duration::from_secs(30))
}

fn send(handle: &OwnedFd, signal: Signal) -> Result<()> {
    match pidfd_send_signal(handle, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error).context("cannot send a signal"),
    }
}

fn wait(pid: Pid, handle: &OwnedFd, patience: Duration) -> Result<()> {
    let mut polled = [PollFd::new(handle, PollFlags::IN)];
    let timeout = Timespec { tv_sec: patience.as_secs().try_into()?, tv_nsec: 0 };
    loop {
        match poll(&mut polled, Some(&timeout)) {
            Ok(0) => bail!("process {} did not end", pid.as_raw_nonzero()),
            Ok(_) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for a process"),
        }
    }
    // A child of ours stays as a zombie until it is asked for. Others are not ours to ask for.
    waitpid(Some(pid), WaitOptions::NOHANG).ok();
    Ok(())
}

// === impl Started ===

impl Started {
    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.0.try_wait()?)
    }
}

// === impl Process ===

impl Process {
    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        send(&self.handle, signal)
    }

    /// Ends it at once, and waits until it is gone.
    pub(crate) fn kill(&self) -> Result<()> {
        end(self.pid, &self.handle, Signal::KILL)
    }

    /// Asks it to end, insists after a while, and waits until it is gone.
    pub(crate) fn stop(&self) -> Result<()> {
        self.signal(Signal::TERM)?;
        if wait(self.pid, &self.handle, Duration::from_secs(5)).is_err() {
            self.kill()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::wait_for;

    fn sleeper(part: Part) -> Launch {
        Launch {
            part,
            program: "/bin/sleep".into(),
            args: vec!["600".into()],
            search_path: "/bin".into(),
            inside: None,
        }
    }

    #[test]
    fn processes_are_found_by_what_they_are_and_only_those_of_the_testbed() {
        let folder = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        start(folder.path(), &sleeper(Part::Etcd)).unwrap();
        start(other.path(), &sleeper(Part::Etcd)).unwrap();
        let found = all(folder.path());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].part.as_str(), found[0].program.as_str()), ("etcd", "sleep"));
        // Whatever etcd started is not etcd.
        assert!(find(folder.path(), Part::Etcd).is_none());
        found[0].kill().unwrap();
        assert!(all(folder.path()).is_empty());
        assert_eq!(all(other.path()).len(), 1);
        all(other.path())[0].stop().unwrap();
        assert!(all(other.path()).is_empty());
        found[0].kill().expect("a process that is gone already is no error");
    }

    #[test]
    fn a_stopped_process_can_be_ended() {
        let folder = tempfile::tempdir().unwrap();
        start(folder.path(), &sleeper(Part::Anchor)).unwrap();
        let process = find(folder.path(), Part::Anchor).expect("the anchor is a sleep");
        process.signal(Signal::STOP).unwrap();
        let stat = format!("/proc/{}/stat", process.pid.as_raw_nonzero());
        wait_for("the stop", Duration::from_secs(30), || {
            Ok(fs::read_to_string(&stat)?.contains(") T ").then_some(()))
        })
        .unwrap();
        process.kill().unwrap();
        assert!(all(folder.path()).is_empty());
    }

    #[test]
    fn the_last_words_are_the_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(last_words(folder.path(), Part::Etcd), "");
        fs::create_dir(folder.path().join("logs")).unwrap();
        let lines: Vec<String> = (0..100).map(|line| line.to_string()).collect();
        fs::write(log(folder.path(), Part::Etcd), lines.join("\n")).unwrap();
        let words = last_words(folder.path(), Part::Etcd);
        assert!(words.starts_with("75\n") && words.ends_with("\n99"), "{words}");
    }
}
