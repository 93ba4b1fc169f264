//! Patterns of paths: `*` is anything within a name, `**` anything at all, `?` one character.

use std::fmt;

/// The longest pattern, in characters. What is longer is no path of a cgroup that people write.
const LONGEST: usize = 512;

/// A pattern. Never empty, and never longer than it takes to match in a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    written: String,
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    One(char),
    AnyOne,
    WithinName,
    Anything,
}

impl Glob {
    /// The pattern that is written so, with or without a slash at its start.
    #[must_use]
    pub fn new(written: &str) -> Option<Self> {
        let pattern = written.trim_start_matches('/');
        if pattern.is_empty() || pattern.chars().count() > LONGEST {
            return None;
        }
        let mut parts = Vec::new();
        let mut characters = pattern.chars().peekable();
        while let Some(character) = characters.next() {
            parts.push(match character {
                '*' if characters.next_if_eq(&'*').is_some() => Part::Anything,
                '*' => Part::WithinName,
                '?' => Part::AnyOne,
                one => Part::One(one),
            });
        }
        Some(Self { written: written.to_owned(), parts })
    }

    /// Whether all of `path` fits.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        self.reached_after(path.chars())[self.parts.len()]
    }

    /// Whether a path below `path` may fit, and the pattern says so: one that starts with `**`
    /// names no place in particular.
    #[must_use]
    pub fn names_below(&self, path: &str) -> bool {
        let somewhere = self.parts.first() != Some(&Part::Anything);
        somewhere && self.reached_after(path.chars().chain(['/'])).contains(&true)
    }

    /// Which ends of the pattern so far can be reached after these characters.
    fn reached_after(&self, characters: impl Iterator<Item = char>) -> Vec<bool> {
        // All ways at once: no backtracking.
        let mut reached = vec![false; self.parts.len() + 1];
        reached[0] = true;
        self.skip_empty(&mut reached);
        for character in characters {
            let mut next = vec![false; reached.len()];
            for (place, part) in self.parts.iter().enumerate().filter(|(place, _)| reached[*place])
            {
                match part {
                    Part::One(one) => next[place + 1] |= *one == character,
                    Part::AnyOne => next[place + 1] |= character != '/',
                    Part::WithinName => next[place] |= character != '/',
                    Part::Anything => next[place] = true,
                }
            }
            self.skip_empty(&mut next);
            reached = next;
        }
        reached
    }

    /// A star may stand for nothing.
    fn skip_empty(&self, reached: &mut [bool]) {
        for (place, part) in self.parts.iter().enumerate() {
            if matches!(part, Part::WithinName | Part::Anything) {
                reached[place + 1] |= reached[place];
            }
        }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, path: &str) -> bool {
        Glob::new(pattern).expect("a pattern").matches(path)
    }

    #[test]
    fn a_star_stays_within_a_name_and_two_do_not() {
        assert!(check("batch/*", "batch/one"));
        assert!(check("/batch/*", "batch/one"));
        assert!(!check("batch/*", "batch/one/two"));
        assert!(check("batch/**", "batch/one/two"));
        assert!(!check("batch/*", "batch"));
        assert!(check("**/web-?", "a/b/web-1"));
        assert!(!check("**/web-?", "a/b/web-10"));
        assert!(check("*", ""));
        assert!(!check("a", ""));
        assert!(check("**", "anything/at/all"));
    }

    #[test]
    fn a_pattern_names_what_may_be_below_a_place() {
        let names = |pattern: &str, path: &str| Glob::new(pattern).unwrap().names_below(path);
        assert!(names("batch/*", "batch") && names("batch/**", "batch/one"));
        assert!(!names("batch/*", "batch/one") && !names("batch/*", "bat"));
        assert!(names("a/*/c", "a/b") && !names("a/*/c", "b"));
        assert!(!names("**/web", "anywhere"));
    }

    #[test]
    fn a_hostile_pattern_takes_no_longer_than_a_harmless_one() {
        let pattern = "*a".repeat(200);
        assert!(!check(&pattern, &"a".repeat(150)));
        assert!(check(&pattern, &"a".repeat(300)));
    }

    #[test]
    fn what_is_empty_or_endless_is_no_pattern() {
        assert_eq!(Glob::new(""), None);
        assert_eq!(Glob::new("/"), None);
        assert_eq!(Glob::new(&"x".repeat(513)), None);
    }
}
