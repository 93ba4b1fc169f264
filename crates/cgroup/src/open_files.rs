//! Room for the files that are kept open: two to four for each group.
//!
//! A process may usually have 1,024 open files, and may raise that to a much larger number by
//! itself. The daemon asks for as many as it needs before it opens groups.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Asks that this process may have `wanted` files open, and returns how many it may have now. It
/// is never fewer than before.
#[must_use]
pub fn allow_open_files(wanted: u64) -> u64 {
    let now = getrlimit(Resource::Nofile);
    // No number means that there is no limit.
    let (current, maximum) = (now.current.unwrap_or(u64::MAX), now.maximum.unwrap_or(u64::MAX));
    let raised = wanted.min(maximum);
    if raised <= current {
        return current;
    }
    let limit = Rlimit { current: Some(raised), maximum: now.maximum };
    if setrlimit(Resource::Nofile, limit).is_ok() { raised } else { current }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_never_falls() {
        let before = allow_open_files(0);
        assert!(before > 0);
        assert!(allow_open_files(before.saturating_add(1)) >= before);
        assert!(allow_open_files(1) >= before);
    }
}
