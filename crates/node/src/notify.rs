//! Tells systemd how the daemon is doing: ready, alive, stopping.
//!
//! A datagram to the socket that systemd names in the environment; where it names none, nothing is
//! told. A message that does not arrive is not worth stopping for.

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The way to systemd.
#[derive(Debug)]
pub struct Notify {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear that the daemon is alive; half of what it tolerates.
    alive_every: Option<Duration>,
    last_alive: Instant,
}

impl Notify {
    /// As the environment says. `variable` reads it.
    #[must_use]
    pub fn new(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let address = variable("NOTIFY_SOCKET").and_then(|path| match path.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
            _ => SocketAddr::from_pathname(path).ok(),
        });
        let socket = address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address)));
        let micros = variable("WATCHDOG_USEC").and_then(|text| text.to_str()?.parse().ok());
        let alive_every = micros.map(|micros: u64| Duration::from_micros(micros / 2));
        Self { socket, alive_every, last_alive: Instant::now() }
    }

    /// The daemon does what it is for.
    pub fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// The daemon is on its way out.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// The loop went round. Told as often as systemd wants to hear it.
    pub fn alive(&mut self) {
        if self.alive_every.is_some_and(|every| self.last_alive.elapsed() >= every) {
            self.last_alive = Instant::now();
            self.send("WATCHDOG=1");
        }
    }

    /// The longest the loop may wait before it tells again that it is alive.
    #[must_use]
    pub const fn patience(&self) -> Option<Duration> {
        self.alive_every
    }

    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.socket {
            socket.send_to_addr(message.as_bytes(), address).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_arrives_as_systemd_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        let mut notify = Notify::new(|name| match name {
            "NOTIFY_SOCKET" => Some(path.clone().into_os_string()),
            "WATCHDOG_USEC" => Some("0".into()),
            _ => None,
        });
        let heard = || {
            let mut text = [0; 100];
            let length = systemd.recv(&mut text).unwrap();
            String::from_utf8_lossy(&text[..length]).into_owned()
        };
        notify.ready("watching");
        assert_eq!(heard(), "READY=1\nSTATUS=watching");
        notify.alive();
        assert_eq!(heard(), "WATCHDOG=1");
        notify.stopping();
        assert_eq!(heard(), "STOPPING=1");
    }

    #[test]
    fn without_systemd_nothing_is_told() {
        let mut notify = Notify::new(|_| None);
        notify.ready("x");
        notify.alive();
        assert_eq!(notify.patience(), None);
    }
}
