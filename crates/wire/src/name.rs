//! What the name of a workload or family may be made of.
//!
//! Called by the kinds of names. A name is printed in tables and on terminals, so no character may
//! move the cursor, change the direction of the text or be invisible: a name is what it looks like.
//! The reader, the message and the schema all follow [`FORBIDDEN`].

use std::fmt::Write;

/// The longest name, in characters (Unicode code points, which is what JSON Schema counts).
pub(crate) const NAME_MAX: usize = 512;

/// The characters no name may have: the first and last of each range, and what they are.
const FORBIDDEN: [(char, char, &str); 12] = [
    ('\0', '\u{1f}', "a control character"),
    ('\u{7f}', '\u{9f}', "a control character"),
    ('\u{ad}', '\u{ad}', "a soft hyphen"),
    ('\u{61c}', '\u{61c}', "a direction mark"),
    ('\u{200b}', '\u{200d}', "a zero-width character"),
    ('\u{200e}', '\u{200f}', "a direction mark"),
    ('\u{2028}', '\u{2029}', "a separator of lines"),
    ('\u{202a}', '\u{202e}', "a change of direction"),
    ('\u{2060}', '\u{206f}', "an invisible format character"),
    ('\u{feff}', '\u{feff}', "a byte order mark"),
    ('\u{fff9}', '\u{fffb}', "an annotation mark"),
    ('\u{e0000}', '\u{e007f}', "an invisible tag"),
];

/// Whether `name` may be one.
pub(crate) fn is_name(name: &str) -> bool {
    // No character is shorter than a byte: most names need not be counted.
    let short = name.len() <= NAME_MAX || name.chars().nth(NAME_MAX).is_none();
    !name.is_empty() && short && forbidden(name).is_none()
}

/// The first character of `name` that no name may have, in words.
pub(crate) fn objection(name: &str) -> Option<String> {
    let (character, what) = forbidden(name)?;
    Some(format!("contains U+{:04X}, {what}", u32::from(character)))
}

/// The characters a name may have, as the regular expression of a JSON Schema.
pub(crate) fn pattern() -> String {
    let mut pattern = String::from("^[^");
    for (first, last, _) in FORBIDDEN {
        add_to_pattern(&mut pattern, first);
        if first != last {
            pattern.push('-');
            add_to_pattern(&mut pattern, last);
        }
    }
    pattern + "]*$"
}

fn forbidden(name: &str) -> Option<(char, &'static str)> {
    // Almost all names are plain: one quick look spares them the search.
    if name.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        return None;
    }
    name.chars().find_map(|character| {
        let holds = |(first, last, _): &&(char, char, &str)| (*first..=*last).contains(&character);
        FORBIDDEN.iter().find(holds).map(|&(_, _, what)| (character, what))
    })
}

/// An escape of four digits is the only one that all dialects share; where that is too short, the
/// character stands for itself.
fn add_to_pattern(pattern: &mut String, character: char) {
    match u16::try_from(u32::from(character)) {
        Ok(code) => write!(pattern, "\\u{code:04x}").expect("a string takes all that is written"),
        Err(_) => pattern.push(character),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str) -> String {
        match (is_name(name), objection(name)) {
            (true, None) => "fine".to_owned(),
            (false, None) => "refused".to_owned(),
            (false, Some(objection)) => objection,
            (true, Some(objection)) => panic!("accepted, although it {objection}"),
        }
    }

    /// The ranges that a pattern excludes.
    fn excluded(pattern: &str) -> Vec<(char, char)> {
        let class = pattern.strip_prefix("^[^").unwrap().strip_suffix("]*$").unwrap();
        let mut ranges = Vec::new();
        let mut characters = class.chars().peekable();
        let next = |characters: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let character = characters.next().unwrap();
            if character != '\\' {
                return character;
            }
            let digits: String = characters.by_ref().skip(1).take(4).collect();
            char::from_u32(u32::from_str_radix(&digits, 16).unwrap()).unwrap()
        };
        while characters.peek().is_some() {
            let first = next(&mut characters);
            let last =
                if characters.next_if_eq(&'-').is_some() { next(&mut characters) } else { first };
            ranges.push((first, last));
        }
        ranges
    }

    #[test]
    fn a_name_is_what_it_looks_like() {
        assert_eq!(check("web 1"), "fine");
        assert_eq!(check("größe-東京-🦭"), "fine");
        assert_eq!(check(""), "refused");
        assert_eq!(check("a\nb"), "contains U+000A, a control character");
        assert_eq!(check("\u{9b}31m"), "contains U+009B, a control character");
        assert_eq!(check("soft\u{ad}hyphen"), "contains U+00AD, a soft hyphen");
        assert_eq!(check("a\u{61c}b"), "contains U+061C, a direction mark");
        assert_eq!(check("we\u{200b}b"), "contains U+200B, a zero-width character");
        assert_eq!(check("a\u{2028}b"), "contains U+2028, a separator of lines");
        assert_eq!(check("a\u{202e}gpj.exe"), "contains U+202E, a change of direction");
        assert_eq!(check("a\u{2066}b"), "contains U+2066, an invisible format character");
        assert_eq!(check("\u{feff}a"), "contains U+FEFF, a byte order mark");
        assert_eq!(check("a\u{fffa}"), "contains U+FFFA, an annotation mark");
        assert_eq!(check("a\u{e0041}"), "contains U+E0041, an invisible tag");
    }

    #[test]
    fn length_is_counted_in_characters() {
        assert_eq!(check(&"ä".repeat(NAME_MAX)), "fine");
        assert_eq!(check(&"ä".repeat(NAME_MAX + 1)), "refused");
        assert_eq!(check(&"x".repeat(NAME_MAX)), "fine");
        assert_eq!(check(&"x".repeat(NAME_MAX + 1)), "refused");
    }

    #[test]
    fn the_pattern_excludes_exactly_what_the_reader_refuses() {
        let ranges = excluded(&pattern());
        for character in '\0'..=char::MAX {
            let excluded = ranges.iter().any(|(first, last)| (*first..=*last).contains(&character));
            let refused = !is_name(character.encode_utf8(&mut [0; 4]));
            assert_eq!(refused, excluded, "{character:?}");
        }
    }

    #[test]
    fn every_control_character_is_forbidden() {
        let controls = ('\0'..=char::MAX).filter(|character| character.is_control());
        for character in controls {
            assert!(!is_name(character.encode_utf8(&mut [0; 4])), "{character:?}");
        }
    }
}
