//! Whether a guest can make do with less, and the limits of a group of workloads in it.

use alloc::format;
use alloc::string::{String, ToString};

use crate::units::{Bytes, Moment, Resources};

use super::Settings;
use super::need::{Looks, MemoryUse};

/// Whether the guest makes do with less, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it does.
    pub agrees: bool,
    /// Why, for people.
    pub why: String,
}

/// What a group of workloads in the guest may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLimits {
    /// Above this it is held back, and the guest asks for more.
    pub high: Bytes,
    /// Above this it is killed.
    pub max: Bytes,
}

impl Looks {
    pub(super) fn judge(
        &self,
        to: Resources,
        granted: Option<Resources>,
        now: Moment,
        settings: &Settings,
    ) -> Verdict {
        if to.lacks_one() {
            return Verdict::no("a guest cannot be without CPU or memory".to_string());
        }
        let shrinks_memory = granted.is_none_or(|granted| to.memory < granted.memory);
        let shrinks_cpu = granted.is_none_or(|granted| to.cpu < granted.cpu);
        if shrinks_cpu && self.needs().cpu {
            return Verdict::no("tasks are waiting for a CPU right now".to_string());
        }
        let left = to.cpu.get().div_ceil(1000);
        if shrinks_cpu && u64::from(self.busy()) > left {
            let busy = self.busy();
            return Verdict::no(format!("{busy} tasks run all of the time, and CPUs left: {left}"));
        }
        if !shrinks_memory {
            return Verdict { agrees: true, why: "no less memory".to_string() };
        }
        if self.used.len() < settings.memory_looks_min || !self.is_fresh(now, settings) {
            return Verdict::no("how much memory is in use is not known yet".to_string());
        }
        self.judge_memory(to.memory, granted.map(|granted| granted.memory), settings)
    }

    fn judge_memory(&self, to: Bytes, granted: Option<Bytes>, settings: &Settings) -> Verdict {
        let used = self.used.iter().map(MemoryUse::used).max().unwrap_or_default();
        let total = self.used.back().map(|memory| memory.total).unwrap_or_default();
        // What the kernel keeps of the machine for itself it keeps of a smaller one as well.
        let kept = granted.map(|granted| granted.saturating_sub(total));
        let usable = to.saturating_sub(kept.unwrap_or(settings.memory_system));
        let full = usable.scale_floor(settings.memory_full);
        let room = usable.saturating_sub(settings.memory_buffer).min(full);
        let (used, room) = (used.in_words(), (room, used <= room));
        let why =
            format!("{used} are in use, and of {} {} may be", to.in_words(), room.0.in_words());
        Verdict { agrees: room.1, why }
    }
}

// === impl Verdict ===

impl Verdict {
    const fn no(why: String) -> Self {
        Self { agrees: false, why }
    }
}

// === impl GroupLimits ===

impl GroupLimits {
    /// So much of `total` is for a group that has nearly all of the guest.
    #[must_use]
    pub fn of(total: Bytes, settings: &Settings) -> Self {
        Self { high: total.saturating_sub(settings.memory_system), max: total }
    }

    /// While more was asked for and has not come, a group that is held back gets a little more, so
    /// that it does not stand still.
    #[must_use]
    pub fn raised(self) -> Self {
        Self { high: (self.high + RAISE).min(self.max), ..self }
    }
}

/// The predecessor raises by 10 MiB every 25 ms, and a look comes every 100 ms.
const RAISE: Bytes = Bytes::new(40 << 20);
