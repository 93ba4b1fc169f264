//! How the keys of a ConfigMap are taken, and what is wrong with them collected.
//!
//! Every value is a text. What is of another kind, out of range or unknown is noted and never
//! returned early, so that a person who made ten mistakes is told of ten. A `None` means that the
//! key was left out, or that a problem was noted.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use walras_core::profile::{Profile, SettingError, Value};
use walras_core::units::{Millicores, Ratio, Span, Weight};
use walras_wire::settings::{Problem, cpu_from, weight_from};
use walras_wire::suggest::unknown;

use super::idle;
use crate::time::span_from;

/// Values are shown up to this many characters.
const SHOWN_MAX: usize = 60;
/// What any constant of the market may be set by.
const MARKET: &str = "market.";

/// The keys of a ConfigMap.
pub(super) struct Keys<'a> {
    data: &'a BTreeMap<String, String>,
    environment: &'a dyn Fn(&str) -> Option<String>,
    known: Vec<&'static str>,
    problems: Vec<Problem>,
    notes: Vec<String>,
}

/// The variable of the environment that goes before a key.
#[must_use]
pub fn variable(key: &str) -> String {
    let letters: Vec<char> = key.chars().collect();
    let mut name = "MBCAS".to_owned();
    for (place, letter) in letters.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|before| letters.get(before));
        let after = letters.get(place + 1);
        // A word begins at a capital after a small letter, and at the last capital of several.
        let begins = letter.is_uppercase()
            && (before.is_some_and(|it| !it.is_uppercase())
                || after.is_some_and(|it| it.is_lowercase()));
        if place == 0 || begins {
            name.push('_');
        }
        name.extend(letter.to_uppercase());
    }
    name
}

// === impl Keys ===

impl<'a> Keys<'a> {
    pub(super) fn new(
        data: &'a BTreeMap<String, String>,
        environment: &'a dyn Fn(&str) -> Option<String>,
    ) -> Self {
        Self { data, environment, known: Vec::new(), problems: Vec::new(), notes: Vec::new() }
    }

    /// Whether a key was said.
    pub(super) fn has(&self, key: &str) -> bool {
        self.written(key).is_some()
    }

    /// A text.
    pub(super) fn text(&mut self, key: &'static str) -> Option<String> {
        self.known.push(key);
        self.written(key)
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&mut self, key: &'static str, all: &[(&str, T)]) -> Option<T> {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        let what = format!("one of {}", names.join(", "));
        self.take(key, &what, |text| all.iter().find(|(name, _)| *name == text).map(|it| it.1))
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, key: &'static str) -> Option<bool> {
        self.take(key, "true or false", |text| text.parse().ok())
    }

    /// A number within a range.
    pub(super) fn number(&mut self, key: &'static str, low: f64, high: f64) -> Option<f64> {
        let what = match (low, high) {
            (f64::MIN, f64::MAX) => "a number".to_owned(),
            _ => format!("a number from {low} to {high}"),
        };
        self.take(key, &what, |text| {
            let number: f64 = text.parse().ok()?;
            (number.is_finite() && (low..=high).contains(&number)).then_some(number)
        })
    }

    /// A share of a hundred. The predecessor writes it with decimals.
    pub(super) fn percent(&mut self, key: &'static str) -> Option<Ratio> {
        self.take(key, "a percentage from 0 to 100", |text| {
            let percent: f64 = text.strip_suffix('%').unwrap_or(text).trim_end().parse().ok()?;
            let is_share = (0.0..=100.0).contains(&percent);
            is_share.then(|| Ratio::from_millionths(nearest_u64(percent * 1e4)))
        })
    }

    /// An amount of CPU.
    pub(super) fn cpu(&mut self, key: &'static str) -> Option<Millicores> {
        self.take(key, "an amount of CPU such as 100m or 0.1", cpu_from)
    }

    /// An amount of CPU, or `0` for none.
    pub(super) fn cpu_or_none(&mut self, key: &'static str) -> Option<Millicores> {
        self.take(key, "an amount of CPU such as 100m or 0", |text| match text {
            "0" => Some(Millicores::ZERO),
            text => cpu_from(text),
        })
    }

    /// What a weight is multiplied by.
    pub(super) fn weight(&mut self, key: &'static str) -> Option<Weight> {
        self.take(key, "a number above 0", |text| weight_from(text.parse().ok()?))
    }

    /// A time, as Go writes it.
    pub(super) fn span(&mut self, key: &'static str) -> Option<Span> {
        self.take(key, "a time such as 500ms, 15s or 1m30s", span_from)
    }

    /// A time, as Go writes it, up to the longest that makes sense.
    pub(super) fn span_to(&mut self, key: &'static str, most: Span) -> Option<Span> {
        let what = format!("a time such as 500ms, 15s or 1m30s, at most {most}");
        self.take(key, &what, |text| span_from(text).filter(|span| *span <= most))
    }

