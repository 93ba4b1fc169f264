//! Kernel and model side by side: the table, the tolerances, and when a case is tried again.
//!
//! A case that differs is tried again, up to five times, and says why if it knows: the load process
//! was starved, or a fresh executable was still being read from disk while it was measured. What
//! disturbs a measurement passes; a model that is wrong is wrong every time.

use std::fmt;

use crate::real::Disturbed;

/// How often a case is tried.
const TRIES: u32 = 5;
/// What the load may lose to its neighbours before that explains a failure.
const BEARABLE_MS: f64 = 15.0;

/// How far the kernel may be from the model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerance {
    /// In percent of the model's value.
    pub(crate) percent: f64,
    /// And so much more, in the unit of the value.
    pub(crate) plus: f64,
    /// Whether the kernel may be any amount below.
    pub(crate) or_less: bool,
}

/// One attempt at a case.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    lines: Vec<Line>,
    claims: Vec<(String, bool)>,
    lost_ms: f64,
}

#[derive(Clone, Debug)]
struct Line {
    what: String,
    kernel: f64,
    model: f64,
    tolerance: Tolerance,
}

/// Tries a case until it passes or fails for good, and says so with the numbers of every attempt.
pub(crate) fn judge(
    case: &str,
    mut attempt: impl FnMut() -> Result<Attempt, Disturbed>,
) -> Result<String, String> {
    let mut told = format!("{case}\n");
    for _ in 0..TRIES {
        match attempt() {
            Ok(attempt) => {
                told += &attempt.to_string();
                if attempt.holds() {
                    return Ok(told);
                }
                told += if attempt.lost_ms > BEARABLE_MS {
                    "  the machine was too busy for that\n"
                } else {
                    "  the kernel and the model differ; once more\n"
                };
            }
            Err(Disturbed(why)) => told += &format!("  {why}\n"),
        }
    }
    Err(told)
}

// === impl Tolerance ===

impl Tolerance {
    /// So far to both sides.
    pub(crate) const fn of(percent: f64, plus: f64) -> Self {
        Self { percent, plus, or_less: false }
    }
}

// === impl Attempt ===

impl Attempt {
    /// An attempt in which the load could have run for `lost_ms` and did not.
    pub(crate) const fn new(lost_ms: f64) -> Self {
        Self { lines: Vec::new(), claims: Vec::new(), lost_ms }
    }

    /// Compares one value.
    pub(crate) fn compare(&mut self, what: &str, kernel: f64, model: f64, tolerance: Tolerance) {
        self.lines.push(Line { what: what.to_owned(), kernel, model, tolerance });
    }

    /// Says something that has to hold.
    pub(crate) fn claim(&mut self, what: &str, holds: bool) {
        self.claims.push((what.to_owned(), holds));
    }

    fn holds(&self) -> bool {
        self.lines.iter().all(Line::holds) && self.claims.iter().all(|(_, holds)| *holds)
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {:<44} {:>9} {:>9} {:>9}", "", "kernel", "model", "allowed")?;
        for line in &self.lines {
            let mark = if line.holds() { "" } else { "  <- differs" };
            let Line { what, kernel, model, .. } = line;
            let allowed = line.allowed();
            writeln!(f, "  {what:<44} {kernel:>9.1} {model:>9.1} {allowed:>9.1}{mark}")?;
        }
        for (what, holds) in &self.claims {
            writeln!(f, "  {what}: {}", if *holds { "yes" } else { "NO" })?;
        }
        writeln!(f, "  lost to neighbours: {:.0} ms", self.lost_ms)
    }
}

// === impl Line ===

impl Line {
    fn allowed(&self) -> f64 {
        self.model.abs() * self.tolerance.percent / 100.0 + self.tolerance.plus
    }

    fn holds(&self) -> bool {
        let above = self.kernel - self.model;
        above <= self.allowed() && (self.tolerance.or_less || -above <= self.allowed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether an attempt with these values is accepted, and how often it was tried.
    fn check(kernel: f64, tolerance: Tolerance, lost_ms: f64) -> (bool, u32) {
        let mut tries = 0;
        let verdict = judge("a case", || {
            tries += 1;
            let mut attempt = Attempt::new(lost_ms);
            attempt.compare("a value", kernel, 100.0, tolerance);
            Ok(attempt)
        });
        (verdict.is_ok(), tries)
    }

    #[test]
    fn what_is_within_the_tolerance_is_accepted_and_the_rest_fails_every_time() {
        let both_sides = Tolerance::of(10.0, 1.0);
        let or_less = Tolerance { or_less: true, ..both_sides };
        for kernel in [89.0, 100.0, 111.0] {
            assert_eq!(check(kernel, both_sides, 0.0), (true, 1), "{kernel}");
        }
        for kernel in [0.0, 88.0, 112.0] {
            assert_eq!(check(kernel, both_sides, 0.0), (false, TRIES), "{kernel}");
        }
        assert_eq!(check(0.0, or_less, 0.0), (true, 1));
        assert_eq!(check(112.0, or_less, 0.0), (false, TRIES));
    }

    #[test]
    fn a_load_that_was_starved_is_tried_again_but_not_for_ever() {
        let tolerance = Tolerance::of(0.0, 1.0);
        assert_eq!(check(112.0, tolerance, BEARABLE_MS + 1.0), (false, TRIES));
        assert_eq!(check(100.0, tolerance, BEARABLE_MS + 1.0), (true, 1));
        let mut tries = 0;
        let verdict = judge("a case", || {
            tries += 1;
            if tries < TRIES {
                Err(Disturbed("too late".to_owned()))
            } else {
                Ok(Attempt::new(0.0))
            }
        });
        assert!(verdict.is_ok_and(|told| told.contains("too late")));
    }

    #[test]
    fn a_claim_that_does_not_hold_fails() {
        let mut attempt = Attempt::new(0.0);
        attempt.claim("so it is", true);
        assert!(attempt.holds());
        attempt.claim("and so", false);
        assert!(!attempt.holds() && attempt.to_string().contains("and so: NO"));
    }
}
