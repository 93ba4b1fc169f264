//! Disks: `/proc/diskstats` of the machine, and what a control group did with them.

use super::{lines, number, numbers, words};

/// The counters of one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its numbers.
    pub device: (u32, u32),
    /// Requests that it completed: reads and writes.
    pub operations: u64,
    /// What they took together, from their making to their end.
    pub time_ms: u64,
}

/// Reads `/proc/diskstats`. Disks that `wanted` wants, by their names, go to `disks`.
#[must_use]
pub fn disks(text: &[u8], wanted: impl Fn(&[u8]) -> bool, disks: &mut Vec<Disk>) -> Option<()> {
    disks.clear();
    for line in lines(text) {
        let mut words = words(line);
        let [major, minor] = numbers(&mut words)?;
        if !wanted(words.next()?) {
            continue;
        }
        let [reads, _, _, read_ms, writes, _, _, write_ms] = numbers(&mut words)?;
        disks.push(Disk {
            device: (u32::try_from(major).ok()?, u32::try_from(minor).ok()?),
            operations: reads.saturating_add(writes),
            time_ms: read_ms.saturating_add(write_ms),
        });
    }
    Some(())
}

/// Requests in `io.stat` of a group of the second version: those of `wanted` devices.
#[must_use]
pub fn io_stat_operations(text: &[u8], wanted: impl Fn((u32, u32)) -> bool) -> Option<u64> {
    let mut sum = 0_u64;
    for line in lines(text) {
        let mut words = words(line);
        if !wanted(device(words.next()?)?) {
            continue;
        }
        for word in words {
            let counted = word.strip_prefix(b"rios=").or_else(|| word.strip_prefix(b"wios="));
            if let Some(counted) = counted {
                sum = sum.saturating_add(number(counted)?);
            }
        }
    }
    Some(sum)
}

/// Requests in `blkio.throttle.io_serviced_recursive` of a group of the first version.
#[must_use]
pub fn blkio_operations(text: &[u8], wanted: impl Fn((u32, u32)) -> bool) -> Option<u64> {
    let mut sum = 0_u64;
    for line in lines(text) {
        let mut words = words(line);
        let first = words.next()?;
        // The last line is the sum over all devices, whatever they are.
        if first == b"Total" {
            continue;
        }
        let (device, kind) = (device(first)?, words.next()?);
        let counted = number(words.next()?)?;
        if wanted(device) && (kind == b"Read" || kind == b"Write") {
            sum = sum.saturating_add(counted);
        }
    }
    Some(sum)
}

/// The numbers in `major:minor`.
fn device(word: &[u8]) -> Option<(u32, u32)> {
    let colon = word.iter().position(|byte| *byte == b':')?;
    let (major, minor) = (number(word.get(..colon)?)?, number(word.get(colon + 1..)?)?);
    Some((u32::try_from(major).ok()?, u32::try_from(minor).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"   7       0 loop0 9 9 9 9 9 9 9 9 0 0 0\n\
        \x20254       0 vda 7367370 191764 285484058 41837502 1411205 995380 328795336 2139332 0 \
        1292000 44285956 579111 131 286104776 146390 283560 162731\n\
        \x20254       1 vda1 1 2 3 4 5 6 7 8 0 0 0\n";

    #[test]
    fn wanted_disks_are_read_and_others_are_not() {
        let mut found = Vec::new();
        assert_eq!(disks(TEXT, |name| name == b"vda", &mut found), Some(()));
        let vda = Disk { device: (254, 0), operations: 8_778_575, time_ms: 43_976_834 };
        assert_eq!(found, [vda]);
        assert_eq!(disks(b"", |_| true, &mut found), Some(()));
        assert_eq!(found, []);
        for text in ["8 0", "8 0 sda 1 2 3", "x 0 sda 1 2 3 4 5 6 7 8"] {
            assert_eq!(disks(text.as_bytes(), |_| true, &mut found), None, "{text}");
        }
    }

    #[test]
    fn a_groups_requests_are_those_of_wanted_devices() {
        let second = b"254:0 rbytes=1 wbytes=2 rios=30 wios=4 dbytes=0 dios=9\n\
                       7:0 rbytes=1 wbytes=1 rios=100 wios=100 dbytes=0 dios=0\n";
        let first = b"254:0 Read 30\n254:0 Write 4\n254:0 Sync 7\n254:0 Total 34\n\
                      7:0 Read 200\nTotal 234\n";
        assert_eq!(io_stat_operations(second, |device| device == (254, 0)), Some(34));
        assert_eq!(blkio_operations(first, |device| device == (254, 0)), Some(34));
        assert_eq!(blkio_operations(first, |_| true), Some(234));
        assert_eq!(io_stat_operations(b"", |_| true), Some(0));
        assert_eq!(blkio_operations(b"Total 0\n", |_| true), Some(0));
        for text in ["254 rios=1", "254:0 rios=x"] {
            assert_eq!(io_stat_operations(text.as_bytes(), |_| true), None, "{text}");
        }
        for text in ["254:0 Read", "254:0 Read x", "a:0 Read 1"] {
            assert_eq!(blkio_operations(text.as_bytes(), |_| true), None, "{text}");
        }
    }
}
