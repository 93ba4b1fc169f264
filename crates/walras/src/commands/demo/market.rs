//! The market over the demonstration's cgroups: the daemon's own loop, in a thread of its own.
//!
//! It is the loop of `walras host --act` with the profile `direct`, told to know nothing but these
//! groups. What it would keep on disk is kept in memory, since the groups go with the process.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use walras_core::node::Node;
use walras_core::profile::Profile;
use walras_core::units::{Moment, Span};
use walras_host::adopt::{AdoptRules, Glob, Reach, Rule};
use walras_host::cgroups::{Cgroups, Terms};
use walras_host::latency::LatencyTerms;
use walras_node::board::{Board, Identity, Tally};
use walras_node::drive::{Drive, Outside};
use walras_node::store::Store;
use walras_sim::scenario::{PodSpec, Scenario};

use super::ground::Ground;
use crate::cli::VERSION;

/// How often the loop looks for workloads that came or went.
const LOOK_INTERVAL: Span = Span::from_s(1);

/// A market that is open until it is closed.
#[derive(Debug)]
pub(super) struct Market {
    board: Arc<Board>,
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Market {
    /// Opens the market over the scenario's workloads, which are on their ground.
    pub(super) fn open(ground: &Ground, scenario: &Scenario) -> Result<Self, String> {
        let capacity = scenario.node.capacity;
        let board = Arc::new(Board::new(Identity {
            version: VERSION.to_owned(),
            host: "demo".to_owned(),
            profile: Profile::DIRECT.name.name().to_owned(),
            acting: true,
        }));
        let terms = Terms {
            act: true,
            capacity: Some(capacity),
            adopt: rules(ground, scenario).ok_or("the groups have no good name")?,
            cap_rule: Profile::DIRECT.cap_rule,
            latency: LatencyTerms::default(),
        };
        let store = Store::in_memory().map_err(|error| error.to_string())?;
        let origin = Moment::ORIGIN;
        let outside = Cgroups::new(ground.layout().clone(), terms, store, Vec::new(), origin);
        let node = Node::new(capacity, Profile::DIRECT);
        let drive = Drive::new(node, outside, Arc::clone(&board), LOOK_INTERVAL);
        let (stop, stopped) = mpsc::channel();
        let run = move || until_stopped(drive, &stopped);
        let thread = thread::Builder::new().name("walras-market".into()).spawn(run);
        let thread = thread.map_err(|error| format!("no thread can be started: {error}"))?;
        Ok(Self { board, stop, thread: Some(thread) })
    }

    /// Closes it, and says what it did.
    pub(super) fn close(mut self) -> Result<Tally, String> {
        self.end();
        let tally = self.board.tally();
        match self.board.state().problems.first() {
            Some(problem) => Err(format!("the market did not work: {problem}")),
            None => Ok(tally),
        }
    }

    fn end(&mut self) {
        // A thread that is gone already need not be told.
        self.stop.send(()).ok();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Drop for Market {
    fn drop(&mut self) {
        self.end();
    }
}

fn until_stopped(mut drive: Drive<Cgroups>, stopped: &mpsc::Receiver<()>) {
    loop {
        let wake_at = drive.step();
        let now = drive.outside().now();
        let wait = Duration::from_micros(wake_at.since(now).as_us());
        match stopped.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// These groups and no others, with the rights and weights of the scenario.
fn rules(ground: &Ground, scenario: &Scenario) -> Option<AdoptRules> {
    let path = |pod: &PodSpec| Glob::new(&ground.pattern(&pod.name));
    let rule = |pod: &PodSpec| {
        Some(Rule {
            matches: Glob::new(&pod.name)?,
            managed: None,
            min: Some(pod.request),
            max: None,
            weight: Some(pod.weight),
            target_latency_ms: None,
            nature: Some(pod.nature),
        })
    };
    Some(AdoptRules {
        walras: Reach::None,
        docker: Reach::None,
        podman: Reach::None,
        systemd: Reach::None,
        paths: scenario.pods.iter().map(path).collect::<Option<Vec<_>>>()?,
        rules: scenario.pods.iter().map(rule).collect::<Option<Vec<_>>>()?,
        ..AdoptRules::default()
    })
}
