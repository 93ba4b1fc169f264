//! Events counted by the CPUs and by the memory controllers.
//!
//! Where more events are counted than there are counters, the kernel counts each for a part of the
//! time and says for how long; numbers are scaled up by that. [`MemoryEvents`] knows controllers
//! that describe what they read and write in bytes, as those of Xeons do.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use crate::counters::CacheUse;
use crate::cpu_set::CpuSet;
use crate::rate::count;
use crate::reading::{Seen, Unavailable};
use crate::sampler::text_of;

use super::event::{bytes_per_count, config};
use super::syscall::{self, Event};

/// The kernel's number of events that every CPU has, and of events about caches.
const HARDWARE: u32 = 0;
const HARDWARE_CACHE: u32 = 3;
/// Reads of the last cache (2), that found something or not (0), and that did not (1).
const LAST_READS: u64 = 2;
const LAST_MISSES: u64 = 2 | 1 << 16;
/// What a CPU calls references and misses of its cache where it does not tell the last one apart.
const REFERENCES: u64 = 2;
const MISSES: u64 = 3;

const CACHE: &str = "cache counters of the CPU";
const MEMORY: &str = "counters of memory controllers";
/// How the devices of memory controllers are called.
const CONTROLLERS: [&str; 2] = ["uncore_imc", "amd_umc"];
/// What they call reading and writing.
const TRAFFIC: [&str; 4] = ["cas_count_read", "cas_count_write", "data_read", "data_write"];

/// Looks into the last cache, on each CPU.
#[derive(Debug)]
pub(super) struct CacheEvents {
    looks: Vec<File>,
    misses: Vec<File>,
}

/// What memory controllers moved.
#[derive(Debug)]
pub(super) struct MemoryEvents {
    events: Vec<(File, f64)>,
}

/// What an event's descriptor gives: the number, how long it could have been counted, and how long
/// it was, in nanoseconds.
fn scaled(words: [u64; 3]) -> Option<u64> {
    let [value, enabled, running] = words;
    match (enabled, running) {
        // It never had a counter.
        (_, 0) => (enabled == 0).then_some(value),
        (enabled, running) if enabled == running => Some(value),
        (enabled, running) => {
            let scaled = u128::from(value) * u128::from(enabled) / u128::from(running);
            u64::try_from(scaled).ok()
        }
    }
}

fn read(file: &mut File, what: &'static str) -> Seen<u64> {
    let mut bytes = [0; 24];
    let unreadable = Unavailable::Unreadable { what };
    file.read_exact(&mut bytes).map_err(|_| unreadable)?;
    let mut words = [0; 3];
    for (word, part) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(part.try_into().map_err(|_| unreadable)?);
    }
    scaled(words).ok_or(unreadable)
}

/// Why an event cannot be counted.
fn refused(error: &io::Error, what: &'static str) -> Unavailable {
    if error.kind() == io::ErrorKind::PermissionDenied {
        Unavailable::NotAllowed { what }
    } else {
        Unavailable::NoHardware { what }
    }
}

// === impl CacheEvents ===

impl CacheEvents {
    /// Counts on `cpus`, or on all that are online.
    pub(super) fn open(sys: &Path, cpus: Option<&CpuSet>) -> Seen<Self> {
        let online = text_of(&sys.join("devices/system/cpu/online"), "list of CPUs")?;
        let online =
            CpuSet::parse(&online).map_err(|_| Unavailable::Unreadable { what: "list of CPUs" })?;
        let wanted = |cpu: &u32| cpus.is_none_or(|cpus| cpus.has(*cpu));
        let cpus: Vec<u32> = online.iter().filter(wanted).collect();
        let open = |kind, config| -> io::Result<Vec<File>> {
            cpus.iter().map(|cpu| syscall::open(Event { kind, config }, *cpu)).collect()
        };
        let last = || -> io::Result<Self> {
            let looks = open(HARDWARE_CACHE, LAST_READS)?;
            Ok(Self { looks, misses: open(HARDWARE_CACHE, LAST_MISSES)? })
        };
        let any = || -> io::Result<Self> {
            Ok(Self { looks: open(HARDWARE, REFERENCES)?, misses: open(HARDWARE, MISSES)? })
        };
        last().or_else(|_| any()).map_err(|error| refused(&error, CACHE))
    }

    /// Looks and misses until now.
    pub(super) fn read(&mut self) -> Seen<CacheUse> {
        let sum = |files: &mut Vec<File>| -> Seen<u64> {
            files
                .iter_mut()
                .try_fold(0, |sum: u64, file| Ok(sum.saturating_add(read(file, CACHE)?)))
        };
        Ok(CacheUse { looks: sum(&mut self.looks)?, misses: sum(&mut self.misses)? })
    }
}

// === impl MemoryEvents ===

