//! Puts it together: the listeners, the look every 100 ms, and the calls that follow from it.
//!
//! Nothing spins: the loop sleeps until the next look, or until a message asks it to think again.
//! Connections beyond a small number are closed at once, so nobody can make the program large.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;
use walras_core::informant::{Action, Informant, Saying, Settings};
use walras_core::units::{Bytes, Moment};
use walras_wire::vm::auth::{Key, KeyError};

use crate::group::Group;
use crate::guest::Guest;
use crate::metrics::Own;
use crate::online::Online;
use crate::options::Options;
use crate::say;
use crate::session::Sessions;
use crate::{calls, serve};

/// How often the guest is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Memory blocks are looked for this often, in looks: the kernel mostly does it itself.
const BLOCKS_EVERY: u64 = 10;
/// So many connections are served at once on each port.
const CONNECTIONS_MAX: usize = 16;
/// What a thread needs at most.
const STACK: usize = 128 << 10;

/// Why it cannot run.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// There is no key.
    #[error(
        "{path}: the key cannot be read: {source}; start QEMU with \
         -fw_cfg name=opt/dev.walras/key,file=PATH, or name a file with --key-file"
    )]
    NoKey {
        /// Where it was looked for.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What is there is no key.
    #[error("{path}: {source}")]
    BadKey {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: KeyError,
    },
    /// A port cannot be had.
    #[error("{address}: cannot be listened on: {source}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// There is no thread to be had.
    #[error("no thread can be started: {0}")]
    Thread(io::Error),
}

/// What all threads share.
#[derive(Debug)]
pub struct Shared {
    core: Mutex<Informant>,
    /// Whether somebody wants the loop to think again.
    woken: Mutex<bool>,
    waker: Condvar,
    origin: Instant,
    refused: AtomicU64,
    asked: AtomicU64,
    /// The key and the sessions.
    pub sessions: Sessions,
    /// What is looked at.
    pub guest: Guest,
    /// Where metrics are.
    pub metrics_port: AtomicU16,
}

/// Runs until the guest ends.
///
/// # Errors
/// It cannot start.
pub fn run(options: &Options) -> Result<Infallible, DaemonError> {
    let shared = Arc::new(Shared::new(read_key(options)?, Guest::new(options.root.clone())));
    let listener = listen(options.listen)?;
    let metrics = listen(options.metrics_listen)?;
    let port = metrics.local_addr().map_or(options.metrics_listen.port(), |at| at.port());
    shared.metrics_port.store(port, Ordering::Relaxed);
    let at = listener.local_addr().unwrap_or(options.listen);
    say::log(&format!("agents are answered on {at}, metrics are on port {port}"));
    accept("agents", listener, &shared, serve::agent)?;
    accept("metrics", metrics, &shared, serve::figures)?;
    look_forever(options, &shared)
}

fn read_key(options: &Options) -> Result<Key, DaemonError> {
    let path = options.key_file.clone();
    let text =
        fs::read(&path).map_err(|source| DaemonError::NoKey { path: path.clone(), source })?;
    Key::parse(&text).map_err(|source| DaemonError::BadKey { path, source })
}

fn listen(address: SocketAddr) -> Result<TcpListener, DaemonError> {
    TcpListener::bind(address).map_err(|source| DaemonError::Listen { address, source })
}

/// Serves every connection in a thread of its own, up to a number of them.
fn accept(
    name: &str,
    listener: TcpListener,
    shared: &Arc<Shared>,
    answer: fn(&TcpStream, &Shared),
) -> Result<(), DaemonError> {
    let (shared, open) = (Arc::clone(shared), Arc::new(AtomicUsize::new(0)));
    let serve = move || {
        for stream in listener.incoming() {
            // Out of files, as it may be: waiting lets some be closed.
            let Ok(stream) = stream else {
                thread::park_timeout(LOOK_EVERY);
                continue;
            };
            if open.fetch_add(1, Ordering::SeqCst) >= CONNECTIONS_MAX {
                open.fetch_sub(1, Ordering::SeqCst);
                shared.refused();
                continue;
            }
            let (shared, counted) = (Arc::clone(&shared), Arc::clone(&open));
            let served = start("connection", move || {
                answer(&stream, &shared);
                counted.fetch_sub(1, Ordering::SeqCst);
            });
            if served.is_err() {
                open.fetch_sub(1, Ordering::SeqCst);
            }
        }
    };
    start(name, serve).map_err(DaemonError::Thread)
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(work).map(|_| ())
}

