//! Writes to a pod's own control groups, for what cannot wait for the API server.
//!
//! What a pod has by its node is where this starts from and what it gives back; the kubelet writes
//! that at every resize and restart, and is never fought. A container keeps its part of the pod's
//! limit. Weights are the kubelet's: they follow requests.
//!
//! A burst buffer is never larger than the quota that the API server's limit makes, nor than the
//! one of the limit that the node has agreed to. The kernel refuses a quota below the buffer, so a
//! larger one would keep the kubelet from setting the limit.

use std::collections::BTreeMap;

use walras_cgroup::{CgroupError, CgroupPath, Layout, Limited, Settings, Supervised, Target};
use walras_core::parse::CpuMax;
use walras_core::units::{Millicores, Span};

/// A group, and the limit that the kubelet sets on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The group.
    pub path: CgroupPath,
    /// The limit that its node has agreed to.
    pub limit: Millicores,
    /// The least limit that the kubelet may set next: that one, or what it should have by now.
    pub least: Millicores,
}

/// The groups of a pod, with what the kubelet sets on each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The pod itself.
    pub pod: Part,
    /// Its containers.
    pub containers: Vec<Part>,
}

/// A pod whose groups may be written.
#[derive(Debug)]
pub struct Direct {
    parts: Parts,
    groups: Supervised,
}

/// What was written to groups, and has to be taken back some day.
#[derive(Clone, Debug, Default)]
pub struct Left(BTreeMap<CgroupPath, Trace>);

/// What was written to one group.
#[derive(Clone, Copy, Debug)]
struct Trace {
    /// Whether it had a quota before anything was written.
    was_limited: bool,
    /// The quota that was written last; nothing if only the burst buffer ever was.
    quota: Option<CpuMax>,
}

// === impl Direct ===

impl Direct {
    /// Opens the groups of a pod whose containers all have a limit.
    ///
    /// # Errors
    /// A group is gone or cannot be read.
    pub fn open(layout: &Layout, parts: Parts) -> Result<Self, CgroupError> {
        let groups = parts.open(layout)?;
        Ok(Self { parts, groups })
    }

    /// Sets the limit of the pod, and of each container its part of it.
    ///
    /// # Errors
    /// A group is gone, or the kernel refuses a value.
    pub fn apply(&self, limit: Millicores, burst: Millicores) -> Result<Limited, CgroupError> {
        let burst = burst.min(self.parts.pod.least);
        let bursting = burst > Millicores::ZERO;
        let target = Target { limit: Some(limit), weight: None, burst: Some(burst) };
        self.groups.apply(&target, self.parts.each(|part, now| due(part, now, bursting)))
    }
}

// === impl Parts ===

impl Parts {
    /// Opens the groups that are there. The news that a container is gone comes from the API
    /// server.
    fn open(&self, layout: &Layout) -> Result<Supervised, CgroupError> {
        Supervised::open(layout, &self.pod.path, self.containers.iter().map(|part| &part.path))
    }

    /// What `says` makes of each group's settings.
    fn each(
        &self,
        says: impl Fn(&Part, &Settings) -> Settings,
    ) -> impl Fn(&CgroupPath, &Settings) -> Settings {
        move |path, now| {
            let mut parts = std::iter::once(&self.pod).chain(&self.containers);
            parts.find(|part| part.path == *path).map_or(*now, |part| says(part, now))
        }
    }
}

// === impl Left ===

impl Left {
    /// Whether there is nothing to take back.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A write was tried that found `before` and left `after`.
    pub fn note(&mut self, path: &CgroupPath, before: &Settings, after: &Settings) {
        if before.max == after.max && before.burst == after.burst {
            return;
        }
        let was_limited = before.max.quota.is_some();
        let trace = self.0.entry(path.clone()).or_insert(Trace { was_limited, quota: None });
        if before.max != after.max {
            trace.quota = Some(after.max);
        }
    }

    /// Takes what a group was found with for written here: the quota if that is said, and the burst
    /// buffer, since the kubelet sets none.
    pub fn found(&mut self, path: &CgroupPath, now: &Settings, quota: bool) {
        let bursts = now.burst.is_some_and(|burst| burst > Span::ZERO);
        if quota || bursts {
            let trace = Trace { was_limited: true, quota: quota.then_some(now.max) };
            self.0.entry(path.clone()).or_insert(trace);
        }
    }

    /// Forgets every group but these: nothing can be taken back from one that is gone.
    pub fn keep_only<'a>(&mut self, groups: impl Iterator<Item = &'a CgroupPath>) {
        let groups: Vec<&CgroupPath> = groups.collect();
        self.0.retain(|path, _| groups.contains(&path));
    }

    /// What a group with the settings `now` should have: its limit by its node where what was
    /// written is still in force. Where the kubelet has set a quota since, only the burst buffer is
    /// taken back, which is none of the kubelet's.
    #[must_use]
    pub fn taken_back(&self, part: &Part, now: &Settings) -> Settings {
        let Some(trace) = self.0.get(&part.path) else {
            return *now;
        };
        let usual = due(part, now, false);
        let quota = if trace.was_limited { usual.max.quota } else { None };
        let is_ours = trace.quota == Some(now.max);
        let max = if is_ours { CpuMax { quota, ..usual.max } } else { now.max };
        Settings { max, ..usual }
    }
}

/// Takes back what was written to a pod's groups.
///
/// # Errors
/// The pod's group is gone, or the kernel refuses a value.
pub fn take_back(layout: &Layout, parts: &Parts, left: &Left) -> Result<(), CgroupError> {
    parts.open(layout)?.set(parts.each(|part, now| left.taken_back(part, now)))
}

/// Makes burst buffers as small as the kubelet may want them next, and changes nothing else.
///
/// # Errors
/// The pod's group is gone, or the kernel refuses a value.
pub fn cap_bursts(layout: &Layout, parts: &Parts) -> Result<(), CgroupError> {
    parts.open(layout)?.set(parts.each(|part, now| Settings {
        burst: now.burst.map(|burst| burst.min(quota_of(part.least, now.max.period))),
        ..*now
    }))
}

/// What a group should have by its limit, with as large a burst buffer as may be or none.
fn due(part: &Part, now: &Settings, bursting: bool) -> Settings {
    let period = now.max.period;
    let quota = quota_of(part.limit, period);
    let burst = if bursting { quota_of(part.least, period) } else { Span::ZERO };
    Settings {
        max: CpuMax { quota: Some(quota), period },
        weight: now.weight,
        burst: now.burst.map(|_| burst),
    }
}

/// The quota that a limit makes, as the kubelet computes it.
fn quota_of(limit: Millicores, period: Span) -> Span {
    let quota = u128::from(limit.get()) * u128::from(period.as_us()) / 1000;
    Span::from_us(u64::try_from(quota).unwrap_or(u64::MAX)).max(Span::from_ms(1))
}
