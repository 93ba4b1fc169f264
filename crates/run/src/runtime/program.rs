//! Runs a program of others, within a time.

use std::io::{self, Read, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How a program ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    /// Whether with 0.
    pub(super) well: bool,
    /// What it wrote to its standard output.
    pub(super) output: String,
    /// And to its standard error.
    pub(super) errors: String,
}

/// Runs a program with this input, and kills it when its time is over.
///
/// # Errors
/// It cannot be started, or took too long: then the kind is [`io::ErrorKind::TimedOut`].
pub(super) async fn run(
    command: Command,
    input: Option<String>,
    patience: Duration,
) -> io::Result<Ended> {
    let run = tokio::task::spawn_blocking(move || run_now(command, input, patience));
    run.await.unwrap_or_else(|gone| Err(io::Error::other(gone.to_string())))
}

fn run_now(mut command: Command, input: Option<String>, patience: Duration) -> io::Result<Ended> {
    let ends = Instant::now() + patience;
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn()?;
    let stdin = child.stdin.take();
    thread::spawn(move || {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // One that does not read to the end says why when it ends.
            stdin.write_all(input.as_bytes()).ok();
        }
    });
    let written = [read(child.stdout.take()), read(child.stderr.take())];
    let mut words = Vec::new();
    for from in written {
        let Ok(text) = from.recv_timeout(ends.saturating_duration_since(Instant::now())) else {
            child.kill()?;
            child.wait()?;
            return Err(io::ErrorKind::TimedOut.into());
        };
        words.push(String::from_utf8_lossy(&text).into_owned());
    }
    let errors = words.pop().unwrap_or_default();
    let output = words.pop().unwrap_or_default();
    Ok(Ended { well: child.wait()?.success(), output, errors })
}

/// Reads all of a pipe in a thread of its own.
fn read(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (to, from) = mpsc::channel();
    thread::spawn(move || {
        let mut words = Vec::new();
        if let Some(mut pipe) = pipe {
            pipe.read_to_end(&mut words).ok();
        }
        // Nobody may wait for it any more.
        to.send(words).ok();
    });
    from
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_is_fed_read_and_killed_when_it_takes_too_long() {
        let shell = |script: &str| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", script]);
            command
        };
        let long = Duration::from_secs(60);
        let ended = run(shell("cat; echo no >&2; exit 3"), Some("in".to_owned()), long).await;
        let ended = ended.unwrap();
        assert_eq!((ended.well, &*ended.output, &*ended.errors), (false, "in", "no\n"));
        let late = run(shell("exec sleep 600"), None, Duration::from_millis(50)).await;
        assert_eq!(late.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
