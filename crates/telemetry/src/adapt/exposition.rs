//! The text format in which Prometheus' programs tell their metrics.
//!
//! A line is a name, perhaps labels in braces, a value and perhaps a time. What begins with `#`
//! says what a metric means and is not looked at. A line that is wrong is left out and counted:
//! one bad line of an exporter does not hide the thousand good ones.

use std::borrow::Cow;

/// No text that is longer is looked at, so that nobody fills our memory.
pub const TEXT_MAX: usize = 16 << 20;
/// No line has more labels.
const LABELS_MAX: usize = 64;

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// Of which metric.
    pub name: &'a str,
    /// Names and values, in the order of the text.
    pub labels: Vec<(&'a str, Cow<'a, str>)>,
    /// What.
    pub value: f64,
}

/// All samples of a text, and how many lines were wrong.
#[must_use]
pub fn samples(text: &str) -> (Vec<Sample<'_>>, usize) {
    let (mut found, mut wrong) = (Vec::new(), 0);
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match sample(line) {
            Some(sample) => found.push(sample),
            None => wrong += 1,
        }
    }
    (found, wrong)
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(|c: char| !is_in_name(c))?;
    let (name, mut rest) = line.split_at_checked(end)?;
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut labels = Vec::new();
    if let Some(inside) = rest.trim_start().strip_prefix('{') {
        rest = read_labels(inside, &mut labels)?;
    }
    let mut words = rest.split_ascii_whitespace();
    let value = number(words.next()?)?;
    // A time may follow, and in OpenMetrics an example.
    let time_is_number = words.next().is_none_or(|word| word == "#" || number(word).is_some());
    time_is_number.then_some(Sample { name, labels, value })
}

/// Reads labels up to the closing brace; gives what follows it.
fn read_labels<'a>(
    mut rest: &'a str,
    labels: &mut Vec<(&'a str, Cow<'a, str>)>,
) -> Option<&'a str> {
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('}') {
            return Some(after);
        }
        if labels.len() == LABELS_MAX {
            return None;
        }
        let (name, after) = rest.split_once('=')?;
        let name = name.trim();
        if name.is_empty() || !name.chars().all(is_in_name) {
            return None;
        }
        let (value, after) = quoted(after.trim_start().strip_prefix('"')?)?;
        labels.push((name, value));
        rest = after.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None if rest.starts_with('}') => {}
            None => return None,
        }
    }
}

/// Reads up to the closing quote; gives the text with escapes undone, and what follows it.
fn quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let plain = text.find(['"', '\\'])?;
    let (head, tail) = text.split_at_checked(plain)?;
    if let Some(after) = tail.strip_prefix('"') {
        return Some((Cow::Borrowed(head), after));
    }
    let mut value = head.to_owned();
    let mut characters = tail.chars();
    loop {
        match characters.next()? {
            '"' => return Some((Cow::Owned(value), characters.as_str())),
            '\\' => match characters.next()? {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
}

fn number(word: &str) -> Option<f64> {
    match word {
        "+Inf" | "Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        "NaN" | "Nan" => Some(f64::NAN),
        _ => word.parse().ok(),
    }
}

fn is_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

// === impl Sample ===

impl Sample<'_> {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| &**value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples as `name{labels}=value`, and the number of wrong lines.
    fn told(text: &str) -> String {
        let (samples, wrong) = samples(text);
        let mut words: Vec<String> = samples
            .iter()
            .map(|it| {
                let labels: Vec<_> = it.labels.iter().map(|(n, v)| format!("{n}:{v}")).collect();
                format!("{}{{{}}}={}", it.name, labels.join(","), it.value)
            })
            .collect();
        words.push(wrong.to_string());
        words.join(" ")
    }

    #[test]
    fn every_form_of_the_format_is_read() {
        assert_eq!(told(""), "0");
        assert_eq!(
            told("# HELP a b\n# TYPE a counter\na 1\n\n  b_total 2.5e3 1700000000000\n"),
            "a{}=1 b_total{}=2500 0"
        );
        assert_eq!(
            told("a{b=\"c\",d=\"e f\",} 1\na{} 2\na { x = \"y\" } 3"),
            "a{b:c,d:e f}=1 a{}=2 a{x:y}=3 0"
        );
        assert_eq!(told(r#"a{b="q\"u\\o\nte}"} 1"#), "a{b:q\"u\\o\nte}}=1 0");
        assert_eq!(told("a +Inf\nb NaN\nc -Inf\n"), "a{}=inf b{}=NaN c{}=-inf 0");
        assert_eq!(told("a_bucket{le=\"1\"} 5 # {trace=\"x\"} 0.7\n"), "a_bucket{le:1}=5 0");
    }

    #[test]
    fn a_wrong_line_is_left_out_and_counted() {
        let wrong = [
            "a",
            "a x",
            "1a 1",
            "a{b} 1",
            "a{b=\"c} 1",
            "a{b=\"c\"d=\"e\"} 1",
            "{} 1",
            "a{b=\"c\" 1",
            "a 1 x",
            "é 1",
            "a{=\"b\"} 1",
        ];
        for line in wrong {
            assert_eq!(told(&format!("{line}\ngood 1\n")), "good{}=1 1", "{line}");
        }
        let many: String = (0..65).map(|place| format!("l{place}=\"x\",")).collect();
        assert_eq!(told(&format!("a{{{many}}} 1")), "1");
    }

    #[test]
    fn a_label_is_found_by_its_name() {
        let (samples, _) = samples("a{b=\"c\"} 1");
        assert_eq!(samples[0].label("b"), Some("c"));
        assert_eq!(samples[0].label("d"), None);
    }
}