    /// A whole number from 1 on. Decimals may be written.
    pub(super) fn count(&mut self, key: &'static str, most: u32) -> Option<NonZeroU32> {
        self.take(key, &format!("a whole number from 1 to {most}"), |text| {
            let whole = match text.split_once('.') {
                Some((whole, decimals)) if decimals.bytes().all(|digit| digit == b'0') => whole,
                Some(_) => return None,
                None => text,
            };
            whole.parse().ok().filter(|number: &NonZeroU32| number.get() <= most)
        })
    }

    /// A key that means nothing any more.
    pub(super) fn forgotten(&mut self, key: &'static str, why: &str) {
        self.known.push(key);
        if self.has(key) {
            self.in_vain(key, why);
        }
    }

    /// Notes that a key was said without effect.
    pub(super) fn in_vain(&mut self, key: &str, why: &str) {
        self.notes.push(format!("{key} has no effect: {why}"));
    }

    /// Notes that a key was said in vain, if the constant it stands for is not looked at.
    pub(super) fn note_if_idle(&mut self, profile: &Profile, key: &str, constant: &str) {
        if let Some(why) = idle::because(constant, profile).filter(|_| self.has(key)) {
            self.in_vain(key, why);
        }
    }

    /// Sets a constant of the market that a key stands for.
    pub(super) fn set(&mut self, profile: &mut Profile, key: &str, constant: &str, value: &Value) {
        match profile.set(constant, value) {
            Ok(()) => {}
            Err(SettingError::Unknown { .. }) => {
                let all: Vec<&'static str> = Profile::CONSTANTS.iter().map(|it| it.key).collect();
                self.problem(key, unknown("key", constant, &all));
            }
            Err(
                SettingError::WrongKind { .. }
                | SettingError::OutOfRange { .. }
                | SettingError::Contradiction { .. },
            ) => {
                let known = Profile::CONSTANTS.iter().find(|it| it.key == constant);
                let what = known.map_or_else(String::new, |it| {
                    format!("is not allowed: {constant} ({}) is {}", it.unit, it.accepted())
                });
                self.problem(key, what);
            }
        }
    }

    /// Sets every constant of the market that is named itself.
    pub(super) fn constants(&mut self, profile: &mut Profile) {
        for (key, text) in self.data {
            let Some(constant) = key.strip_prefix(MARKET) else {
                continue;
            };
            let value = match (text.parse::<bool>(), text.parse::<f64>()) {
                (Ok(flag), _) => Value::Flag(flag),
                (_, Ok(number)) => Value::Number(number),
                (Err(_), Err(_)) => Value::Word(text.clone()),
            };
            self.set(profile, key, constant, &value);
        }
        for key in self.data.keys() {
            if let Some(constant) = key.strip_prefix(MARKET) {
                self.note_if_idle(profile, key, constant);
            }
        }
    }

    /// Notes that the value of a key is wrong.
    pub(super) fn problem(&mut self, key: &str, what: String) {
        let value = self.written(key).map(|text| {
            let cut: String = text.chars().take(SHOWN_MAX).collect();
            format!("{cut:?}")
        });
        let overridden = (self.environment)(&variable(key)).is_some();
        let key = if overridden { variable(key) } else { key.to_owned() };
        self.problems.push(Problem { key, value, what, line: None });
    }

    /// What was said in vain.
    pub(super) fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// All that is wrong, with every key that is not known.
    pub(super) fn problems(mut self) -> Vec<Problem> {
        for key in self.data.keys() {
            if !key.starts_with(MARKET) && !self.known.contains(&key.as_str()) {
                let what = unknown("key", key, &self.known);
                self.problem(key, what);
            }
        }
        self.problems
    }

    fn take<T>(
        &mut self,
        key: &'static str,
        what: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let known = self.known.contains(&key);
        self.known.push(key);
        let text = self.written(key)?;
        let meaning = read(text.trim());
        // What is asked for twice is told of once.
        if meaning.is_none() && !known {
            self.problem(key, format!("is not {what}"));
        }
        meaning
    }

    fn written(&self, key: &str) -> Option<String> {
        (self.environment)(&variable(key)).or_else(|| self.data.get(key).cloned())
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a million")]
fn nearest_u64(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_the_key_in_capitals_with_underscores() {
        assert_eq!(variable("samplingInterval"), "MBCAS_SAMPLING_INTERVAL");
        assert_eq!(variable("baselineCPUPerPod"), "MBCAS_BASELINE_CPU_PER_POD");
        assert_eq!(variable("prometheusURL"), "MBCAS_PROMETHEUS_URL");
        assert_eq!(variable("p99ThresholdMultiplier"), "MBCAS_P99_THRESHOLD_MULTIPLIER");
        assert_eq!(variable("mode"), "MBCAS_MODE");
    }
}
