//! An agent at work: turns the loop, takes over changed settings, keeps what was learned.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tracing::{error, info, warn};
use walras_core::node::Node;
use walras_core::units::{FamilyKey, Moment, Span};
use walras_node::board::Board;
use walras_node::drive::{Drive, Outside, cpus_online};
use walras_node::environment;
use walras_node::signal::Asked;

use super::link::{Link, Shelf};
use super::outside::{Kubernetes, Terms};
use super::pods::{Data, World};
use super::settle::{Refused, Step, settle};
use super::tables::{self, Kept, Ledger, Tables};
use super::{NOT_SEEN, Options, identity, recorder};
use crate::names;
use crate::settings::{AgentConfig, ClusterSettings};

/// How often a file with settings is looked at.
const FILE_EVERY: Span = Span::from_s(2);
/// What an agent without settings waits for.
const NOT_CONFIGURED: &str = "no configuration holds, so nothing is sized; problems say why";

/// An agent at work.
pub(super) struct Running<'a> {
    options: &'a Options,
    /// What holds, once something does.
    holds: Option<AgentConfig>,
    shelf: Shelf,
    board: Arc<Board>,
    drive: Drive<Kubernetes>,
    world: Arc<World>,
    ledger: Ledger,
    /// Which settings were looked at last.
    config_generation: u64,
    file_at: Moment,
    /// What was last told about the settings.
    alert: Option<String>,
    /// Whether the board says that something may change.
    acting: bool,
    waits_for: Option<&'static str>,
}

/// The settings that a file has: JSON or lines of `key: value`.
pub(super) fn config_in(file: &Path) -> Result<AgentConfig, String> {
    read_file(file).map_err(|refused| refused.because)
}

fn read_file(file: &Path) -> Result<AgentConfig, Refused> {
    let unreadable = |because: String| Refused { because, emergency: None };
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
    read(&data_in(&text).map_err(unreadable)?)
}

fn read(data: &Data) -> Result<AgentConfig, Refused> {
    let variable = |name: &str| environment(name)?.into_string().ok();
    let settings = ClusterSettings::read(data, variable);
    settings.map(|settings| settings.agent).map_err(|problems| {
        let emergency = ClusterSettings::emergency(data, variable);
        Refused { because: problems.to_string(), emergency }
    })
}

fn data_in(text: &str) -> Result<Data, String> {
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(text).map_err(|error| error.to_string());
    }
    let lines = text.lines().enumerate().filter(|(_, line)| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#')
    });
    let pairs = lines.map(|(place, line)| {
        let (key, value) = line.split_once(':').ok_or_else(|| {
            format!("line {} is not `key: value`: {}", place + 1, line.escape_debug())
        })?;
        let value = value.trim();
        let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        Ok((key.trim().to_owned(), quoted.unwrap_or(value).to_owned()))
    });
    pairs.collect()
}

// === impl Running ===

impl<'a> Running<'a> {
    pub(super) fn new(
        options: &'a Options,
        shelf: Shelf,
        board: Arc<Board>,
        drive: Drive<Kubernetes>,
        world: Arc<World>,
    ) -> Self {
        Self {
            options,
            holds: None,
            shelf,
            board,
            drive,
            world,
            ledger: Ledger::default(),
            config_generation: 0,
            file_at: Moment::ORIGIN,
            alert: None,
            acting: false,
            waits_for: Some(NOT_SEEN),
        }
    }

