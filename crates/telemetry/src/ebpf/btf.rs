//! Names of an enumeration of the running kernel, from its own description of its types.
//!
//! The numbers of reasons why packets are dropped differ from kernel to kernel, so their names have
//! to come from the kernel that gives the numbers.

use std::collections::BTreeMap;

const MAGIC: u32 = 0xEB9F;
/// No enumeration that is asked for has more names.
const NAMES_MAX: usize = 4096;

/// The names of the enumeration `wanted` in a description of types, by their values.
pub(super) fn names(btf: &[u8], wanted: &str) -> Option<BTreeMap<u32, String>> {
    let head = word(btf, 0)?;
    if head & 0xFFFF != MAGIC {
        return None;
    }
    let header = word(btf, 4)?;
    let section = |offset: u32, length: u32| {
        let start = usize::try_from(header.checked_add(offset)?).ok()?;
        btf.get(start..start.checked_add(usize::try_from(length).ok()?)?)
    };
    let types = section(word(btf, 8)?, word(btf, 12)?)?;
    let strings = section(word(btf, 16)?, word(btf, 20)?)?;
    let name = |offset: u32| {
        let bytes = strings.get(usize::try_from(offset).ok()?..)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        std::str::from_utf8(bytes.get(..end)?).ok()
    };
    let mut at = 0;
    while at < types.len() {
        let (named, info) = (word(types, at)?, word(types, at + 4)?);
        let (kind, members) = (info >> 24 & 0x1F, usize::try_from(info & 0xFFFF).ok()?);
        at += 12;
        if kind == ENUM && name(named) == Some(wanted) {
            let value = |place: usize| {
                let member = at.checked_add(place.checked_mul(8)?)?;
                Some((word(types, member + 4)?, name(word(types, member)?)?.to_owned()))
            };
            return (0..members.min(NAMES_MAX)).map(value).collect();
        }
        at = at.checked_add(size_after(kind, members)?)?;
    }
    None
}

const ENUM: u32 = 6;

/// How much follows the three words that every type begins with.
fn size_after(kind: u32, members: usize) -> Option<usize> {
    match kind {
        // Numbers, variables, tags of declarations.
        1 | 14 | 17 => Some(4),
        // Arrays.
        3 => Some(12),
        // Structures, unions, sections, enumerations of 64 bits.
        4 | 5 | 15 | 19 => members.checked_mul(12),
        // Enumerations and prototypes.
        ENUM | 13 => members.checked_mul(8),
        // Pointers, modifiers, names and the like.
        2 | 7..=12 | 16 | 18 => Some(0),
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description with a number, a structure of one field and two enumerations.
    fn described() -> Vec<u8> {
        let strings = b"\0int\0other\0wanted\0FIRST\0SECOND\0";
        let place = |name: &str| {
            let at = strings
                .windows(name.len() + 1)
                .position(|it| it == [name.as_bytes(), b"\0"].concat());
            u32::try_from(at.unwrap()).unwrap()
        };
        let mut types: Vec<u32> = vec![place("int"), 1 << 24, 4, 32];
        types.extend([0, 4 << 24 | 1, 8, place("int"), 1, 0]);
        types.extend([place("other"), ENUM << 24 | 1, 4, place("FIRST"), 1]);
        types.extend([place("wanted"), ENUM << 24 | 2, 4]);
        types.extend([place("FIRST"), 7, place("SECOND"), 90]);
        let types: Vec<u8> = types.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (types_long, strings_long) = (types.len(), strings.len());
        let mut header = vec![0x9F, 0xEB, 1, 0];
        for word in [24, 0, types_long, types_long, strings_long] {
            header.extend(u32::try_from(word).unwrap().to_le_bytes());
        }
        [header, types, strings.to_vec()].concat()
    }

    #[test]
    fn names_are_found_past_other_types() {
        let found = names(&described(), "wanted").unwrap();
        let told: Vec<_> = found.iter().map(|(value, name)| format!("{value} {name}")).collect();
        assert_eq!(told, ["7 FIRST", "90 SECOND"]);
        assert_eq!(names(&described(), "missing"), None);
    }

    #[test]
    fn what_is_cut_off_or_something_else_is_refused() {
        let whole = described();
        for length in 0..whole.len() {
            names(&whole[..length], "wanted");
        }
        assert_eq!(names(b"", "wanted"), None);
        let mut other = whole.clone();
        other[0] = 0;
        assert_eq!(names(&other, "wanted"), None);
    }
}
