//! `walras host` with workloads, and its client, as a user starts them.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::engine::Docker;

/// A daemon with workloads. It is killed with this value.
pub(crate) struct Host {
    dir: TempDir,
    /// What its configuration says.
    config: String,
    /// Where what is wanted is kept.
    state: PathBuf,
    /// For secrets that are files.
    memory: TempDir,
    daemon: Option<Child>,
}

impl Host {
    pub(crate) fn start(engine: &impl Docker, more: &[&str]) -> Self {
        let dir = tempfile::Builder::new().prefix("walras-run-").tempdir().unwrap();
        let state = dir.path().join("state");
        Self::start_in(engine, dir, state, "", more)
    }

    /// The same, with something in its configuration.
    pub(crate) fn start_with(engine: &impl Docker, config: &str, more: &[&str]) -> Self {
        let dir = tempfile::Builder::new().prefix("walras-run-").tempdir().unwrap();
        let state = dir.path().join("state");
        Self::start_in(engine, dir, state, config, more)
    }

    /// The same, which keeps what is wanted elsewhere.
    pub(crate) fn start_on(engine: &impl Docker, state: PathBuf, more: &[&str]) -> Self {
        let dir = tempfile::Builder::new().prefix("walras-run-").tempdir().unwrap();
        Self::start_in(engine, dir, state, "", more)
    }

    fn start_in(
        engine: &impl Docker,
        dir: TempDir,
        state: PathBuf,
        config: &str,
        more: &[&str],
    ) -> Self {
        let memory = tempfile::Builder::new().prefix("walras-run-").tempdir_in("/dev/shm").unwrap();
        let config = config.to_owned();
        let mut host = Self { dir, config, state, memory, daemon: None };
        host.start_again(engine, more);
        host
    }

    /// Starts the daemon, with what an earlier one left.
    pub(crate) fn start_again(&mut self, engine: &impl Docker, more: &[&str]) {
        let path = |name: &str| self.dir.path().join(name);
        let log = File::options().create(true).append(true).open(path("log")).unwrap();
        let daemon = Command::new(program())
            .args(["host", "--listen", "127.0.0.1:0", "--log-level", "debug", "--config"])
            .arg(self.config())
            .arg("--state-dir")
            .arg(path("host"))
            .arg("--run-dir")
            .arg(path("lock"))
            .arg("--run-state-dir")
            .arg(&self.state)
            .arg("--run-socket")
            .arg(self.socket())
            .arg("--run-docker")
            .arg(engine.socket())
            .arg("--run-secrets-dir")
            .arg(self.memory.path().join("secrets"))
            .args(more)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.daemon = Some(daemon);
        until("the API answers", || self.command(&["list"]).output().unwrap().status.success());
    }

