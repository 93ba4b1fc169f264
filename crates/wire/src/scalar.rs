//! A single JSON value and a flat JSON object, as they were written.
//!
//! This is the first stage of reading: a value of the wrong kind is kept for the second stage to
//! complain about, so that all mistakes of a document are found at once. What is nested where it
//! should not be is skipped and remembered only as "a list" or "an object".

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// An object with more fields than this is not one of ours, and not worth the memory.
const FIELDS_MAX: usize = 256;
/// A value is quoted in messages up to this many characters.
const QUOTE_MAX: usize = 60;

/// One JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    /// `null`.
    Null,
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Whole(u64),
    /// A whole number below zero.
    Negative(i64),
    /// A number with decimals, or one too large to be told from it.
    Decimal(f64),
    /// A string.
    Text(Box<str>),
    /// An array, whatever was in it.
    List,
    /// An object, whatever was in it.
    Object,
}

/// The fields of one JSON object, in the order in which they were written.
#[derive(Debug, Default)]
pub(crate) struct Object {
    pub(crate) fields: Vec<(Box<str>, Scalar)>,
}

struct ScalarVisitor;

struct ObjectVisitor;

// === impl Scalar ===

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Scalar, E> {
        Ok(Scalar::Null)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Scalar, E> {
        Ok(Scalar::Flag(flag))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Scalar, E> {
        Ok(Scalar::Whole(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Scalar, E> {
        Ok(u64::try_from(number).map_or(Scalar::Negative(number), Scalar::Whole))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar::Decimal(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Scalar, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Scalar, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Object)
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Whole(number) => write!(f, "{number}"),
            Self::Negative(number) => write!(f, "{number}"),
            // The form that keeps very large and very small numbers short.
            Self::Decimal(number) => write!(f, "{number:?}"),
            Self::Text(text) => f.write_str(&quote(text)),
            Self::List => f.write_str("a list"),
            Self::Object => f.write_str("an object"),
        }
    }
}

/// `text` in quotes, safe to print on a terminal and never long.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for (place, character) in text.chars().enumerate() {
        if place == QUOTE_MAX {
            return quoted + "...\"";
        }
        quoted.extend(character.escape_debug());
    }
    quoted + "\""
}

// === impl Object ===

impl Object {
    /// Adds the field that the map is at.
    pub(crate) fn add<'de, A: MapAccess<'de>>(
        &mut self,
        key: Box<str>,
        map: &mut A,
    ) -> Result<(), A::Error> {
        if self.fields.len() == FIELDS_MAX {
            return Err(A::Error::custom(format_args!("more than {FIELDS_MAX} fields")));
        }
        self.fields.push((key, map.next_value()?));
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
        let mut object = Object { fields: Vec::with_capacity(8) };
        while let Some(key) = map.next_key()? {
            object.add(key, &mut map)?;
        }
        Ok(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str) -> String {
        serde_json::from_str::<Scalar>(json).unwrap().to_string()
    }

    #[test]
    fn a_value_is_quoted_as_it_was_written() {
        for json in ["null", "true", "0", "-5", "1.5", "5.0", "1e300", "\"high\"", "\"a\\nb\""] {
            assert_eq!(check(json), json);
        }
        assert_eq!(check("[1, [2]]"), "a list");
        assert_eq!(check("{\"a\": {}}"), "an object");
    }

    #[test]
    fn a_long_text_is_cut() {
        let json = format!("\"{}\"", "ä".repeat(61));
        assert_eq!(check(&json), format!("\"{}...\"", "ä".repeat(60)));
    }

    #[test]
    fn an_object_of_257_fields_is_refused() {
        let object = |fields: usize| {
            let fields: Vec<String> = (0..fields).map(|key| format!("\"{key}\":0")).collect();
            serde_json::from_str::<Object>(&format!("{{{}}}", fields.join(",")))
        };
        assert_eq!(object(256).unwrap().fields.len(), 256);
        assert!(object(257).unwrap_err().to_string().starts_with("more than 256 fields"));
    }
}
