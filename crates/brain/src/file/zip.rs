//! As much of the ZIP format as PyTorch's files need: members that are stored and not compressed.

use super::FileError;

const END: &[u8; 4] = b"PK\x05\x06";
const ENTRY: &[u8; 4] = b"PK\x01\x02";
const LOCAL: &[u8; 4] = b"PK\x03\x04";
/// The longest comment that may follow the end record.
const COMMENT: usize = 65_535;
/// More members than any model has.
const MEMBERS: usize = 10_000;

/// The members, by name.
pub(super) fn members(bytes: &[u8]) -> Result<Vec<(String, &[u8])>, FileError> {
    list(bytes).ok_or_else(|| FileError::Broken {
        format: "PyTorch",
        what: "it is not a ZIP archive of stored members, as torch.save writes it".to_owned(),
    })
}

fn list(bytes: &[u8]) -> Option<Vec<(String, &[u8])>> {
    let earliest = bytes.len().saturating_sub(COMMENT + 22);
    let end = earliest + bytes.get(earliest..)?.windows(4).rposition(|window| window == END)?;
    let count = number(bytes, end + 10, 2)?;
    let mut at = number(bytes, end + 16, 4)?;
    if count > MEMBERS {
        return None;
    }
    let mut found = Vec::new();
    for _ in 0..count {
        if bytes.get(at..at + 4)? != ENTRY {
            return None;
        }
        let [method, size, name, extra, comment, local] =
            [(10, 2), (24, 4), (28, 2), (30, 2), (32, 2), (42, 4)]
                .map(|(offset, width)| number(bytes, at + offset, width));
        let (name, size) = (name?, size?);
        if method? != 0 {
            return None;
        }
        let text = std::str::from_utf8(bytes.get(at + 46..at + 46 + name)?).ok()?;
        found.push((text.to_owned(), member(bytes, local?, size)?));
        at += 46 + name + extra? + comment?;
    }
    Some(found)
}

fn member(bytes: &[u8], at: usize, size: usize) -> Option<&[u8]> {
    if bytes.get(at..at.checked_add(4)?)? != LOCAL {
        return None;
    }
    let from = at + 30 + number(bytes, at + 26, 2)? + number(bytes, at + 28, 2)?;
    bytes.get(from..from.checked_add(size)?)
}

/// A number of at most four bytes, the lowest first.
fn number(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    bytes
        .iter()
        .rev()
        .try_fold(0_usize, |sum, byte| sum.checked_mul(256)?.checked_add(usize::from(*byte)))
}
