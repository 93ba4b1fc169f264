//! `walras host`: puts the parts together, and keeps them going until it is told to stop.
//!
//! The order matters. What can be refused without touching anything comes first: the configuration,
//! the lock, the layout, the store, the port. Then what a killed daemon left behind is given back.
//! Only then does the loop start. A configuration that changes and is wrong is told of and changes
//! nothing.

mod reload;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use tracing::{debug, error, info, warn};
use walras_cgroup::{Layout, LayoutError, Original, allow_open_files};
use walras_core::node::Node;
use walras_core::units::{Moment, Span};

use walras_node::board::{Board, Identity};
use walras_node::drive::{Drive, Keeper, Outside, cpus_online};
use walras_node::environment;
use walras_node::latency::{Judging, Rhythm};
use walras_node::notify::Notify;
use walras_node::record::{RecordError, Recorder};
use walras_node::serve::{self, Probes, ServeError, ServeSettings};
use walras_node::store::{LastEnd, Lock, LockError, Store, StoreError};

use walras_node::log;
use walras_node::signal::{self, Asked};

use self::reload::Watched;
use crate::cgroups::{self, Caps, Cgroups, Check, Records, Terms, restore_left_behind};
use crate::config::{Config, ConfigError, Overrides};

/// So many files may have to be open: a few for each workload.
const OPEN_FILES: u64 = 65_536;
/// The market is first cleared after this much watching, so that needs are more than guesses.
const FIRST_CLEARING: Span = Span::from_s(3);

/// What was asked for on the command line.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The configuration, where it is not at its usual place.
    pub config: Option<PathBuf>,
    /// What goes before the configuration.
    pub overrides: Overrides,
    /// The version that is told.
    pub version: String,
}

/// Why there is no daemon.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Another daemon is here.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// There are no cgroups to be found.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The port cannot be used.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The recording cannot be made.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Signals cannot be heard.
    #[error("signals cannot be heard: {0}")]
    Signals(std::io::Error),
    /// What is to run beside the daemon cannot start.
    #[error("{0}")]
    Beside(String),
}

/// What ends something that runs beside the daemon.
pub type End = Box<dyn FnOnce()>;

/// What something that runs beside the daemon may read and fill.
#[derive(Clone, Debug)]
pub struct Around {
    /// What is told of the machine and its workloads.
    pub board: Arc<Board>,
    /// What some workloads are permitted by others than the market.
    pub caps: Arc<Caps>,
    /// What engines should have on record about limits; nothing where no limit is set.
    pub records: Option<Arc<Records>>,
}

/// Runs the daemon until it is told to stop, and beside it what `beside` starts, which may read and
/// fill what is around it. That is started last, once nothing else can go wrong, and ended first.
///
/// # Errors
/// It cannot start, and nothing runs beside it.
pub fn run(
    options: &Options,
    beside: impl FnOnce(&Around) -> Result<End, String>,
) -> Result<(), HostError> {
    let config = Config::load(options.config.as_deref(), &options.overrides)?;
    log::start(config.log_level, config.log_format, &[]);
    let _lock = Lock::take(&config.run_dir)?;
    let layout = Layout::of_this_machine()?;
    let mut store = Store::open(&config.state_dir)?;
    let originals = store.originals(layout.boot())?;
    let board = Arc::new(Board::new(identity(options, &config)));
    let settings = ServeSettings { listen: config.listen, names: config.names.clone() };
    let server = serve::start(Arc::clone(&board), &settings)?;
    let probes = Probes::of(&board);
    let probes = config.probe_listen.map(|address| serve::start_probes(&probes, address));
    let probes = probes.transpose()?;
    let asked = signal::listen().map_err(HostError::Signals)?;
    let open_files = allow_open_files(OPEN_FILES);
    debug!(open_files, "files that may be open");
    let originals = begin(&layout, &mut store, originals, config.act)?;
    let tables = store.tables()?;
    let origin = origin(&config);
    let recorder = recorder(&config, origin)?;
    let node = Node::new(capacity(&config), config.profile.clone());
    let outside = Cgroups::new(layout, terms(&config), store, originals, origin);
    let records = config.act.then(|| outside.records());
    let around = Around { board: Arc::clone(&board), caps: outside.caps(), records };
    let mut drive = Drive::new(node, outside, Arc::clone(&board), config.look_interval);
    if let Some(recorder) = recorder {
        drive.record_to(recorder);
    }
    for (workload, saved) in tables {
        drive.restore_table(workload, &saved);
    }
    let end = beside(&around).map_err(HostError::Beside)?;
    info!(
        address = %server.address(), page = %format_args!("http://{}", server.address()), acting = config.act, profile = config.profile.name.name(),
        capacity = %capacity(&config), "walras host is running"
    );
    if let Some(probes) = &probes {
        info!(probes = %probes.address(), "probes are answered");
    }
    let keeper = Keeper::default();
    let mut running = Running { options, config, board, drive, keeper, judging: None, asked };
    running.judge();
    running.run();
    end();
    server.stop();
    drop(probes);
    Ok(())
}

