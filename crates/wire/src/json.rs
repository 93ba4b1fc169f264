//! Bounded, strict reading of JSON: one document from a reader, or one line at a time.
//!
//! Called by every message's `read` or `parse_line`. Bytes are taken as they are needed, so a
//! gigabyte of garbage fails at its first bad byte. Every error says where it is: the path, the
//! line and the column, and what stands there.

use std::fmt;
use std::io::{self, BufRead, Read};

use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};
use thiserror::Error;

use crate::field::{Problems, shown_name};

/// A document larger than this is refused, in bytes.
pub const DOCUMENT_MAX: u64 = 512 << 20;
/// A line longer than this is refused, in bytes.
pub const LINE_MAX: usize = 1 << 20;

/// So many bytes before the place of an error are shown with it.
const NEAR_BEFORE: usize = 24;
/// So many bytes after it.
const NEAR_AFTER: usize = 12;
/// What was found instead of something else is shown up to this many characters.
const FOUND_MAX: usize = 60;
const BUFFER_SIZE: usize = 64 << 10;

/// Why something could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It is JSON, but not what it should be.
    #[error("{0}")]
    Invalid(Problems),
    /// It is not JSON, or of another shape than it should be.
    #[error("{0}")]
    Malformed(Malformed),
    /// It is a document of more than [`DOCUMENT_MAX`] bytes.
    #[error("more than {} MiB of input", DOCUMENT_MAX >> 20)]
    DocumentTooLong,
    /// It is a message of more bytes than one of its kind has.
    #[error("a message of more than {most} bytes")]
    MessageTooLong {
        /// How many it may have.
        most: usize,
    },
    /// It is a line of more than [`LINE_MAX`] bytes.
    #[error("line {line}: longer than {LINE_MAX} bytes")]
    LineTooLong {
        /// The number of the line.
        line: u64,
    },
    /// The bytes could not be had.
    #[error("cannot be read: {0}")]
    Io(io::Error),
}

/// What is wrong with the JSON itself, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The field, as far as it is known; empty at the top.
    pub path: String,
    /// The line.
    pub line: u64,
    /// The byte in the line.
    pub column: u64,
    /// Whether the document is a single line among others.
    pub is_line: bool,
    /// What is wrong.
    pub problem: String,
    /// What stands there; empty where the text ends.
    pub near: String,
}

/// The lines of a reader, one at a time.
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    line: Vec<u8>,
    number: u64,
}

/// Reads one document, all of it.
pub(crate) fn document<T: DeserializeOwned>(reader: impl Read) -> Result<T, ReadError> {
    document_up_to(DOCUMENT_MAX, reader)
}

fn document_up_to<T: DeserializeOwned>(limit: u64, reader: impl Read) -> Result<T, ReadError> {
    let mut bounded = Bounded::new(limit, reader);
    let mut json = serde_json::Deserializer::from_reader(&mut bounded);
    let outcome = read_whole(&mut json);
    drop(json);
    outcome.map_err(|(path, error)| {
        if bounded.exceeded {
            return ReadError::DocumentTooLong;
        }
        if error.classify() == Category::Io {
            return ReadError::Io(error.into());
        }
        ReadError::Malformed(Malformed {
            path,
            line: wide(error.line()),
            column: wide(error.column()),
            is_line: false,
            problem: in_words(&error),
            near: bounded.near(),
        })
    })
}

/// Reads one message of at most so many bytes, all of it.
pub(crate) fn message<T: DeserializeOwned>(bytes: &[u8], most: usize) -> Result<T, ReadError> {
    if bytes.len() > most {
        return Err(ReadError::MessageTooLong { most });
    }
    document_up_to(wide(most), bytes)
}

/// Reads one line, all of it.
pub(crate) fn line<T: DeserializeOwned>(bytes: &[u8], number: u64) -> Result<T, ReadError> {
    if bytes.len() > LINE_MAX {
        return Err(ReadError::LineTooLong { line: number });
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    read_whole(&mut json).map_err(|(path, error)| {
        ReadError::Malformed(Malformed {
            path,
            line: number,
            column: wide(error.column()),
            is_line: true,
            problem: in_words(&error),
            near: near(bytes, error.column()),
        })
    })
}

fn read_whole<'de, T: DeserializeOwned, R: serde_json::de::Read<'de>>(
    json: &mut serde_json::Deserializer<R>,
) -> Result<T, (String, serde_json::Error)> {
    let value = serde_path_to_error::deserialize(&mut *json)
        .map_err(|error| (shown_path(error.path()), error.into_inner()))?;
    json.end().map_err(|error| (String::new(), error))?;
    Ok(value)
}

/// The path as far as it is known, with names that are fit for printing.
fn shown_path(path: &Path) -> String {
    let mut shown = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => shown += &format!("[{index}]"),
            Segment::Map { key: name } | Segment::Enum { variant: name } => {
                if !shown.is_empty() {
                    shown.push('.');
                }
                shown += &shown_name(name);
            }
            Segment::Unknown => {}
        }
    }
    shown
}

