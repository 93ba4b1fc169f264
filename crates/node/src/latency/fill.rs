//! Puts the names of one workload into a query.
//!
//! Called by `latency`, once per question. What is put in stays within the quotes it is put in,
//! whatever a workload is called, and is not searched for placeholders itself.

/// The query with every placeholder replaced by what it stands for. The longest one that fits
/// counts: where there are `$workload` and `$workload_ip`, `$workload_ip` is no `$workload`.
pub(super) fn filled(query: &str, placeholders: &[(&'static str, String)]) -> String {
    let mut text = String::with_capacity(query.len());
    let mut rest = query;
    while let Some(place) = rest.find('$') {
        let (before, from) = rest.split_at(place);
        text.push_str(before);
        let fitting = placeholders.iter().filter(|(name, _)| from.starts_with(name));
        rest = match fitting.max_by_key(|(name, _)| name.len()) {
            Some((name, value)) => {
                push_quoted(&mut text, value);
                &from[name.len()..]
            }
            // A `$` of the query's own, as at the end of a regular expression.
            None => {
                text.push('$');
                &from[1..]
            }
        };
    }
    text + rest
}

/// Appends a value as it is written within quotes of any kind in PromQL.
fn push_quoted(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            // A quote may be escaped as itself only where the string is in such quotes.
            '"' => text.push_str("\\x22"),
            '\'' => text.push_str("\\x27"),
            '`' => text.push_str("\\x60"),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, values: [&str; 2]) -> String {
        let [name, path] = values.map(str::to_owned);
        filled(query, &[("$name", name), ("$name_of_path", path)])
    }

    #[test]
    fn every_placeholder_is_replaced() {
        let query = "x{n=\"$name\",p=\"$name_of_path\",q=~\"$name|a$\"} > $nam";
        assert_eq!(check(query, ["web", "a/web"]), "x{n=\"web\",p=\"a/web\",q=~\"web|a$\"} > $nam");
        assert_eq!(check("$name$name", ["a", ""]), "aa");
        assert_eq!(check("1 + 1", ["a", "b"]), "1 + 1");
        assert_eq!(check("", ["a", "b"]), "");
    }

    #[test]
    fn a_name_cannot_change_what_is_asked() {
        assert_eq!(check("x{n=\"$name\"}", ["a\"} or y{b=\"", ""]), r#"x{n="a\x22} or y{b=\x22"}"#);
        assert_eq!(check("'$name'", ["\\'\n`", ""]), r"'\\\x27\n\x60'");
        assert_eq!(check("$name $name_of_path", ["$name_of_path", "$name"]), "$name_of_path $name");
    }
}