impl MemoryEvents {
    /// Counts what all controllers of the machine read and write.
    pub(super) fn open(sys: &Path) -> Seen<Self> {
        let missing = Unavailable::NoHardware { what: MEMORY };
        let mut events = Vec::new();
        for (event, cpu, bytes) in described(sys) {
            let file = syscall::open(event, cpu).map_err(|error| refused(&error, MEMORY))?;
            events.push((file, bytes));
        }
        if events.is_empty() { Err(missing) } else { Ok(Self { events }) }
    }

    /// Everything that was moved until now.
    pub(super) fn moved_bytes(&mut self) -> Seen<u64> {
        self.events.iter_mut().try_fold(0_u64, |sum, (file, bytes)| {
            Ok(sum.saturating_add(whole(count(read(file, MEMORY)?) * *bytes)))
        })
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn whole(bytes: f64) -> u64 {
    bytes as u64
}

/// What memory controllers describe as their traffic: the event, the CPU to count it on, and how
/// many bytes one count is.
fn described(sys: &Path) -> Vec<(Event, u32, f64)> {
    let devices = sys.join("bus/event_source/devices");
    let mut found = Vec::new();
    for device in fs::read_dir(devices).into_iter().flatten().flatten() {
        let name = device.file_name();
        let name = name.to_string_lossy();
        if CONTROLLERS.iter().any(|controller| name.starts_with(controller)) {
            found.extend(traffic_of(&device.path()));
        }
    }
    found.sort_unstable_by_key(|(event, cpu, _)| (event.kind, *cpu, event.config));
    found
}

fn traffic_of(device: &Path) -> Vec<(Event, u32, f64)> {
    let text = |name: &str| text_of(&device.join(name), MEMORY).ok();
    let kind = text("type").and_then(|text| text.trim().parse().ok());
    let cpus = text("cpumask").and_then(|text| CpuSet::parse(&text).ok());
    let (Some(kind), Some(cpus)) = (kind, cpus) else { return Vec::new() };
    let mut found = Vec::new();
    for name in TRAFFIC {
        let event = text(&format!("events/{name}"));
        let event = event.and_then(|it| config(&it, |word| text(&format!("format/{word}"))));
        let (scale, unit) =
            (text(&format!("events/{name}.scale")), text(&format!("events/{name}.unit")));
        let bytes = scale.zip(unit).and_then(|(scale, unit)| bytes_per_count(&scale, &unit));
        if let (Some(config), Some(bytes)) = (event, bytes) {
            found.extend(cpus.iter().map(|cpu| (Event { kind, config }, cpu, bytes)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_was_counted_for_a_part_of_the_time_is_scaled_up() {
        assert_eq!(scaled([100, 50, 50]), Some(100));
        assert_eq!(scaled([100, 100, 25]), Some(400));
        assert_eq!(scaled([0, 100, 0]), None, "it never had a counter");
        assert_eq!(scaled([0, 0, 0]), Some(0), "it was made just now");
        assert_eq!(scaled([u64::MAX, u64::MAX, 1]), None);
    }

    /// What `/sys` of a machine with two memory controllers and two packages has.
    #[test]
    fn memory_controllers_are_found_by_what_they_describe() {
        let sys = tempfile::tempdir().unwrap();
        let devices = sys.path().join("bus/event_source/devices");
        let write = |name: &str, text: &str| {
            let path = devices.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (controller, kind) in [("uncore_imc_0", "14\n"), ("uncore_imc_1", "15\n")] {
            write(&format!("{controller}/type"), kind);
            write(&format!("{controller}/cpumask"), "0,28\n");
            write(&format!("{controller}/format/event"), "config:0-7\n");
            write(&format!("{controller}/format/umask"), "config:8-15\n");
            for (name, event) in [("read", "0x03"), ("write", "0x0c")] {
                let event = format!("event=0x04,umask={event}\n");
                write(&format!("{controller}/events/cas_count_{name}"), &event);
                write(&format!("{controller}/events/cas_count_{name}.scale"), "6.103515625e-5\n");
                write(&format!("{controller}/events/cas_count_{name}.unit"), "MiB\n");
            }
        }
        write("cpu/type", "4\n");
        let found = described(sys.path());
        let first = Event { kind: 14, config: 0x304 };
        assert_eq!(found.len(), 8);
        assert_eq!(found[0], (first, 0, 64.0));
        assert_eq!(found[7], (Event { kind: 15, config: 0xC04 }, 28, 64.0));
        assert_eq!(described(Path::new("/nowhere")), []);
    }

    #[test]
    fn without_counters_nothing_is_zero() {
        let sys = tempfile::tempdir().unwrap();
        let why = MemoryEvents::open(sys.path()).map(|_| ()).unwrap_err();
        assert_eq!(why, Unavailable::NoHardware { what: MEMORY });
        let why = CacheEvents::open(sys.path(), None).map(|_| ()).unwrap_err();
        assert_eq!(why, Unavailable::Absent { what: "list of CPUs" });
        let of = |errno| refused(&io::Error::from_raw_os_error(errno), CACHE);
        assert_eq!(of(13), Unavailable::NotAllowed { what: CACHE });
        assert_eq!(of(2), Unavailable::NoHardware { what: CACHE });
    }
}
