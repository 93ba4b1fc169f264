//! Stands between clients and the API server, and lets their traffic be disturbed.
//!
//! Run by the keeper, once for clients and once for the kubelet. It passes bytes on in order and
//! never changes one. Traffic can be late, held back or cut; what is held back arrives when traffic
//! flows again, as after a broken line.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

/// How many pieces may be under way on a connection before the sender has to wait.
const UNDER_WAY: usize = 256;

/// What happens to traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// It flows.
    #[default]
    Flows,
    /// It arrives this much later, each way.
    Late(Duration),
    /// Nothing arrives, and nobody is told.
    Held,
    /// Connections are closed, and new ones at once.
    Cut,
}

/// The tap of one proxy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tap {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    traffic: Traffic,
    /// Both ends of every connection that may be open.
    open: Vec<TcpStream>,
}

/// Accepts connections on `listener` for ever and passes them on to `server`, as `tap` allows.
pub(crate) fn serve(listener: &TcpListener, server: SocketAddr, tap: &Tap) {
    for client in listener.incoming().flatten() {
        let tap = tap.clone();
        thread::spawn(move || {
            // A connection that fails is closed on both sides, which is all there is to say.
            connect(client, server, &tap).ok();
        });
    }
}

fn connect(client: TcpStream, server: SocketAddr, tap: &Tap) -> Result<()> {
    if tap.traffic() == Traffic::Cut {
        return Ok(());
    }
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    tap.opened(&client, &server)?;
    for (from, to) in [(&client, &server), (&server, &client)] {
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        let (sender, receiver) = sync_channel(UNDER_WAY);
        thread::spawn(move || read(from, &sender));
        let tap = tap.clone();
        thread::spawn(move || write(to, &receiver, &tap));
    }
    Ok(())
}

/// Reads pieces and notes when each came.
fn read(mut from: TcpStream, sender: &SyncSender<(Instant, Vec<u8>)>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if sender.send((Instant::now(), buffer[..length].to_vec())).is_err() {
            break;
        }
    }
}

/// Writes pieces when the tap lets them through, and passes on the end.
fn write(mut to: TcpStream, receiver: &Receiver<(Instant, Vec<u8>)>, tap: &Tap) {
    while let Ok((came, bytes)) = receiver.recv() {
        if !tap.pass(came) || to.write_all(&bytes).is_err() {
            break;
        }
    }
    // The other side may be gone already.
    to.shutdown(Shutdown::Both).ok();
}

// === impl Tap ===

impl Tap {
    /// From now on, traffic is like this, also on connections that are open.
    pub(crate) fn set(&self, traffic: Traffic) {
        let mut state = self.lock();
        state.traffic = traffic;
        if traffic == Traffic::Cut {
            for stream in state.open.drain(..) {
                // It may have been closed in the meantime.
                stream.shutdown(Shutdown::Both).ok();
            }
        }
        self.shared.changed.notify_all();
    }

    fn traffic(&self) -> Traffic {
        self.lock().traffic
    }

    /// Waits until a piece that came then may pass. False if it never may.
    fn pass(&self, came: Instant) -> bool {
        let mut state = self.lock();
        loop {
            state = match state.traffic {
                Traffic::Flows => return true,
                Traffic::Cut => return false,
                Traffic::Held => {
                    self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
                }
                Traffic::Late(delay) => {
                    let left = (came + delay).saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return true;
                    }
                    let woken = self.shared.changed.wait_timeout(state, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn opened(&self, client: &TcpStream, server: &TcpStream) -> Result<()> {
        let mut state = self.lock();
        // Those that have ended have no peer any more.
        state.open.retain(|stream| stream.peer_addr().is_ok());
        state.open.push(client.try_clone()?);
        state.open.push(server.try_clone()?);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whoever panicked with the lock held left a value that is whole.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Traffic ===

impl Traffic {
    /// In the words that the keeper understands.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Flows => "flows".to_owned(),
            Self::Late(delay) => format!("late {}", delay.as_millis()),
            Self::Held => "held".to_owned(),
            Self::Cut => "cut".to_owned(),
        }
    }

    /// What the words say, if anything.
    pub(crate) fn parse(words: &str) -> Option<Self> {
        match words.split_once(' ').unwrap_or((words, "")) {
            ("flows", "") => Some(Self::Flows),
            ("held", "") => Some(Self::Held),
            ("cut", "") => Some(Self::Cut),
            ("late", delay) => Some(Self::Late(Duration::from_millis(delay.parse().ok()?))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An echo server behind a proxy: a connection to the latter, and its tap.
    fn echo() -> (TcpStream, SocketAddr, Tap) {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = server.local_addr().unwrap();
        thread::spawn(move || {
            for stream in server.incoming().flatten() {
                thread::spawn(move || {
                    let mut stream = stream;
                    let mut buffer = [0; 100];
                    while let Ok(length @ 1..) = stream.read(&mut buffer) {
                        if stream.write_all(&buffer[..length]).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let tap = Tap::default();
        let given = tap.clone();
        thread::spawn(move || serve(&listener, target, &given));
        let client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        (client, address, tap)
    }

    fn say_and_hear(client: &mut TcpStream, text: &str) -> String {
        client.write_all(text.as_bytes()).unwrap();
        hear(client, text.len())
    }

    fn hear(client: &mut TcpStream, length: usize) -> String {
        let mut buffer = vec![0; length];
        client.read_exact(&mut buffer).unwrap();
        String::from_utf8(buffer).unwrap()
    }

    #[test]
    fn late_traffic_arrives_in_order_and_not_before_its_time() {
        let (mut client, _, tap) = echo();
        assert_eq!(say_and_hear(&mut client, "abc"), "abc");
        tap.set(Traffic::Late(Duration::from_millis(50)));
        let begun = Instant::now();
        assert_eq!(say_and_hear(&mut client, "def"), "def");
        assert!(begun.elapsed() >= Duration::from_millis(100), "fifty each way");
    }

    #[test]
    fn held_traffic_arrives_when_it_flows_again() {
        let (mut client, _, tap) = echo();
        assert_eq!(say_and_hear(&mut client, "a"), "a");
        tap.set(Traffic::Held);
        client.write_all(b"bc").unwrap();
        client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert!(client.read(&mut [0]).is_err(), "nothing comes");
        client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        tap.set(Traffic::Flows);
        assert_eq!(hear(&mut client, 2), "bc");
    }

    #[test]
    fn cut_connections_end_and_new_ones_work_once_traffic_flows() {
        let (mut client, address, tap) = echo();
        assert_eq!(say_and_hear(&mut client, "a"), "a");
        tap.set(Traffic::Cut);
        assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
        let mut refused = TcpStream::connect(address).unwrap();
        refused.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        assert!(matches!(refused.read(&mut [0]), Ok(0) | Err(_)), "a new one is closed at once");
        tap.set(Traffic::Flows);
        let mut again = TcpStream::connect(address).unwrap();
        again.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        assert_eq!(say_and_hear(&mut again, "b"), "b");
    }

    #[test]
    fn words_and_traffic_agree() {
        let late = Traffic::Late(Duration::from_millis(250));
        for traffic in [Traffic::Flows, late, Traffic::Held, Traffic::Cut] {
            assert_eq!(Traffic::parse(&traffic.words()), Some(traffic));
        }
        for bad in ["", "late", "late x", "flows 1", "stop"] {
            assert_eq!(Traffic::parse(bad), None, "{bad}");
        }
    }
}
