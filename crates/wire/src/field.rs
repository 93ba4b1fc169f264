//! What is wrong with a document, field by field; and how the fields of one object are taken.
//!
//! Called by every message's second stage. A field is taken by name and kind; what is missing, of
//! another kind, given twice or unknown is collected, never returned early, so that a person who
//! made three mistakes is told of three. Memory stays bounded: the first [`SHOWN_MAX`] problems
//! are kept, the others counted.

use std::fmt;

use walras_core::units::Millicores;

use crate::kind::Kind;
use crate::scalar::{Object, Scalar, quote};
use crate::suggest::unknown;

/// So many problems are shown in full.
pub const SHOWN_MAX: usize = 20;

/// One thing that is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Where: `pods[3].demand`, or `line 17: at_ms`.
    pub path: String,
    /// The value as it was written, if there is one.
    pub value: Option<String>,
    /// What is wrong with it, to be read after the value.
    pub problem: String,
}

/// Everything that is wrong with a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    shown: Vec<FieldError>,
    count: u64,
}

/// Where in a document an object stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The document itself.
    Root,
    /// The workload of this index.
    Workload(usize),
    /// The line of this number.
    Line(u64),
}

/// The fields of one object, to be taken by name.
pub(crate) struct Fields<'a> {
    place: Place,
    written: Vec<(Box<str>, Scalar)>,
    asked_for: Vec<&'static str>,
    problems: &'a mut Problems,
}

// === impl FieldError ===

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}: {value} {}", self.path, self.problem),
            None => write!(f, "{}: {}", self.path, self.problem),
        }
    }
}

// === impl Problems ===

impl Problems {
    /// A single problem.
    #[must_use]
    pub fn one(path: String, value: Option<String>, problem: String) -> Self {
        Self { shown: vec![FieldError { path, value, problem }], count: 1 }
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The first of them, at most [`SHOWN_MAX`].
    #[must_use]
    pub fn shown(&self) -> &[FieldError] {
        &self.shown
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a problem. It is only put into words if it will be shown.
    pub(crate) fn add(&mut self, error: impl FnOnce() -> FieldError) {
        self.count += 1;
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(error());
        }
    }

    /// Adds all of `others`.
    pub(crate) fn append(&mut self, others: Self) {
        self.count += others.count;
        let room = SHOWN_MAX.saturating_sub(self.shown.len());
        self.shown.extend(others.shown.into_iter().take(room));
    }
}

/// One problem is one line; several are a count and a line each.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.shown.as_slice() {
            return write!(f, "{only}");
        }
        write!(f, "{} problems", self.count)?;
        for error in &self.shown {
            write!(f, "\n  {error}")?;
        }
        match self.count - u64::try_from(self.shown.len()).unwrap_or(self.count) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

// === impl Place ===

impl Place {
    /// The path of the field `name` here.
    pub(crate) fn path(self, name: &str) -> String {
        match self {
            Self::Root => name.to_owned(),
            Self::Workload(index) => format!("pods[{index}].{name}"),
            Self::Line(number) => format!("line {number}: {name}"),
        }
    }
}

// === impl Fields ===

impl<'a> Fields<'a> {
    pub(crate) fn new(place: Place, object: Object, problems: &'a mut Problems) -> Self {
        Self { place, written: object.fields, asked_for: Vec::with_capacity(8), problems }
    }

    /// Takes a field that must be there. `None` means that a problem was noted.
    pub(crate) fn required<K: Kind>(&mut self, name: &'static str) -> Option<K::Meaning> {
        let Some(written) = self.take(name) else {
            self.problem(name, None, || format!("is missing; it must be {}", K::WHAT));
            return None;
        };
        self.accept::<K>(name, &written)
    }

    /// Takes a field that may be left out, or be `null`, which is the same.
    pub(crate) fn optional<K: Kind>(&mut self, name: &'static str) -> Option<K::Meaning> {
        match self.take(name) {
            None | Some(Scalar::Null) => None,
            Some(written) => self.accept::<K>(name, &written),
        }
    }

    /// Notes a problem where the field of `low` is above that of `high`.
    pub(crate) fn ordered(&mut self, low: (&str, Millicores), high: (&str, Millicores)) {
        let ((low_name, low), (high_name, high)) = (low, high);
        if low > high {
            let problem = || format!("is more than {high_name}, which is {}", high.get());
            self.problem(low_name, Some(&low.get()), problem);
        }
    }

    /// Makes known a field that is taken in another way.
    pub(crate) fn know(&mut self, name: &'static str) {
        self.asked_for.push(name);
    }

