//! Bytes of the kernel's files to counters.
//!
//! The sampler calls one function for each file. Every function takes any bytes without a panic,
//! does work linear in their number, and says nothing where they are not what they should be: the
//! caller knows the file's name. Lists are written into a vector that the caller keeps, so that a
//! look allocates nothing once it has its size.

mod disk;
mod memory;
mod net;
mod stat;

pub use disk::{Disk, blkio_operations, disks, io_stat_operations};
pub use memory::{Memory, memory};
pub use net::{Interface, InterfaceName, interfaces};
pub use stat::{CpuTimes, Stat, stat};

/// The lines of a text.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// The words of a line.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// The number that a word is.
pub(crate) fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// The next `N` words as numbers.
pub(crate) fn numbers<'a, const N: usize>(
    words: &mut impl Iterator<Item = &'a [u8]>,
) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = self::number(words.next()?)?;
    }
    Some(numbers)
}
