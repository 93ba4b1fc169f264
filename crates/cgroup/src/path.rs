//! The path of a control group below the root of its hierarchy, as bytes.
//!
//! Names come from the maker of the group and may hold anything but a slash and a zero byte. A
//! path never leads upwards: there is no empty name, no `.` and no `..` in it. It prints escaped,
//! and two paths that print alike are the same path.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A path below the root of a hierarchy; the root itself is the empty path.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupPath(Vec<u8>);

// === impl CgroupPath ===

impl CgroupPath {
    /// The root of the hierarchy.
    pub const ROOT: Self = Self(Vec::new());

    /// A path from its bytes, with or without a slash in front; nothing if a name in it is empty,
    /// `.` or `..`, or if there is a zero byte.
    #[must_use]
    pub fn new(path: &[u8]) -> Option<Self> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        if path.is_empty() {
            return Some(Self::ROOT);
        }
        path.split(|&byte| byte == b'/').all(is_name).then(|| Self(path.to_vec()))
    }

    /// The group called `name` in this one; nothing if that is no name.
    #[must_use]
    pub fn join(&self, name: &[u8]) -> Option<Self> {
        if !is_name(name) || name.contains(&b'/') {
            return None;
        }
        let mut path = self.0.clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Some(Self(path))
    }

    /// The group that this one is in; nothing for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        if self.0.is_empty() {
            return None;
        }
        let end = self.0.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        Some(Self(self.0.get(..end).unwrap_or_default().to_vec()))
    }

    /// The last name; empty for the root.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.names().last().unwrap_or_default()
    }

    /// The names from the root down.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|&byte| byte == b'/').filter(|name| !name.is_empty())
    }

    /// How many names there are.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.names().count()
    }

    /// Whether this group is below `other`.
    #[must_use]
    pub fn is_below(&self, other: &Self) -> bool {
        match self.0.strip_prefix(other.0.as_slice()) {
            Some(rest) if other.0.is_empty() => !rest.is_empty(),
            Some(rest) => rest.starts_with(b"/"),
            None => false,
        }
    }

    /// The bytes, without a slash in front.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Where it is below `root`.
    #[must_use]
    pub fn under(&self, root: &Path) -> PathBuf {
        root.join(OsStr::from_bytes(&self.0))
    }
}

/// With a slash in front. What is not printable, and the backslash, is escaped.
impl fmt::Display for CgroupPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("/")?;
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '\\' => f.write_str("\\\\")?,
                    '\'' | '"' => write!(f, "{character}")?,
                    character => write!(f, "{}", character.escape_debug())?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &[u8]) -> String {
        CgroupPath::new(path).map_or("refused".to_owned(), |path| path.to_string())
    }

    #[test]
    fn a_path_never_leads_upwards() {
        assert_eq!(check(b""), "/");
        assert_eq!(check(b"/"), "/");
        assert_eq!(check(b"/a/b"), "/a/b");
        assert_eq!(check(b"a/b"), "/a/b");
        assert_eq!(check(b"a/...b"), "/a/...b");
        for path in [&b"a/../b"[..], b"..", b"a//b", b"a/", b"./a", b"//a", b"a\0b"] {
            assert_eq!(check(path), "refused", "{path:?}");
        }
        assert_eq!(CgroupPath::ROOT.join(b"a/b"), None);
        assert_eq!(CgroupPath::ROOT.join(b".."), None);
    }

    #[test]
    fn what_cannot_be_printed_is_escaped_and_nothing_looks_like_something_else() {
        assert_eq!(check(b"a\nb\x1b[31m"), "/a\\nb\\u{1b}[31m");
        assert_eq!(check(b"a\xffb"), "/a\\xffb");
        assert_eq!(check(br"a\xffb"), r"/a\\xffb");
        assert_eq!(check("caf\u{e9}'s".as_bytes()), "/caf\u{e9}'s");
        // A mark that would turn the text around is escaped, too.
        assert_eq!(check("a\u{202e}b".as_bytes()), "/a\\u{202e}b");
    }

    #[test]
    fn parents_and_names_are_those_of_the_path() {
        let path = CgroupPath::new(b"a/bb/c").unwrap();
        assert_eq!((path.depth(), path.name()), (3, &b"c"[..]));
        let parent = path.parent().unwrap();
        assert_eq!(parent.to_string(), "/a/bb");
        assert_eq!(parent.join(b"c"), Some(path.clone()));
        assert_eq!(parent.parent().unwrap().parent(), Some(CgroupPath::ROOT));
        assert_eq!(CgroupPath::ROOT.parent(), None);
        assert!(path.is_below(&parent) && path.is_below(&CgroupPath::ROOT));
        assert!(!parent.is_below(&parent));
        assert!(!CgroupPath::new(b"a/bbc").unwrap().is_below(&parent));
    }
}