    /// Turns the loop until it is told to stop, or cannot reach the API server ever again.
    pub(super) fn run(mut self, link: Link, asked: &Receiver<Asked>) -> Result<(), LinkEnded> {
        self.load_from_folder();
        loop {
            self.take_settings();
            let wake_at = self.drive.step();
            self.hear(&link);
            let now = self.drive.outside().now();
            if let Some(tables) = self.ledger.due(self.drive.node(), now) {
                self.keep(&link, tables);
            }
            let wait = Duration::from_micros(wake_at.since(now).as_us());
            match asked.recv_timeout(wait) {
                Ok(Asked::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Asked::Reload) => self.file_at = Moment::ORIGIN,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if link.has_ended() {
                // What is left would look healthy and never see another pod.
                self.stop(link);
                return Err(LinkEnded);
            }
        }
        self.stop(link);
        Ok(())
    }

    fn stop(mut self, link: Link) {
        let now = self.drive.outside().now();
        let last = self.ledger.changed(self.drive.node(), now);
        let given_back = self.drive.outside().give_back();
        if given_back > 0 {
            info!("{given_back} pods have back what the API server has for them");
        }
        match (&self.shelf, last) {
            (Shelf::Folder(folder), Some(tables)) => {
                save_to(folder, &tables);
                link.stop(None);
            }
            (Shelf::ApiServer | Shelf::Folder(_), last) => link.stop(last),
        }
        info!("walras agent has stopped");
    }

    /// What the background found out.
    fn hear(&mut self, link: &Link) {
        if self.drive.outside().is_acting() != self.acting {
            self.tell_identity();
        }
        for tables in link.loaded.try_iter() {
            self.restore(tables);
        }
        for verdict in link.verdicts.try_iter() {
            self.drive.judge_latency(&verdict.uid, verdict.missed);
        }
        let waits_for = match (self.world.is_complete(), &self.holds) {
            (false, _) => Some(NOT_SEEN),
            (true, None) => Some(NOT_CONFIGURED),
            (true, Some(_)) => None,
        };
        if waits_for != self.waits_for {
            self.waits_for = waits_for;
            self.board.set_waits_for(waits_for);
            if waits_for.is_none() {
                info!("the pods of this node are known");
            }
        }
    }

    fn restore(&mut self, tables: Tables) {
        for (key, saved) in tables {
            match tables::kept(&key) {
                Kept::Table(family) => {
                    self.drive.restore_table(FamilyKey::new(family), saved.as_bytes());
                }
                Kept::Use(family) => {
                    self.drive.restore_use(FamilyKey::new(family), saved.as_bytes());
                }
            }
        }
        let now = self.drive.outside().now();
        self.ledger.loaded(self.drive.node(), now);
    }

    fn load_from_folder(&mut self) {
        let Shelf::Folder(folder) = &self.shelf else {
            return;
        };
        match tables::load_from(folder) {
            Ok(tables) => self.restore(tables),
            Err(error) if is_damage(&error) => {
                warn!("{}: what was learned is lost: {error}", folder.display());
                self.restore(Tables::new());
            }
            // It may be readable next time, so it is not replaced.
            Err(error) => {
                warn!("{}: what is learned is not kept this time: {error}", folder.display());
            }
        }
    }

    fn keep(&self, link: &Link, tables: Tables) {
        match &self.shelf {
            Shelf::ApiServer => link.save(tables),
            Shelf::Folder(folder) if !self.options.dry_run => save_to(folder, &tables),
            Shelf::Folder(_) => {}
        }
    }

    /// Takes over settings that changed, if they are good ones.
    fn take_settings(&mut self) {
        let Some(found) = self.look_for_settings() else {
            return;
        };
        match settle(&self.place(), self.holds.as_ref(), found) {
            Step::Stay => self.tell(None),
            Step::TakeOver(newer, alert) => {
                self.tell(alert);
                self.take_over(*newer);
            }
            Step::Tell(alert) => self.tell(Some(alert)),
        }
    }

    /// The settings, if they are worth a look: nothing inside where there are none.
    fn look_for_settings(&mut self) -> Option<Option<Result<AgentConfig, Refused>>> {
        if let Some(file) = &self.options.config {
            let now = self.drive.outside().now();
            if self.holds.is_some() && now.since(self.file_at) < FILE_EVERY {
                return None;
            }
            self.file_at = now;
            return Some(Some(read_file(file)));
        }
        let (generation, data) = self.world.config_newer_than(self.config_generation)?;
        self.config_generation = generation;
        Some(data.map(|data| read(&data)))
    }

    fn place(&self) -> String {
        format!("ConfigMap {}/{}", self.options.namespace, names::CONFIG)
    }

    /// Tells what is wrong with the settings, or that nothing is any more; the same only once.
    fn tell(&mut self, alert: Option<String>) {
        if alert == self.alert {
            return;
        }
        if let Some(alert) = &alert {
            error!("{alert}");
        }
        self.drive.set_alert(alert.clone());
        self.alert = alert;
    }

    fn take_over(&mut self, newer: AgentConfig) {
        for note in &newer.notes {
            info!("the setting {note}");
        }
        self.board.set_notes(newer.notes.clone());
        let now = self.drive.outside().now();
        let recorder = match recorder(self.options, &newer, now) {
            Ok(recorder) => recorder,
            Err(error) => {
                warn!("{error}");
                None
            }
        };
        let node = Node::new(cpus_online(), newer.profile.clone());
        self.drive.outside().set_terms(Terms {
            config: newer.clone(),
            own_namespace: self.options.namespace.clone(),
            holds: true,
            dry_run: self.options.dry_run,
        });
        self.drive.start_over(node, recorder);
        info!(
            mode = %newer.mode, profile = newer.profile.name.name(),
            actuation = ?newer.actuation, "a configuration holds"
        );
        self.holds = Some(newer);
        self.tell_identity();
    }

    fn tell_identity(&mut self) {
        self.acting = self.drive.outside().is_acting();
        if let Some(config) = &self.holds {
            self.board.set_identity(identity(self.options, config, self.acting));
        }
    }
}

/// The thread that talks to the API server has ended, although it was not told to.
#[derive(Debug, thiserror::Error)]
#[error(
    "the thread that talks to the API server has ended, which is a fault of Walras; its last words \
     are above"
)]
pub struct LinkEnded;

fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

fn save_to(folder: &Path, tables: &Tables) {
    if let Err(error) = tables::save_to(folder, tables) {
        warn!("{}: what was learned is not saved: {error}", folder.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::Mode;
    use walras_node::log::{LogFormat, LogLevel};

    #[test]
    fn a_file_has_lines_or_json() {
        let lines = data_in("# settings\nmode: off\nwriteInterval: \"5s\"\n").unwrap();
        let json = data_in(r#"{"mode": "off", "writeInterval": "5s"}"#).unwrap();
        assert_eq!(lines, json);
        assert_eq!(data_in("mode").unwrap_err(), "line 1 is not `key: value`: mode");
    }

    #[test]
    fn an_agent_whose_link_has_a_fault_ends_and_does_not_look_healthy_for_ever() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("cgroup.controllers"), "cpu").unwrap();
        let options = Options {
            node: "node-1".to_owned(),
            kubeconfig: None,
            namespace: names::NAMESPACE.to_owned(),
            listen: ([127, 0, 0, 1], 0).into(),
            probe_listen: None,
            config: None,
            cgroup_root: None,
            tables_dir: None,
            dry_run: false,
            record: None,
            log_level: LogLevel::Info,
            log_format: LogFormat::Text,
            version: String::new(),
            report: None,
        };
        let config = AgentConfig::default();
        let shared = crate::agent::shared(&options, &config);
        let world = Arc::clone(&shared.world);
        let board = Arc::new(Board::new(identity(&options, &config, false)));
        let own_namespace = options.namespace.clone();
        let node = Node::new(cpus_online(), config.profile.clone());
        let terms = Terms { config, own_namespace, holds: false, dry_run: false };
        let layout = crate::agent::find::layout_at(root.path());
        let outside = Kubernetes::new(layout, terms, shared, Moment::ORIGIN);
        let drive = Drive::new(node, outside, Arc::clone(&board), Span::from_s(1));
        let running = Running::new(&options, Shelf::ApiServer, board, drive, world);
        let (_nobody, asked) = std::sync::mpsc::channel();
        let ended = running.run(Link::broken(), &asked);
        assert!(ended.unwrap_err().to_string().contains("has ended"));
    }

    #[test]
    fn an_emergency_is_heard_beside_a_mistake() {
        for (mode, heard) in [
            ("off", Some(Mode::Off)),
            ("restore", Some(Mode::Restore)),
            ("limits-only", None),
            ("of", None),
        ] {
            let data = data_in(&format!("mode: {mode}\nwriteInterval: often")).unwrap();
            let refused = read(&data).unwrap_err();
            assert_eq!(refused.emergency, heard, "{mode}");
            assert!(refused.because.contains("writeInterval"), "{}", refused.because);
        }
    }
}
