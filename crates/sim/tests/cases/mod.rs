//! How a property test gets its cases, counts them, and reports the one that broke.
//!
//! Case `k` of a run is drawn from the seed `WALRAS_SEED + k`, so any case can be run again alone:
//! set the seed it reports and `WALRAS_CASES=1`. A panic inside a case counts as a broken property.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use walras_sim::shrink::shrink;

/// What is wrong with a case, in words.
pub(crate) type Verdict = Result<(), String>;

/// The cases of one property test.
pub(crate) struct Cases {
    test: &'static str,
    seed: u64,
    count: u64,
    tally: BTreeMap<String, u64>,
}

/// Ends the check with an explanation unless the condition holds.
#[macro_export]
macro_rules! ensure {
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            return Err(format!($($words)+));
        }
    };
}

impl Cases {
    /// The cases of `test`: as many as the environment says, else `count`.
    pub(crate) fn of(test: &'static str, count: u64) -> Self {
        let seed = from_environment("WALRAS_SEED").unwrap_or(1);
        let count = from_environment("WALRAS_CASES").unwrap_or(count);
        Self { test, seed, count, tally: BTreeMap::new() }
    }

    /// The seed of every case.
    pub(crate) fn seeds(&self) -> impl Iterator<Item = u64> + use<> {
        let first = self.seed;
        (0..self.count).map(move |place| first.wrapping_add(place))
    }

    /// One more case was of this kind.
    pub(crate) fn count(&mut self, kind: &str) {
        match self.tally.get_mut(kind) {
            Some(count) => *count += 1,
            None => {
                self.tally.insert(kind.to_owned(), 1);
            }
        }
    }

    /// Says what was covered. The last thing a passing test does.
    pub(crate) fn report(self) {
        let tally: Vec<String> =
            self.tally.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let Self { test, seed, count, .. } = self;
        println!("{test}: {count} cases from seed {seed}; {}", tally.join(", "));
    }

    /// Checks the case of `seed`, which consists of `items`. If it is broken, panics with the
    /// fewest of them that still break it.
    pub(crate) fn check<T: Clone + Debug>(
        &self,
        seed: u64,
        items: &[T],
        mut verdict: impl FnMut(&[T]) -> Verdict,
    ) {
        let Err(broken) = guarded(|| verdict(items)) else {
            return;
        };
        // Panics while shrinking are part of the search and not worth a message each.
        std::panic::set_hook(Box::new(|_| {}));
        let fewest = shrink(items, |fewer| guarded(|| verdict(fewer)).is_err());
        drop(std::panic::take_hook());
        let broken_still = guarded(|| verdict(&fewest)).expect_err("shrinking keeps the failure");
        let lines: Vec<String> = fewest.iter().map(|item| format!("  {item:?}")).collect();
        panic!(
            "{test} is broken: {broken}\nrun it again: WALRAS_SEED={seed} WALRAS_CASES=1 cargo \
             test --package walras-sim {test}\nwith the fewest items: {broken_still}\n{}",
            lines.join("\n"),
            test = self.test,
        );
    }
}

/// The verdict, where a panic is one too.
pub(crate) fn guarded(verdict: impl FnOnce() -> Verdict) -> Verdict {
    catch_unwind(AssertUnwindSafe(verdict)).unwrap_or_else(|panic| {
        let words = match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
            (Some(words), _) => words,
            (None, Some(words)) => *words,
            (None, None) => "no words",
        };
        Err(format!("a panic: {words}"))
    })
}

#[expect(clippy::disallowed_methods, reason = "a broken case is run again by its seed")]
fn from_environment(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")))
}
