//! A real Prometheus with a folder of its own, which ends with the test.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use walras_testbed::{Program, Settings, prepare, wait_for};

use crate::PATIENCE;
use crate::exporter::Exporter;

/// Where its pages begin, as behind a gateway.
const PREFIX: &str = "/prometheus";

/// A running Prometheus, killed when this value goes.
pub(crate) struct Prometheus {
    program: PathBuf,
    folder: tempfile::TempDir,
    config: String,
    /// Where it listens: any free port at first, and the same one ever after.
    address: SocketAddr,
    child: Child,
}

/// A Prometheus that listens, and waits for its configuration before it answers questions.
pub(crate) struct Starting {
    pipe: PathBuf,
    config: String,
}

// === impl Prometheus ===

impl Prometheus {
    /// Starts one that scrapes `exporter` alone, and waits until it answers.
    pub(crate) fn start(exporter: &Exporter) -> Self {
        let programs = prepare(&[Program::Prometheus], &Settings::read().unwrap()).unwrap();
        let program = programs.place(Program::Prometheus).unwrap().to_owned();
        let folder = tempfile::tempdir().unwrap();
        let target = exporter.address();
        let config = format!(
            "global: {{ scrape_interval: 500ms, scrape_timeout: 500ms }}\n\
             scrape_configs:\n\
             - job_name: pods\n\
             \x20 static_configs: [{{ targets: ['{target}'] }}]\n"
        );
        let file = folder.path().join("prometheus.yml");
        fs::write(&file, &config).unwrap();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let child = spawn(&program, folder.path(), &file, any);
        let mut prometheus = Self { program, folder, config, address: any, child };
        prometheus.address = prometheus.wait("its address", |log| {
            let line = log.lines().find(|line| line.contains("\"Listening on\""))?;
            line.split_once("address=")?.1.split(' ').next()?.parse().ok()
        });
        prometheus
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}{PREFIX}", self.address)
    }

    /// Kills it, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal to it.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap();
        assert!(sent.success(), "{name}");
    }

    /// Starts it again where it was, and holds it while it starts: it reads its configuration
    /// twice, before it listens and before it answers, and the second time it has to wait for it.
    pub(crate) fn start_again(&mut self) -> Starting {
        let pipe = self.folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        self.child = spawn(&self.program, self.folder.path(), &pipe, self.address);
        let starting = Starting { pipe, config: self.config.clone() };
        starting.write();
        starting
    }

    fn wait<T>(&self, what: &str, look: impl Fn(&str) -> Option<T>) -> T {
        let log = || fs::read_to_string(self.folder.path().join("log")).unwrap();
        let found = wait_for(what, PATIENCE, || Ok(look(&log())));
        found.unwrap_or_else(|error| panic!("{error}\n{}", log()))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

// === impl Starting ===

impl Starting {
    /// Lets it go on.
    pub(crate) fn finish(self) {
        self.write();
    }

    /// Waits until it reads, and gives it what it wants to read.
    fn write(&self) {
        fs::write(&self.pipe, &self.config).unwrap();
    }
}

fn spawn(program: &Path, folder: &Path, config: &Path, address: SocketAddr) -> Child {
    Command::new(program)
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
        .arg(format!("--web.listen-address={address}"))
        .arg(format!("--web.route-prefix={PREFIX}"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(folder.join("log")).unwrap())
        .spawn()
        .unwrap()
}