fn look_forever(options: &Options, shared: &Arc<Shared>) -> ! {
    let mut online = options.online.then(|| Online::new(&options.root));
    let mut group = options.cgroup.clone().map(Group::new);
    let mut looks = 0_u64;
    let mut look_at = Instant::now();
    loop {
        if Instant::now() >= look_at {
            look_at = Instant::now() + LOOK_EVERY;
            if let Some(online) = &mut online {
                online.cpus().iter().for_each(|words| say::log(words));
                if looks.is_multiple_of(BLOCKS_EVERY) {
                    online.memory().iter().for_each(|words| say::log(words));
                }
            }
            look(shared, group.as_mut());
            looks += 1;
        }
        let outcome = shared.core().step(shared.now());
        for action in outcome.actions {
            carry_out(shared, action);
        }
        shared.sleep_until(look_at);
    }
}

fn look(shared: &Shared, group: Option<&mut Group>) {
    let held_back = group.as_ref().and_then(|group| group.held_back());
    let look = shared.guest.look(held_back);
    let mut core = shared.core();
    core.looked(look, shared.now());
    let needs = core.needs();
    drop(core);
    if let Some(group) = group {
        let total = look.memory.map_or(Bytes::ZERO, |memory| memory.total);
        let told = group.fit(total, &Settings::DEFAULT);
        let raised = if needs.memory { group.raise() } else { None };
        told.into_iter().chain(raised).for_each(|words| say::log(&words));
    }
}

fn carry_out(shared: &Arc<Shared>, action: Action) {
    match action.what {
        Saying::Check => {}
        Saying::Suspend => say::log(&format!("agent {} is suspended", action.agent)),
        Saying::Resume => say::log(&format!("agent {} is listened to", action.agent)),
        Saying::AskMore(_) => {
            shared.asked.fetch_add(1, Ordering::Relaxed);
        }
    }
    let within = Duration::from_micros(action.until.since(shared.now()).as_us());
    let (call, caller) = (action.call, Arc::clone(shared));
    let made = start("call", move || {
        let address = action.address.parse::<SocketAddr>();
        let fine = address.is_ok_and(|address| {
            calls::tell(&caller.sessions, action.agent, address, action.what, within)
        });
        caller.core().answered(action.call, fine, caller.now());
        caller.wake();
    });
    if made.is_err() {
        shared.core().answered(call, false, shared.now());
    }
}

// === impl Shared ===

impl Shared {
    fn new(key: Key, guest: Guest) -> Self {
        Self {
            core: Mutex::new(Informant::new(Settings::DEFAULT)),
            woken: Mutex::new(false),
            waker: Condvar::new(),
            origin: Instant::now(),
            refused: AtomicU64::new(0),
            asked: AtomicU64::new(0),
            sessions: Sessions::new(key),
            guest,
            metrics_port: AtomicU16::new(0),
        }
    }

    /// What decides.
    pub fn core(&self) -> MutexGuard<'_, Informant> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time since the start.
    pub fn now(&self) -> Moment {
        let micros = self.origin.elapsed().as_micros();
        Moment::from_us(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// Something happened that the loop should think about.
    pub fn wake(&self) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.waker.notify_all();
    }

    /// A request was refused.
    pub fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// What the program tells of itself.
    pub fn own(&self) -> Own {
        let granted = self.core().granted();
        let refused = self.refused.load(Ordering::Relaxed);
        Own { granted, refused, asked: self.asked.load(Ordering::Relaxed) }
    }

    fn sleep_until(&self, until: Instant) {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        while !*woken {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.waker.wait_timeout(woken, left);
            woken = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *woken = false;
    }
}
