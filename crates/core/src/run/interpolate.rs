//! Variables in a compose file: `$NAME`, `${NAME}`, `${NAME:-default}` and their kin.
//!
//! The host fills them in itself. So what is checked is what is run, no variable of the host's own
//! environment gets into a workload, and none of a workload into a program of the host. A variable
//! that has no value and no default is an error, since a misspelt one would be silently empty.

use alloc::borrow::ToOwned;
use alloc::string::String;

use serde_json::Value;

/// Texts in texts are filled in so deep.
const DEPTH_MAX: u32 = 16;

/// Why a text cannot be filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterpolateError {
    /// It has a `$` that begins nothing.
    #[error("`{0}` has a $ that begins no variable; write $$ for a plain one")]
    Malformed(String),
    /// A variable has no value.
    #[error("the variable {0} has no value; set it in env, or write ${{{0}:-}}")]
    Unset(String),
    /// A variable has no value, and the file says what that means.
    #[error("the variable {0} is needed: {1}")]
    Needed(String, String),
    /// Texts are in texts are in texts.
    #[error("variables are nested more than {DEPTH_MAX} deep")]
    Deep,
}

/// The same with all variables of all texts filled in. Names of fields stay as they are.
///
/// # Errors
/// The first text that cannot be filled in.
pub fn interpolate<'a>(
    value: &Value,
    lookup: &dyn Fn(&str) -> Option<&'a str>,
) -> Result<Value, InterpolateError> {
    Ok(match value {
        Value::String(text) => Value::String(fill(text, lookup, 0)?),
        Value::Array(values) => {
            let filled: Result<_, _> = values.iter().map(|one| interpolate(one, lookup)).collect();
            Value::Array(filled?)
        }
        Value::Object(fields) => {
            let filled = fields.iter().map(|(name, one)| {
                let filled = interpolate(one, lookup)?;
                Ok((name.clone(), filled))
            });
            Value::Object(filled.collect::<Result<_, InterpolateError>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}

fn fill<'a>(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<&'a str>,
    depth: u32,
) -> Result<String, InterpolateError> {
    if depth > DEPTH_MAX {
        return Err(InterpolateError::Deep);
    }
    let malformed = || InterpolateError::Malformed(text.chars().take(80).collect());
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        filled.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            filled.push('$');
            rest = after;
        } else if let Some(inside) = after.strip_prefix('{') {
            let end = closing(inside).ok_or_else(malformed)?;
            let (inner, after) = inside.split_at(end);
            filled.push_str(&braced(inner, lookup, depth).map_err(|it| it.unwrap_or(malformed()))?);
            rest = after.strip_prefix('}').unwrap_or_default();
        } else {
            let (name, after) = after.split_at(name_length(after));
            if name.is_empty() {
                return Err(malformed());
            }
            filled.push_str(lookup(name).ok_or_else(|| InterpolateError::Unset(name.to_owned()))?);
            rest = after;
        }
    }
    filled.push_str(rest);
    Ok(filled)
}

/// What stands between braces. No error is "malformed".
fn braced<'a>(
    inner: &str,
    lookup: &dyn Fn(&str) -> Option<&'a str>,
    depth: u32,
) -> Result<String, Option<InterpolateError>> {
    let (name, how) = inner.split_at(name_length(inner));
    if name.is_empty() {
        return Err(None);
    }
    let (empty_is_unset, how) = match how.strip_prefix(':') {
        Some(how) => (true, how),
        None => (false, how),
    };
    let value = lookup(name).filter(|value| !(empty_is_unset && value.is_empty()));
    let other = || {
        let text = how.get(1..).unwrap_or_default();
        fill(text, lookup, depth + 1).map_err(Some)
    };
    match (how.chars().next(), value) {
        (None, _) if empty_is_unset => Err(None),
        (None, Some(value)) | (Some('-' | '?'), Some(value)) => Ok(value.to_owned()),
        (None, None) => Err(Some(InterpolateError::Unset(name.to_owned()))),
        (Some('-'), None) | (Some('+'), Some(_)) => other(),
        (Some('+'), None) => Ok(String::new()),
        (Some('?'), None) => Err(Some(InterpolateError::Needed(name.to_owned(), other()?))),
        (Some(_), _) => Err(None),
    }
}

/// Where the brace that was opened before `text` is closed.
fn closing(text: &str) -> Option<usize> {
    let mut open = 1_u32;
    for (place, letter) in text.char_indices() {
        match letter {
            '{' => open += 1,
            '}' if open == 1 => return Some(place),
            '}' => open -= 1,
            _ => {}
        }
    }
    None
}

fn name_length(text: &str) -> usize {
    let begins = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let ends = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    if begins { ends.unwrap_or(text.len()) } else { 0 }
}

/// The same with every `$` doubled, for a reader that fills in variables once more.
pub(super) fn escape(value: &mut Value) {
    match value {
        Value::String(text) => *text = text.replace('$', "$$"),
        Value::Array(values) => values.iter_mut().for_each(escape),
        Value::Object(fields) => fields.values_mut().for_each(escape),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn filled(text: &str) -> Result<String, String> {
        let lookup = |name: &str| match name {
            "A" => Some("1"),
            "EMPTY" => Some(""),
            "DOLLAR" => Some("$A"),
            _ => None,
        };
        fill(text, &lookup, 0).map_err(|error| error.to_string())
    }

    #[test]
    fn variables_are_filled_in_as_compose_does() {
        for (text, expected) in [
            ("plain", "plain"),
            ("$A-${A}", "1-1"),
            ("$$A", "$A"),
            ("${B:-x}${B-y}", "xy"),
            ("${EMPTY:-x}|${EMPTY-y}", "x|"),
            ("${A:+yes}${B:+no}${EMPTY:+no}${EMPTY+yes}", "yesyes"),
            ("${B:-${C:-deep}}", "deep"),
            ("${A:?needed}", "1"),
            ("${B:-}", ""),
            // What a variable holds is not looked into.
            ("$DOLLAR", "$A"),
        ] {
            assert_eq!(filled(text).as_deref(), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("$B", "the variable B has no value; set it in env, or write ${B:-}"),
            ("${B:?say it}", "the variable B is needed: say it"),
            ("${A", "`${A` has a $ that begins no variable; write $$ for a plain one"),
            ("a $ b", "`a $ b` has a $ that begins no variable; write $$ for a plain one"),
            ("${A:}", "`${A:}` has a $ that begins no variable; write $$ for a plain one"),
            ("${A!x}", "`${A!x}` has a $ that begins no variable; write $$ for a plain one"),
        ] {
            assert_eq!(filled(text), Err(expected.to_string()), "{text}");
        }
        let deep = "${B:-".repeat(40) + &"}".repeat(40);
        assert!(filled(&deep).unwrap_err().contains("nested"));
    }

    #[test]
    fn names_of_fields_and_numbers_stay_and_dollars_are_doubled() {
        let value = serde_json::json!({"$A": ["$A", 1, null, {"x": "$$"}]});
        let mut filled = interpolate(&value, &|_| Some("v")).unwrap();
        assert_eq!(filled, serde_json::json!({"$A": ["v", 1, null, {"x": "$"}]}));
        escape(&mut filled);
        assert_eq!(filled, serde_json::json!({"$A": ["v", 1, null, {"x": "$$"}]}));
    }
}