/// The library's message without its place, which is told separately.
fn in_words(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    match error.classify() {
        Category::Eof => "the text ends in the middle of the JSON".to_owned(),
        Category::Syntax => format!("not JSON: {text}"),
        Category::Data | Category::Io => {
            let wrong_type = text.strip_prefix("invalid type: ");
            match wrong_type.and_then(|text| text.rsplit_once(", expected ")) {
                Some((found, expected)) => format!("expected {expected}, found {}", cut(found)),
                None => text.to_owned(),
            }
        }
    }
}

/// What was found instead, in the words of JSON, and never long.
fn cut(found: &str) -> String {
    match found {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        value => match value.char_indices().nth(FOUND_MAX) {
            Some((end, _)) => printable(&value.as_bytes()[..end]) + "...",
            None => printable(value.as_bytes()),
        },
    }
}

/// What stands around `place` in `bytes`, on the same line and fit for printing.
fn near(bytes: &[u8], place: usize) -> String {
    let place = place.min(bytes.len());
    let (before, after) = bytes.split_at(place);
    let start = before.len().saturating_sub(NEAR_BEFORE);
    // A text that is cut off often has a line end as its last byte.
    let before = if after.is_empty() { before[start..].trim_ascii_end() } else { &before[start..] };
    let before = before.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
    let after = &after[..after.len().min(NEAR_AFTER)];
    let after = after.split(|&byte| byte == b'\n').next().unwrap_or_default();
    printable([before, after].concat().trim_ascii())
}

fn printable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for character in String::from_utf8_lossy(bytes).chars() {
        if character == '"' || character == '\'' {
            text.push(character);
        } else {
            text.extend(character.escape_debug());
        }
    }
    text
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

// === impl Malformed ===

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, column, is_line, problem, near } = self;
        if *is_line {
            write!(f, "line {line}: ")?;
        }
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        f.write_str(problem)?;
        if !near.is_empty() {
            write!(f, ", near `{near}`")?;
        }
        if *is_line {
            write!(f, " (column {column})")
        } else {
            write!(f, " (line {line}, column {column})")
        }
    }
}

// === impl Lines ===

impl<R: BufRead> Lines<R> {
    /// The lines of `reader`.
    pub const fn new(reader: R) -> Self {
        Self { reader, line: Vec::new(), number: 0 }
    }

    /// The next line that is not blank, without its end, and its number counted from one; nothing
    /// at the end of the input.
    ///
    /// # Errors
    /// The line is too long, or cannot be read.
    pub fn next_line(&mut self) -> Result<Option<(u64, &[u8])>, ReadError> {
        loop {
            self.line.clear();
            self.number += 1;
            // One byte for the end of the line, and one to tell that there is more.
            let mut bounded = (&mut self.reader).take(wide(LINE_MAX) + 2);
            if bounded.read_until(b'\n', &mut self.line).map_err(ReadError::Io)? == 0 {
                return Ok(None);
            }
            if self.line.last() == Some(&b'\n') {
                self.line.pop();
            }
            if self.line.len() > LINE_MAX {
                return Err(ReadError::LineTooLong { line: self.number });
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(Some((self.number, &self.line)));
            }
        }
    }
}

// === Bounded ===

/// Reads so many bytes and no more, and remembers the last ones to show where an error is.
struct Bounded<R> {
    reader: R,
    buffer: Box<[u8]>,
    /// The next byte to hand out; some that were handed out stand before it.
    start: usize,
    end: usize,
    left: u64,
    exceeded: bool,
}

impl<R: Read> Bounded<R> {
    fn new(limit: u64, reader: R) -> Self {
        let buffer = vec![0; BUFFER_SIZE].into_boxed_slice();
        Self { reader, buffer, start: 0, end: 0, left: limit, exceeded: false }
    }

    fn near(&self) -> String {
        near(&self.buffer[..self.end], self.start)
    }

    /// Fetches more bytes; keeps the last ones that were handed out.
    fn refill(&mut self) -> io::Result<()> {
        let kept = self.start.min(NEAR_BEFORE);
        self.buffer.copy_within(self.start - kept..self.start, 0);
        (self.start, self.end) = (kept, kept);
        let read = self.reader.read(&mut self.buffer[kept..])?;
        self.left = match self.left.checked_sub(wide(read)) {
            Some(left) => left,
            None => {
                self.exceeded = true;
                return Err(io::Error::other("too long"));
            }
        };
        self.end = kept + read;
        Ok(())
    }
}

impl<R: Read> Read for Bounded<R> {
    #[inline]
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end {
            self.refill()?;
        }
        let count = out.len().min(self.end - self.start);
        out[..count].copy_from_slice(&self.buffer[self.start..self.start + count]);
        self.start += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn check_document(bytes: &[u8]) -> String {
        match document::<Value>(bytes) {
            Ok(value) => value.to_string(),
            Err(error) => error.to_string(),
        }
    }

    fn check_line(text: &str) -> String {
        line::<Value>(text.as_bytes(), 17).unwrap_err().to_string()
    }

