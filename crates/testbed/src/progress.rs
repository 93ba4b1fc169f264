//! Says on standard error what is going on, and waits for things with a deadline.
//!
//! Used by everything that takes time. Whoever waits says for what, and how long at most.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long to rest between two looks at a condition.
const REST: Duration = Duration::from_millis(40);

/// Tells the user what is going on.
pub fn say(message: &str) {
    #[expect(clippy::print_stderr, reason = "progress goes to standard error")]
    {
        eprintln!("testbed: {message}");
    }
}

/// Waits until `look` finds something, for at most `patience`.
///
/// # Errors
///
/// If `look` fails, or if it found nothing in time; the message then names `what`.
pub fn wait_for<T>(
    what: &str,
    patience: Duration,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if begun.elapsed() > patience {
            bail!("{what} did not happen within {} s", patience.as_secs());
        }
        rest();
    }
}

/// Rests a little before the next look at something.
pub(crate) fn rest() {
    #[expect(clippy::disallowed_methods, reason = "the one rest between two looks at a condition")]
    thread::sleep(REST);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found_and_what_never_comes_is_named() {
        let mut looks = 0;
        let found = wait_for("the third look", Duration::from_secs(60), || {
            looks += 1;
            Ok((looks == 3).then_some(looks))
        });
        assert_eq!(found.unwrap(), 3);
        let never = wait_for::<()>("the moon", Duration::ZERO, || Ok(None)).unwrap_err();
        assert_eq!(never.to_string(), "the moon did not happen within 0 s");
        let broken = wait_for::<()>("x", Duration::ZERO, || bail!("broken")).unwrap_err();
        assert_eq!(broken.to_string(), "broken");
    }
}