    /// Where it is asked.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    pub(crate) fn restart(&mut self, engine: &impl Docker, more: &[&str]) {
        self.kill();
        self.start_again(engine, more);
    }

    pub(crate) fn kill(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Waits until it dies by itself.
    pub(crate) fn dies(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        until("the daemon dies", || daemon.try_wait().unwrap().is_some());
    }

    /// Lets it live for a while. When it dies after that is not what is tested.
    #[expect(clippy::disallowed_methods, reason = "a daemon is to die at some time or other")]
    pub(crate) fn lives_for(&self, time: Duration) {
        thread::sleep(time);
    }

    /// Ends it kindly.
    pub(crate) fn stop(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        Command::new("kill").args(["-TERM", &daemon.id().to_string()]).status().unwrap();
        assert!(daemon.wait().unwrap().success(), "it stops as it should");
    }

    /// Applies a document, and gives what is printed.
    pub(crate) fn apply(&self, document: &str, more: &[&str]) -> String {
        let args = [&["apply", "-f", "-", "--timeout", "120"][..], more].concat();
        let command = &mut self.command(&args);
        let output = fed(command, document);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{document}{stderr}{}", self.log());
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a document is not applied with, and how the command ends; nothing if it is.
    pub(crate) fn not_applied(&self, document: &str) -> Option<(String, Option<i32>)> {
        let output = fed(&mut self.command(&["apply", "-f", "-"]), document);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        (!output.status.success()).then(|| (words, output.status.code()))
    }

    /// Applies a document to a daemon that dies of it, maybe before it answers.
    pub(crate) fn applies_and_dies(&mut self, document: &str) {
        fed(&mut self.command(&["apply", "-f", "-"]), document);
        self.dies();
    }

    /// What a command prints when all is well.
    pub(crate) fn walras(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What a command prints, whatever it ends with.
    pub(crate) fn walras_may_fail(&self, args: &[&str]) -> String {
        String::from_utf8(self.command(args).output().unwrap().stdout).unwrap()
    }

    pub(crate) fn status(&self, id: &str) -> String {
        self.walras(&["status", id])
    }

    /// Waits until a workload is in a state.
    pub(crate) fn becomes(&self, id: &str, state: &str) {
        let deadline = Instant::now() + Duration::from_secs(180);
        let begins = format!("{id}: {state},");
        loop {
            let status = self.status(id);
            if status.starts_with(&begins) {
                return;
            }
            assert!(Instant::now() < deadline, "not {state}: {status}{}", self.log());
            pause();
        }
    }

    /// Everything that it wrote.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.dir.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.is_file() {
                    found.push(path);
                }
            }
        }
        assert!(found.iter().any(|path| path.ends_with("run.redb")), "{found:?}");
        found
    }

    /// What a document is refused with.
    pub(crate) fn refused(&self, document: &str) -> String {
        let mut command = self.command(&["apply", "-f", "-"]);
        let output = fed(&mut command, document);
        assert_eq!(output.status.code(), Some(2), "it was taken: {document}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// How a command ends, and what it prints.
    pub(crate) fn ends_with(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = self.command(args).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }

    /// What a command prints that gets this input.
    pub(crate) fn walras_fed(&self, args: &[&str], input: &str) -> String {
        let output = fed(&mut self.command(args), input);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A command that goes on.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// The first line that a command prints.
    pub(crate) fn first_line(&self, child: &mut Child) -> String {
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The last value of a metric; nothing if there is none.
    pub(crate) fn metric(&self, name: &str) -> String {
        let address = self.logged("walras host is running", "address=");
        let mut answer = ureq::get(format!("http://{address}/metrics")).call().unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    }

    /// The host's own state, as JSON.
    pub(crate) fn state(&self) -> String {
        let address = self.logged("walras host is running", "address=");
        let mut answer = ureq::get(format!("http://{address}/api/v1/state")).call().unwrap();
        answer.body_mut().read_to_string().unwrap()
    }

    /// Changes that it took for those of a workload's owner, as its log has them.
    pub(crate) fn owners_changes(&self) -> Vec<String> {
        let log = self.log();
        let told = log.lines().filter(|line| line.contains("its owner changed"));
        told.map(str::to_owned).collect()
    }

    /// The port of the API with certificates.
    pub(crate) fn api_port(&self) -> u16 {
        let address = self.logged("the workload API is served", "address=Some(127.0.0.1:");
        address.trim_end_matches(')').parse().unwrap()
    }

    /// What follows `key` in the last line of the log with these words and that key.
    fn logged(&self, words: &str, key: &str) -> String {
        let log = self.log();
        let lines = log.lines().rev().filter(|line| line.contains(words));
        let found = lines.filter_map(|line| line.split_once(key)).next();
        let (_, rest) = found.unwrap_or_else(|| panic!("{key} is not in\n{log}"));
        rest.split_whitespace().next().unwrap_or_default().to_owned()
    }

    /// Looks for a text in everything that it wrote.
    pub(crate) fn greps_nothing(&self, text: &str) {
        for file in self.files() {
            let bytes = fs::read(&file).unwrap();
            let found = bytes.windows(text.len()).any(|part| part == text.as_bytes());
            assert!(!found, "it is in {}", file.display());
        }
    }

    /// The program with other arguments.
    pub(crate) fn program(args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(args);
        command
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(args).env("WALRAS_RUN_SOCKET", self.socket());
        command
    }

    fn config(&self) -> PathBuf {
        let config = self.dir.path().join("host.toml");
        fs::write(&config, &self.config).unwrap();
        config
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().ok();
            daemon.wait().ok();
        }
    }
}

/// Runs a command with this input.
fn fed(command: &mut Command, input: &str) -> Output {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn program() -> &'static Path {
    assert_cmd::cargo::cargo_bin!("walras")
}

/// Waits until something holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}: it did not come");
        pause();
    }
}

#[expect(clippy::disallowed_methods, reason = "between two looks at a condition with a deadline")]
fn pause() {
    thread::sleep(Duration::from_millis(20));
}
