//! `/proc/net/dev`: what interfaces received, sent and dropped.

use super::{lines, numbers, words};

/// A name is shorter than this in Linux.
const NAME_BYTES: usize = 16;

/// The name of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceName([u8; NAME_BYTES]);

/// The counters of one interface, in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: InterfaceName,
    /// Received.
    pub received: u64,
    /// Sent.
    pub sent: u64,
    /// Dropped, in either direction.
    pub dropped: u64,
}

/// Reads the file. Interfaces that `wanted` wants go to `found`.
#[must_use]
pub fn interfaces(
    text: &[u8],
    wanted: impl Fn(&[u8]) -> bool,
    found: &mut Vec<Interface>,
) -> Option<()> {
    found.clear();
    // The first two lines are headings.
    for line in lines(text).skip(2) {
        // A name may have a colon in it; what follows the last one are numbers.
        let colon = line.iter().rposition(|byte| *byte == b':')?;
        let name = line.get(..colon)?.trim_ascii();
        if !wanted(name) {
            continue;
        }
        let mut words = words(line.get(colon + 1..)?);
        let [_, received, _, lost_in, _, _, _, _] = numbers(&mut words)?;
        let [_, sent, _, lost_out] = numbers(&mut words)?;
        let (name, dropped) = (InterfaceName::new(name)?, lost_in.saturating_add(lost_out));
        found.push(Interface { name, received, sent, dropped });
    }
    Some(())
}

// === impl InterfaceName ===

impl InterfaceName {
    /// A name from its bytes; nothing if it is too long to be one.
    #[must_use]
    pub fn new(name: &[u8]) -> Option<Self> {
        let mut bytes = [0; NAME_BYTES];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        Some(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Inter-|   Receive                  |  Transmit\n\
        face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop\n\
        \x20   lo: 35 6 0 0 0 0 0 0 35 6 0 0 0 0 0 0\n\
        \x20 eth0: 1004274940 50396 0 7 0 0 0 0 3346653 34185 0 2 0 0 0 0\n\
        a:b0:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n";

    #[test]
    fn wanted_interfaces_are_read() {
        let mut found = Vec::new();
        assert_eq!(interfaces(TEXT.as_bytes(), |name| name != b"lo", &mut found), Some(()));
        let named = |name| InterfaceName::new(name).unwrap();
        let eth0 = Interface { name: named(b"eth0"), received: 50_396, sent: 34_185, dropped: 9 };
        let odd = Interface { name: named(b"a:b0"), received: 2, sent: 10, dropped: 16 };
        assert_eq!(found, [eth0, odd]);
    }

    #[test]
    fn what_is_damaged_is_refused() {
        let mut found = Vec::new();
        assert_eq!(interfaces(b"", |_| true, &mut found), Some(()));
        for line in ["eth0 1 2", "eth0: 1 2 3", "eth0: a b c d e f g h i j k l"] {
            let text = format!("h\nh\n{line}\n");
            assert_eq!(interfaces(text.as_bytes(), |_| true, &mut found), None, "{line}");
        }
        assert_eq!(InterfaceName::new(&[b'x'; 17]), None);
    }
}