/// Gives every workload back what it came with, as far as that is on record, and ends. Says how
/// many there were.
///
/// # Errors
/// A daemon is running, or the store cannot be used.
pub fn restore_only(options: &Options) -> Result<usize, HostError> {
    let config = Config::load(options.config.as_deref(), &options.overrides)?;
    log::start(config.log_level, config.log_format, &[]);
    let _lock = Lock::take(&config.run_dir)?;
    let layout = Layout::of_this_machine()?;
    let mut store = Store::open(&config.state_dir)?;
    let originals = store.originals(layout.boot())?;
    let restored = restore_left_behind(&layout, &mut store, originals);
    store.stopped()?;
    Ok(restored)
}

/// Reads the configuration and looks at the machine as a daemon would; changes nothing, and needs
/// no lock: a daemon may be running.
///
/// # Errors
/// The configuration is wrong, or there are no cgroups to be found.
pub fn check(options: &Options) -> Result<Check, HostError> {
    let config = Config::load(options.config.as_deref(), &options.overrides)?;
    Ok(cgroups::check(Layout::of_this_machine()?, terms(&config))?)
}

/// A daemon at work.
struct Running<'a> {
    options: &'a Options,
    config: Config,
    board: Arc<Board>,
    drive: Drive<Cgroups>,
    keeper: Keeper,
    /// Who asks Prometheus, once there is one to be asked.
    judging: Option<Judging>,
    asked: Receiver<Asked>,
}

