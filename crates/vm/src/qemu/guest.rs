//! The way to the program in a guest: where it answers, by which address it finds the host, and the
//! key that both have.
//!
//! On QEMU's own network the guest is behind ports of the host that QEMU chose itself, so it is
//! asked for them. The key is kept in memory beside QEMU's monitor, and goes with the process.

use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use serde_json::json;

use crate::error::VmError;
use crate::scaling::{INFORMANT_PORT, METRICS_PORT};

use super::{QemuMachine, failed};

/// By which address a guest on QEMU's own network finds the host's loopback.
const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 2, 2));

/// The way to the program in a guest.
#[derive(Clone, PartialEq, Eq)]
pub struct WayIn {
    /// Where it answers.
    pub informant: SocketAddr,
    /// Where its metrics are.
    pub metrics: SocketAddr,
    /// On which address of the host it is listened to.
    pub listen: IpAddr,
    /// By which address the guest reaches that.
    pub reached_by: IpAddr,
    /// What both prove themselves with: 64 hexadecimal digits.
    pub key: Vec<u8>,
}

impl QemuMachine {
    /// The way to the program in its guest; nothing where the machine is not sized.
    ///
    /// # Errors
    /// QEMU does not answer, or what it should have is not there.
    pub async fn way_in(&self) -> Result<Option<WayIn>, VmError> {
        let Some(scaling) = &self.spec().scaling else { return Ok(None) };
        let name = &self.spec().name;
        let key = self.guest_key()?;
        if let Some(guest) = scaling.guest {
            let listen = source_for(guest)
                .map_err(|source| failed(name, &format!("find a way to {guest}"), source))?;
            let at = |port| SocketAddr::new(guest, port);
            let (informant, metrics) = (at(INFORMANT_PORT), at(METRICS_PORT));
            return Ok(Some(WayIn { informant, metrics, listen, reached_by: listen, key }));
        }
        let told = self.ask("human-monitor-command", json!({ "command-line": "info usernet" }));
        let told = told.await?;
        let told = told.as_str().unwrap_or_default();
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let at = |port| {
            let found = forwarded(told, port).map(|port| SocketAddr::new(local, port));
            found.ok_or_else(|| {
                let words = format!("port {port} of the guest is not forwarded");
                failed(name, "find a way to its guest", io::Error::other(words))
            })
        };
        let (informant, metrics) = (at(INFORMANT_PORT)?, at(METRICS_PORT)?);
        Ok(Some(WayIn { informant, metrics, listen: local, reached_by: HOST, key }))
    }

    /// What the program in its guest proves itself with.
    ///
    /// # Errors
    /// It is not there.
    pub fn guest_key(&self) -> Result<Vec<u8>, VmError> {
        let read = fs::read(self.folder().guest_key());
        read.map_err(|source| failed(&self.spec().name, "read the key of its guest", source))
    }
}

/// The port of the host that leads to a port of the guest, in QEMU's table of connections.
fn forwarded(table: &str, guest_port: u16) -> Option<u16> {
    table.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let kind = words.next()?;
        // File, address and port of the host, address and port of the guest.
        let words: Vec<&str> = words.collect();
        let [_, _, host, _, guest, ..] = words.as_slice() else { return None };
        let is_it = kind == "TCP[HOST_FORWARD]" && guest.parse() == Ok(guest_port);
        host.parse().ok().filter(|_| is_it)
    })
}

/// By which address of this host somebody is reached. Nothing is sent.
fn source_for(guest: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match guest {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((guest, INFORMANT_PORT))?;
    Ok(socket.local_addr()?.ip())
}

impl fmt::Debug for WayIn {
    /// Without its key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by way of {}", self.informant, self.listen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_from_the_table() {
        let table = "Hub -1 (net0):\r\n  Protocol[State]    FD  Source Address  Port   Dest. \
                     Address  Port RecvQ SendQ\r\n  TCP[HOST_FORWARD]  14       127.0.0.1 44123    \
                     10.0.2.15  9100     0     0\r\n  TCP[ESTABLISHED]   15       10.0.2.15 44100 \
                     127.0.0.1 10301     0     0\r\n  TCP[HOST_FORWARD]  13       127.0.0.1 \
                     40001       10.0.2.15 10301     0     0\r\n";
        assert_eq!(forwarded(table, 10301), Some(40001));
        assert_eq!(forwarded(table, 9100), Some(44123));
        assert_eq!(forwarded(table, 22), None);
        assert_eq!(source_for(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap(), Ipv4Addr::LOCALHOST);
    }
}