    /// Notes a problem with the field `name`.
    pub(crate) fn problem(
        &mut self,
        name: &str,
        value: Option<&dyn fmt::Display>,
        problem: impl FnOnce() -> String,
    ) {
        let place = self.place;
        self.problems.add(|| FieldError {
            path: place.path(name),
            value: value.map(ToString::to_string),
            problem: problem(),
        });
    }

    /// Takes all fields that were not asked for by name, each name once.
    pub(crate) fn take_others(&mut self) -> Vec<(Box<str>, Scalar)> {
        let mut others: Vec<(Box<str>, Scalar)> = Vec::new();
        for (name, written) in std::mem::take(&mut self.written) {
            if others.iter().any(|(earlier, _)| *earlier == name) {
                self.problem(&name, Some(&written), || TWICE.to_owned());
            } else {
                others.push((name, written));
            }
        }
        others
    }

    /// Notes every field that was not asked for.
    pub(crate) fn finish(mut self) {
        if self.written.is_empty() {
            return;
        }
        for (name, written) in self.take_others() {
            let asked_for = std::mem::take(&mut self.asked_for);
            self.problem(&shown_name(&name), Some(&written), || {
                unknown("field", &name, &asked_for)
            });
            self.asked_for = asked_for;
        }
    }

    fn accept<K: Kind>(&mut self, name: &'static str, written: &Scalar) -> Option<K::Meaning> {
        let meaning = K::accept(written);
        if meaning.is_none() {
            self.problem(name, Some(written), || K::problem(written));
        }
        meaning
    }

    fn take(&mut self, name: &'static str) -> Option<Scalar> {
        self.asked_for.push(name);
        let place = self.written.iter().position(|(key, _)| **key == *name)?;
        let (_, written) = self.written.remove(place);
        while let Some(again) = self.written.iter().position(|(key, _)| **key == *name) {
            let (_, again) = self.written.remove(again);
            self.problem(name, Some(&again), || TWICE.to_owned());
        }
        Some(written)
    }
}

const TWICE: &str = "is given a second time; give it once";

/// A field's name as it is printed: as it is where that is harmless, else quoted and cut.
pub(crate) fn shown_name(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    if (1..=60).contains(&name.len()) && name.bytes().all(plain) {
        name.to_owned()
    } else {
        quote(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{Cpu, Flag};

    fn check(json: &str) -> String {
        let mut problems = Problems::default();
        let object: Object = serde_json::from_str(json).unwrap();
        let mut fields = Fields::new(Place::Workload(3), object, &mut problems);
        let min = fields.required::<Cpu>("min_milli");
        let capped = fields.optional::<Flag>("demand_capped");
        fields.finish();
        if problems.is_empty() { format!("{min:?} {capped:?}") } else { problems.to_string() }
    }

    #[test]
    fn what_is_right_is_taken() {
        assert_eq!(check(r#"{"min_milli": 5}"#), "Some(Millicores(5)) None");
        assert_eq!(check(r#"{"demand_capped": null, "min_milli": 5}"#), "Some(Millicores(5)) None");
        assert_eq!(
            check(r#"{"demand_capped": true, "min_milli": 5}"#),
            "Some(Millicores(5)) Some(true)"
        );
    }

    #[test]
    fn one_problem_is_one_line_with_path_and_value() {
        assert_eq!(
            check(r#"{"min_milli": -5}"#),
            "pods[3].min_milli: -5 is not a whole number of millicores from 0 to 1000000000"
        );
    }

    #[test]
    fn all_problems_are_told_at_once() {
        assert_eq!(
            check(r#"{"min_mili": 5, "demand_capped": 1, "demand_capped": 2, "colour": "red"}"#),
            "5 problems\n  \
             pods[3].min_milli: is missing; it must be a whole number of millicores from 0 to \
             1000000000\n  \
             pods[3].demand_capped: 2 is given a second time; give it once\n  \
             pods[3].demand_capped: 1 is not true or false\n  \
             pods[3].min_mili: 5 is given to an unknown field; did you mean min_milli?\n  \
             pods[3].colour: \"red\" is given to an unknown field; known are min_milli, \
             demand_capped"
        );
    }

    #[test]
    fn after_twenty_problems_the_rest_is_counted() {
        let fields: Vec<String> = (0..30).map(|key| format!("\"{key}\": 0")).collect();
        let told = check(&format!("{{\"min_milli\": 1, {}}}", fields.join(", ")));
        assert!(told.starts_with("30 problems\n"), "{told}");
        assert!(told.ends_with("\n  and 10 more"), "{told}");
        assert_eq!(told.lines().count(), 22);
    }

    #[test]
    fn a_name_that_would_ruin_a_terminal_is_escaped() {
        let told = check(r#"{"min_milli": 1, "\u001b[31m": 0}"#);
        assert!(told.starts_with("pods[3].\"\\u{1b}[31m\": 0 is given to"), "{told}");
    }
}
