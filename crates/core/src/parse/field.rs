//! The one way this module finds a key in a text and reads the number behind it.
//!
//! Called by the parsers of the kernel's files. A [`Field`] carries the names of its file and key,
//! so that every error says where it comes from; the first of several equal keys wins.

use super::error::{ParseError, excerpt};

/// The key of a file that holds one value and no key.
const ONLY_VALUE: &str = "value";

/// A key that was looked for, and the text found behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) file: &'static str,
    pub(super) key: &'static str,
    pub(super) text: Option<&'a [u8]>,
}

/// The lines of a file as keys and values, cut at the first space.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|&byte| byte == b'\n').map(|line| cut(line, b' '))
}

/// The words of a line as keys and values, cut at the first equals sign.
pub(super) fn pairs(line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    line.split(|&byte| byte == b' ').map(|word| cut(word, b'='))
}

/// What stands behind each of `keys` among `entries`.
pub(super) fn find<'a, const N: usize>(
    file: &'static str,
    keys: [&'static str; N],
    entries: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> [Field<'a>; N] {
    let mut fields = keys.map(|key| Field { file, key, text: None });
    let mut missing = N;
    for (key, text) in entries {
        let field = fields.iter_mut().find(|field| field.key.as_bytes() == key);
        if let Some(field) = field
            && field.text.is_none()
        {
            field.text = Some(text);
            missing -= 1;
            if missing == 0 {
                break;
            }
        }
    }
    fields
}

/// The value of a file that holds nothing else.
pub(super) fn only_value<'a>(file: &'static str, text: &'a [u8]) -> Field<'a> {
    let line = without_newline(text);
    Field { file, key: ONLY_VALUE, text: (!line.is_empty()).then_some(line) }
}

/// `text` without the newline at its end, if there is one.
pub(super) fn without_newline(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\n").unwrap_or(text)
}

/// The two parts of `text` around the first `separator`; the second is empty without one.
fn cut(text: &[u8], separator: u8) -> (&[u8], &[u8]) {
    let end = text.iter().position(|&byte| byte == separator).unwrap_or(text.len());
    let (head, tail) = text.split_at(end);
    (head, tail.get(1..).unwrap_or_default())
}

/// The number `digits` spell in base ten, or nothing where it does not fit. The caller has checked
/// that they are digits.
fn fold_digits(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |sum, &digit| {
        sum.checked_mul(10)?.checked_add(u64::from(digit.wrapping_sub(b'0')))
    })
}

// === impl Field ===

impl<'a> Field<'a> {
    /// The number; an error where the key is missing.
    pub(super) fn number(&self) -> Result<u64, ParseError> {
        self.parse_number(self.required()?)
    }

    /// The number; nothing where the key is missing.
    pub(super) fn number_if_there(&self) -> Result<Option<u64>, ParseError> {
        self.text.map(|text| self.parse_number(text)).transpose()
    }

    /// The number; nothing where `none` is written in its place.
    pub(super) fn number_unless(&self, none: &str) -> Result<Option<u64>, ParseError> {
        let text = self.required()?;
        if text == none.as_bytes() { Ok(None) } else { self.parse_number(text).map(Some) }
    }

    /// The number, which must not be outside of `lowest` to `highest`.
    pub(super) fn number_within(&self, lowest: u64, highest: u64) -> Result<u64, ParseError> {
        let value = self.number()?;
        if (lowest..=highest).contains(&value) {
            Ok(value)
        } else {
            Err(ParseError::OutOfRange { file: self.file, key: self.key, value, lowest, highest })
        }
    }

    /// The number in ten-thousandths: "1.5" is 15000. A fifth decimal place is refused, for it
    /// would have to be rounded.
    pub(super) fn ten_thousandths(&self) -> Result<u64, ParseError> {
        let text = self.required()?;
        let (whole, fraction) = cut(text, b'.');
        let are_digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
        if whole.is_empty() || fraction.len() > 4 || !are_digits(whole) || !are_digits(fraction) {
            return Err(self.not_a_number(text));
        }
        let mut padded = *b"0000";
        for (place, &digit) in padded.iter_mut().zip(fraction) {
            *place = digit;
        }
        fold_digits(whole)
            .and_then(|whole| whole.checked_mul(10_000)?.checked_add(fold_digits(&padded)?))
            .ok_or_else(|| self.overflow(text))
    }

    /// The same text under another key in errors.
    pub(super) const fn called(self, key: &'static str) -> Self {
        Self { key, ..self }
    }

    /// The text; an error where the key is missing.
    pub(super) fn required(&self) -> Result<&'a [u8], ParseError> {
        self.text.ok_or(ParseError::Missing { file: self.file, key: self.key })
    }

    fn parse_number(&self, text: &[u8]) -> Result<u64, ParseError> {
        if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
            return Err(self.not_a_number(text));
        }
        fold_digits(text).ok_or_else(|| self.overflow(text))
    }

    fn not_a_number(&self, text: &[u8]) -> ParseError {
        let value = excerpt(text);
        ParseError::NotANumber { file: self.file, key: self.key, value }
    }

    fn overflow(&self, text: &[u8]) -> ParseError {
        let value = excerpt(text);
        ParseError::Overflow { file: self.file, key: self.key, value }
    }
}
