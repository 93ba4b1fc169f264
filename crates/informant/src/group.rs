//! The group of workloads in the guest whose memory is limited with the guest's, where there is
//! one: `memory.high` and `memory.max` of the second version of control groups.

use std::fs;
use std::path::PathBuf;

use walras_core::informant::{GroupLimits, Settings};
use walras_core::parse;
use walras_core::units::Bytes;

/// A group.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    limits: Option<GroupLimits>,
    /// What the limits were made for.
    total: Option<Bytes>,
}

impl Group {
    /// The group at `path`.
    #[must_use]
    pub const fn new(path: PathBuf) -> Self {
        Self { path, limits: None, total: None }
    }

    /// How often it was held back at its limit.
    #[must_use]
    pub fn held_back(&self) -> Option<u64> {
        let text = fs::read(self.path.join("memory.events")).ok()?;
        parse::memory_events(&text).ok()?.high
    }

    /// The guest has so much memory in all. Where that changed, so do the limits.
    pub fn fit(&mut self, total: Bytes, settings: &Settings) -> Option<String> {
        if self.total == Some(total) {
            return None;
        }
        self.total = Some(total);
        self.set(GroupLimits::of(total, settings))
    }

    /// It is held back and more was asked for: until that comes, it gets a little more.
    pub fn raise(&mut self) -> Option<String> {
        let limits = self.limits?;
        let raised = limits.raised();
        if raised == limits { None } else { self.set(raised) }
    }

    /// The higher limit is written first where both grow, so that they never cross.
    fn set(&mut self, limits: GroupLimits) -> Option<String> {
        let grows = self.limits.is_none_or(|old| limits.max >= old.max);
        let files = [("memory.max", limits.max), ("memory.high", limits.high)];
        let order: [usize; 2] = if grows { [0, 1] } else { [1, 0] };
        let written = order.into_iter().try_for_each(|place| {
            let (file, bytes) = files[place];
            fs::write(self.path.join(file), bytes.get().to_string())
        });
        self.limits = Some(limits);
        let error = written.err()?;
        Some(format!("{}: its memory cannot be limited: {error}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_the_guest_and_are_raised_while_it_waits() {
        let folder = tempfile::tempdir().unwrap();
        let at = |file: &str| folder.path().join(file);
        let read = |file: &str| fs::read_to_string(at(file)).unwrap().parse::<u64>().unwrap() >> 20;
        let mut group = Group::new(folder.path().to_owned());
        assert_eq!(group.held_back(), None);
        fs::write(at("memory.events"), "low 0\nhigh 7\nmax 0\noom 0\noom_kill 0\n").unwrap();
        assert_eq!(group.held_back(), Some(7));
        assert_eq!(group.fit(Bytes::new(512 << 20), &Settings::DEFAULT), None);
        assert_eq!((read("memory.high"), read("memory.max")), (412, 512));
        for high in [452, 492, 512, 512] {
            assert_eq!(group.raise(), None);
            assert_eq!(read("memory.high"), high);
        }
        assert_eq!(group.fit(Bytes::new(1 << 30), &Settings::DEFAULT), None);
        assert_eq!((read("memory.high"), read("memory.max")), (924, 1024));
    }
}
