//! Who is connected, and who has to go when there is no room for the next one.
//!
//! No connection is kept waiting: one that comes is served. Where that is too many of one peer,
//! its oldest goes; where it is too many of all, the oldest of the peer that has most. So a
//! client takes connections only from itself, however many it opens.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// So many connections at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Of one peer.
    pub(super) of_one: usize,
    /// Of all together.
    pub(super) of_all: usize,
}

/// A client, as far as addresses tell clients apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Peer(IpAddr);

/// Who is connected, with something to end each connection by.
#[derive(Debug)]
pub(super) struct Peers<T> {
    room: Room,
    next: u64,
    /// By the order in which they came.
    connections: BTreeMap<u64, (Peer, T)>,
    counts: BTreeMap<Peer, usize>,
}

// === impl Peer ===

impl Peer {
    /// The peer with this address. All of this machine's own addresses are one, since anybody on it
    /// has all of them; so are those of a network of the sixth version, which one machine has.
    pub(super) fn of(address: IpAddr) -> Self {
        let address = address.to_canonical();
        if address.is_loopback() {
            return Self(IpAddr::V6(Ipv6Addr::LOCALHOST));
        }
        Self(match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(six) => {
                let [a, b, c, d, ..] = six.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
        })
    }
}

// === impl Peers ===

impl<T> Peers<T> {
    /// No connections, and so much room.
    pub(super) const fn new(room: Room) -> Self {
        Self { room, next: 0, connections: BTreeMap::new(), counts: BTreeMap::new() }
    }

    /// Whether one more of `peer` would make none go.
    pub(super) fn has_room_for(&self, peer: Peer) -> bool {
        self.goes_for(peer).is_none()
    }

    /// A connection came, which ends by `end`. Says its number, and what ends the one that has to
    /// go for it.
    pub(super) fn came(&mut self, peer: Peer, end: T) -> (u64, Option<T>) {
        let goes = self.goes_for(peer).and_then(|number| self.went(number));
        let number = self.next;
        self.next += 1;
        self.connections.insert(number, (peer, end));
        *self.counts.entry(peer).or_default() += 1;
        (number, goes)
    }

    /// A connection is over.
    pub(super) fn went(&mut self, number: u64) -> Option<T> {
        let (peer, end) = self.connections.remove(&number)?;
        if let Some(count) = self.counts.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&peer);
            }
        }
        Some(end)
    }

    fn goes_for(&self, peer: Peer) -> Option<u64> {
        if self.counts.get(&peer).is_some_and(|&count| count >= self.room.of_one) {
            return self.oldest(|it| it == peer);
        }
        if self.connections.len() < self.room.of_all {
            return None;
        }
        let most = self.counts.values().copied().max()?;
        self.oldest(|it| self.counts.get(&it) == Some(&most))
    }

    fn oldest(&self, fits: impl Fn(Peer) -> bool) -> Option<u64> {
        let mut connections = self.connections.iter();
        connections.find(|(_, (peer, _))| fits(*peer)).map(|(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who goes as these come, in their order: a letter is an address.
    fn check(of_one: usize, of_all: usize, coming: &str) -> String {
        let mut peers = Peers::new(Room { of_one, of_all });
        let goes = coming.chars().enumerate().map(|(place, letter)| {
            let address = format!("10.0.0.{}", u32::from(letter) % 256).parse().unwrap();
            let (_, goes) = peers.came(Peer::of(address), format!("{letter}{place}"));
            goes.unwrap_or_else(|| "-".to_owned())
        });
        goes.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn whoever_opens_too_many_loses_its_own() {
        assert_eq!(check(2, 9, "aabaab"), "- - - a0 a1 -");
    }

    #[test]
    fn where_there_is_no_room_the_oldest_of_who_has_most_goes() {
        assert_eq!(check(9, 4, "aaabcd"), "- - - - a0 a1");
        assert_eq!(check(9, 3, "abcde"), "- - - a0 b1", "all have as many");
    }

    #[test]
    fn a_connection_that_is_over_makes_room() {
        let mut peers = Peers::new(Room { of_one: 1, of_all: 9 });
        let peer = Peer::of("10.0.0.1".parse().unwrap());
        let (first, _) = peers.came(peer, 'a');
        assert_eq!(peers.went(first), Some('a'));
        assert_eq!(peers.went(first), None);
        assert_eq!(peers.came(peer, 'b').1, None);
    }

    #[test]
    fn addresses_that_one_machine_has_are_one_peer() {
        let peer = |address: &str| Peer::of(address.parse().unwrap());
        assert_eq!(peer("127.0.0.1"), peer("127.9.9.9"));
        assert_eq!(peer("127.0.0.1"), peer("::1"));
        assert_eq!(peer("10.0.0.1"), peer("::ffff:10.0.0.1"));
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff:1"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_ne!(peer("10.0.0.1"), peer("10.0.0.2"));
    }
}