    #[test]
    fn a_document_is_read_to_its_end() {
        assert_eq!(check_document(b" {\"a\": 1}\n\n"), "{\"a\":1}");
        assert_eq!(
            check_document(b"{}\n{}"),
            "not JSON: trailing characters, near `{}` (line 2, column 1)"
        );
    }

    #[test]
    fn an_error_says_where_it_is_and_what_stands_there() {
        assert_eq!(
            check_document(b"{\"pods\": [\n  {\"demand\": NaN}]}"),
            "pods[0].demand: not JSON: expected value, near `{\"demand\": NaN}]}` \
             (line 2, column 14)"
        );
        assert_eq!(
            check_line("{\"at_ms\": nil}"),
            "line 17: at_ms: not JSON: expected ident, near `{\"at_ms\": nil}` (column 12)"
        );
    }

    #[test]
    fn a_text_that_ends_early_is_told_apart() {
        let told = "pods: the text ends in the middle of the JSON, near `{\"pods\": [` \
                    (line 1, column 10)";
        assert_eq!(check_document(b"{\"pods\": ["), told);
        assert_eq!(
            check_document(b""),
            "the text ends in the middle of the JSON (line 1, column 0)"
        );
    }

    #[test]
    fn a_path_ends_where_it_is_no_longer_known() {
        let told = "pods[1]: not JSON: key must be a string, near `{\"pods\": [0, {1: 2}]}` \
                    (line 1, column 15)";
        assert_eq!(check_document(b"{\"pods\": [0, {1: 2}]}"), told);
    }

    #[test]
    fn a_value_of_another_type_is_named_in_the_words_of_json() {
        let check = |text: &[u8]| document::<Vec<bool>>(text).unwrap_err().to_string();
        assert!(check(b"{}").starts_with("expected a sequence, found an object, near"));
        assert!(check(b"[[]]").starts_with("[0]: expected a boolean, found a list, near"));
        let long = format!("[\"{}\"]", "x".repeat(1000));
        let told = check(long.as_bytes());
        assert!(told.contains("found string \"xxx") && told.len() < 200, "{told}");
    }

    #[test]
    fn bytes_that_are_no_text_are_escaped() {
        assert_eq!(
            check_document(b"\x1b[31m\xff\0"),
            "not JSON: expected value, near `\\u{1b}[31m\u{fffd}\\0` (line 1, column 1)"
        );
    }

    #[test]
    fn a_document_without_end_is_cut_off_at_the_limit() {
        let error = document_up_to::<Value>(1 << 20, io::repeat(b' ')).unwrap_err();
        assert_eq!(error.to_string(), "more than 512 MiB of input");
        let exactly = document_up_to::<Value>(9, &b"[1, 2, 3]"[..]);
        assert!(exactly.is_ok(), "{exactly:?}");
    }

    #[test]
    fn garbage_without_end_fails_at_its_first_bad_byte() {
        struct Garbage(u64);
        impl Read for Garbage {
            fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
                self.0 += wide(out.len());
                out.fill(b'\xfe');
                Ok(out.len())
            }
        }
        let mut garbage = Garbage(0);
        assert!(check_error(&mut garbage).starts_with("not JSON: expected value, near"));
        assert!(garbage.0 <= wide(BUFFER_SIZE), "{} bytes were read", garbage.0);
    }

    fn check_error(reader: impl Read) -> String {
        document::<Value>(reader).unwrap_err().to_string()
    }

    #[test]
    fn a_reader_that_fails_is_not_a_bad_document() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk is gone"))
            }
        }
        assert_eq!(check_error(Broken), "cannot be read: the disk is gone");
    }

    #[test]
    fn what_was_read_before_a_refill_is_still_shown() {
        let mut text = vec![b' '; BUFFER_SIZE - 4];
        text.extend_from_slice(b"[1, 2, oops]");
        let told = check_document(&text);
        assert!(told.contains("near `[1, 2, oops]`"), "{told}");
    }

    #[test]
    fn blank_lines_are_skipped_and_counted() {
        let mut lines = Lines::new(&b"\n  \r\none\r\n\ntwo"[..]);
        let mut seen = Vec::new();
        while let Some((number, line)) = lines.next_line().unwrap() {
            seen.push((number, String::from_utf8(line.to_vec()).unwrap()));
        }
        assert_eq!(seen, [(3, "one\r".to_owned()), (5, "two".to_owned())]);
    }

    #[test]
    fn a_line_of_exactly_the_limit_is_the_longest() {
        let check = |length: usize, end: &str| {
            let text = "x".repeat(length) + end;
            let mut lines = Lines::new(text.as_bytes());
            lines.next_line().map(|line| line.map(|(_, line)| line.len()))
        };
        assert_eq!(check(LINE_MAX, "\n").unwrap(), Some(LINE_MAX));
        assert_eq!(check(LINE_MAX, "").unwrap(), Some(LINE_MAX));
        for end in ["", "\n", "yyy\n"] {
            let error = check(LINE_MAX + 1, end).unwrap_err();
            assert_eq!(error.to_string(), "line 1: longer than 1048576 bytes");
        }
    }
}