impl Running<'_> {
    fn run(mut self) {
        let mut notify = Notify::new(environment);
        let mut watched = Watched::new(self.options.config.as_deref());
        let mut ready = false;
        loop {
            let wake_at = self.drive.step();
            if !ready {
                ready = true;
                notify.ready(if self.config.act { "sizing" } else { "only watching" });
                self.tell_first_look();
            }
            notify.alive();
            self.hear();
            self.save();
            let now = self.drive.outside().now();
            let wait = Duration::from_micros(wake_at.since(now).as_us());
            let wait = notify.patience().map_or(wait, |patience| patience.min(wait));
            match self.asked.recv_timeout(wait) {
                Ok(Asked::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Asked::Reload) => self.reload(),
                Err(RecvTimeoutError::Timeout) if watched.changed(now) => self.reload(),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        notify.stopping();
        self.stop();
    }

    /// What was found, where it was looked for, and where to see more: the first thing a person
    /// wants to know, also where there is nothing.
    fn tell_first_look(&mut self) {
        let count = self.drive.node().workloads().count();
        let places = self.config.adopt.places().join(", ");
        let does = if self.config.act {
            "limits change from now on; a stop gives them back, unless restore = false"
        } else {
            "only watching: nothing is changed without --act"
        };
        info!(
            workloads = count,
            looked_for = places,
            "{count} workloads found; `walras host --check` says why others are left alone; {does}"
        );
    }

    /// Starts to ask Prometheus, if there is one and it is not asked yet.
    fn judge(&mut self) {
        if self.config.latency.url.is_none() || self.judging.is_some() {
            return;
        }
        match Judging::start(self.drive.outside().questions(), Rhythm::USUAL) {
            Ok(judging) => self.judging = Some(judging),
            Err(error) => warn!("latency targets are not judged: no thread for it: {error}"),
        }
    }

    /// What was found out about latency.
    fn hear(&mut self) {
        for verdict in self.judging.iter().flat_map(Judging::verdicts) {
            self.drive.judge_latency(&verdict.uid, verdict.missed);
        }
    }

    fn save(&mut self) {
        let now = self.drive.outside().now();
        let Self { drive, keeper, .. } = self;
        if let Err(error) =
            drive.keep(|node, outside| keeper.save_if_due(node, outside.store(), now))
        {
            warn!("{error}");
        }
    }

    /// Takes over a changed configuration, if it is a good one.
    fn reload(&mut self) {
        let loaded = Config::load(self.options.config.as_deref(), &self.options.overrides);
        let newer = match loaded {
            Ok(newer) => newer,
            Err(error) => {
                error!("the changed configuration is refused, and the old one goes on: {error}");
                self.drive
                    .set_alert(Some(format!("the changed configuration is refused: {error}")));
                return;
            }
        };
        self.drive.set_alert(None);
        let restart = self.config.needs_restart(&newer);
        if !restart.is_empty() {
            warn!("a change of {} takes a restart", restart.join(", "));
        }
        // What takes a restart stays as it is.
        let newer = Config { record: self.config.record.clone(), ..newer };
        let restores = (newer.restore != self.config.restore).then_some(newer.restore);
        if newer.affects_loop(&self.config) {
            self.take_over(newer);
        } else {
            info!("the configuration was read again, and nothing changed for the workloads");
            self.config.restore = newer.restore;
        }
        match restores {
            Some(true) => info!("workloads get back what they came with when it stops"),
            Some(false) => info!("workloads keep what they have when it stops"),
            None => {}
        }
    }

    fn take_over(&mut self, newer: Config) {
        let now = self.drive.outside().now();
        let recorder = match recorder(&newer, now) {
            Ok(recorder) => recorder,
            Err(error) => {
                warn!("{error}");
                None
            }
        };
        let node = Node::new(capacity(&newer), newer.profile.clone());
        self.board.set_identity(identity(self.options, &newer));
        self.drive.outside().set_terms(terms(&newer));
        self.drive.set_look_interval(newer.look_interval);
        self.drive.start_over(node, recorder);
        info!(acting = newer.act, profile = newer.profile.name.name(), "a new configuration holds");
        self.config = newer;
        self.judge();
    }

    fn stop(mut self) {
        let Self { drive, keeper, .. } = &mut self;
        if let Err(error) = drive.keep(|node, outside| keeper.save(node, outside.store())) {
            warn!("{error}");
        }
        let outside = self.drive.outside();
        if self.config.restore {
            let count = outside.restore_all();
            info!("{count} workloads have back what they came with");
        }
        let changed = outside.changed_count();
        if changed > 0 {
            info!(
                "{changed} workloads keep what was set; `walras host --restore-only` gives back \
                 what they came with"
            );
        }
        if let Err(error) = outside.store().stopped() {
            warn!("{error}");
        }
        info!("walras host has stopped");
    }
}

/// Marks the start, and gives back what a killed daemon left behind, unless nothing is to be
/// written. Returns what is still on record.
fn begin(
    layout: &Layout,
    store: &mut Store,
    originals: Vec<Original>,
    act: bool,
) -> Result<Vec<Original>, HostError> {
    match store.started()? {
        LastEnd::Crashed if act => {
            let count = originals.len();
            let restored = restore_left_behind(layout, store, originals);
            if count > 0 {
                info!("the last daemon was killed: {restored} workloads have back what they had");
            }
            Ok(store.originals(layout.boot())?)
        }
        // Who is gone is found out by the first look, which does not take every error for that.
        LastEnd::Crashed | LastEnd::Clean => Ok(originals),
    }
}

fn identity(options: &Options, config: &Config) -> Identity {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Identity {
        version: options.version.clone(),
        host: host.trim().to_owned(),
        profile: config.profile.name.name().to_owned(),
        acting: config.act,
    }
}

fn terms(config: &Config) -> Terms {
    Terms {
        act: config.act,
        capacity: config.capacity,
        adopt: config.adopt.clone(),
        cap_rule: config.profile.cap_rule,
        latency: config.latency.clone(),
    }
}

fn capacity(config: &Config) -> walras_core::units::Millicores {
    config.capacity.unwrap_or_else(cpus_online)
}

/// Where the clock starts: so that the first clearing comes soon, but not before anything is known.
fn origin(config: &Config) -> Moment {
    let interval = config.profile.slow_loop_interval_ms;
    Moment::from_ms(interval.as_ms_floor().saturating_sub(FIRST_CLEARING.as_ms_floor()))
}

fn recorder(config: &Config, now: Moment) -> Result<Option<Recorder>, RecordError> {
    let to = config.record.as_ref();
    to.map(|to| Recorder::start(to, capacity(config), &config.profile, now)).transpose()
}
