//! The keeper: a process of its own that ends a testbed when its time has come.
//!
//! Started first and ended last. It waits for whoever uses the testbed to let go of the lease,
//! which the kernel does for a process that crashed, too; then it ends the testbed as its kind of
//! life says. Meanwhile it stands between clients and the API server, and obeys on a socket in the
//! testbed's folder, one line for each order.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::progress::rest;
use crate::proxy::{self, Tap, Traffic};
use crate::state::{Life, Phase, State};
use crate::teardown;

/// How long a shared testbed waits for its next user.
const LINGER: Duration = Duration::from_secs(60);

/// A way to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// That of everybody who uses the kubeconfig.
    Clients,
    /// That of the kubelet.
    Node,
}

/// Keeps the testbed in `dir`, and returns after ending it.
///
/// # Errors
///
/// If the testbed cannot be served, or cannot be ended.
pub fn keep(dir: &Path) -> Result<()> {
    let state = State::load(dir)?;
    let taps = [(Way::Clients, Tap::default()), (Way::Node, Tap::default())];
    for (way, tap) in &taps {
        let address = state.address();
        let listener = TcpListener::bind((address, way.port(&state)))?;
        let (server, tap) = ((address, state.ports.api).into(), tap.clone());
        thread::spawn(move || proxy::serve(&listener, server, &tap));
    }
    let orders = UnixListener::bind(socket(dir)).context("cannot take orders")?;
    thread::spawn(move || {
        for stream in orders.incoming().flatten() {
            // Whoever does not wait for the answer does not get one.
            obey(&stream, &taps).ok();
        }
    });
    loop {
        wait_for_the_end(dir)?;
        if teardown::end_unless_used(dir)? {
            return Ok(());
        }
    }
}

/// Lets the keeper of the testbed in `dir` change the traffic on `way`; returns once it is so.
pub(crate) fn order(dir: &Path, way: Way, traffic: Traffic) -> Result<()> {
    let mut stream = UnixStream::connect(socket(dir)).context("the keeper does not answer")?;
    writeln!(stream, "{} {}", way.name(), traffic.words())?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    ensure!(answer == "ok\n", "the keeper refused: {}", answer.trim());
    Ok(())
}

/// Whether the keeper of the testbed in `dir` listens.
pub(crate) fn listens(dir: &Path) -> bool {
    UnixStream::connect(socket(dir)).is_ok()
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("keeper.sock")
}

fn obey(stream: &UnixStream, taps: &[(Way, Tap)]) -> Result<()> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let order = line.trim_end().split_once(' ');
    let order = order.and_then(|(way, traffic)| {
        let tap = taps.iter().find(|(known, _)| known.name() == way);
        Some((tap?, Traffic::parse(traffic)?))
    });
    let mut stream = stream;
    match order {
        Some(((_, tap), traffic)) => {
            tap.set(traffic);
            stream.write_all(b"ok\n")?;
        }
        None => writeln!(stream, "`{}` is no order", line.trim_end())?,
    }
    Ok(())
}

/// Returns when nobody needs the testbed any more.
fn wait_for_the_end(dir: &Path) -> Result<()> {
    let mut unused_since: Option<Instant> = None;
    loop {
        // Read again each time, because the phase changes. A folder that is gone needs no keeper.
        let Ok(state) = State::load(dir) else { return Ok(()) };
        if state.in_use() {
            unused_since = None;
        } else {
            let unused = unused_since.get_or_insert_with(Instant::now).elapsed();
            let patience = match (state.phase, state.life) {
                // Whoever was starting it is gone.
                (Phase::Starting, _) | (Phase::Up, Life::WithOwner) => Some(Duration::ZERO),
                (Phase::Up, Life::WithLastUser) => Some(LINGER),
                (Phase::Up, Life::UntilDown) => None,
            };
            // Asked once more after the phase was read: between the two, the starter may have
            // finished and let go.
            if patience.is_some_and(|patience| unused >= patience)
                && State::load(dir).is_ok_and(|again| again.phase == state.phase)
            {
                return Ok(());
            }
        }
        rest();
        if !fs::exists(dir)? {
            return Ok(());
        }
    }
}

// === impl Way ===

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Node => "node",
        }
    }

    fn port(self, state: &State) -> u16 {
        match self {
            Self::Clients => state.ports.api_for_clients,
            Self::Node => state.ports.api_for_node,
        }
    }
}
