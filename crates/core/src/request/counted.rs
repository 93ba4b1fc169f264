//! What counts of what workloads used in a window, when it is asked what they should request.
//!
//! What a workload used above its right counts only where that was its own doing and no other's
//! CPU: not while it took all it could get, and not while more was used above rights than the
//! rights leave of the node. One that had to wait below its right counts as having used what it
//! waited for, so that a request does not sink because it was too small.

use crate::units::{Millicores, Ratio};

/// What a workload did in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowUse {
    /// What it has a right to.
    pub right: Millicores,
    /// What it used on average.
    pub used: Millicores,
    /// The share of the window in which it waited for a CPU.
    pub stall_ratio: Ratio,
    /// Whether it took all that it could get.
    pub was_elastic: bool,
}

/// Whether the workloads of a node used CPU that was lent to them: more above their rights than the
/// rights leave `free`.
#[must_use]
pub fn is_lent<'a>(uses: impl IntoIterator<Item = &'a WindowUse>, free: Millicores) -> bool {
    let above = |it: &WindowUse| it.used.saturating_sub(it.right);
    uses.into_iter().map(above).sum::<Millicores>() > free
}

// === impl WindowUse ===

impl WindowUse {
    /// What counts of it, where CPU was lent on the node, or was not.
    #[must_use]
    pub fn counted(&self, is_lent: bool) -> Millicores {
        let felt = self.used.scale_floor(Ratio::ONE + self.stall_ratio);
        let used = self.used.max(felt.min(self.right));
        if is_lent || self.was_elastic { used.min(self.right) } else { used }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(used: u64, stall_percent: u32, was_elastic: bool) -> WindowUse {
        let stall_ratio = Ratio::from_percent(stall_percent);
        WindowUse {
            right: Millicores::new(400),
            used: Millicores::new(used),
            stall_ratio,
            was_elastic,
        }
    }

    #[test]
    fn what_was_lent_does_not_count_and_what_was_waited_for_does() {
        let counted = |it: WindowUse, is_lent| it.counted(is_lent).get();
        assert_eq!(counted(of(500, 0, false), false), 500);
        assert_eq!(counted(of(500, 0, false), true), 400);
        assert_eq!(counted(of(500, 0, true), false), 400);
        assert_eq!(counted(of(300, 20, false), false), 360);
        assert_eq!(counted(of(300, 90, false), false), 400, "as far as its right");
    }

    #[test]
    fn cpu_is_lent_where_more_is_used_above_rights_than_they_leave() {
        let uses = [of(500, 0, false), of(100, 0, false), of(450, 0, false)];
        assert!(!is_lent(&uses, Millicores::new(150)));
        assert!(is_lent(&uses, Millicores::new(149)));
    }
}
