//! `/proc/stat`: what each CPU did, and how often tasks changed.

use super::{lines, number, numbers, words};

/// The time of one CPU, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTimes {
    /// Its number.
    pub cpu: u32,
    /// Not idle: work, interrupts, and what a hypervisor gave to others.
    pub busy: u64,
    /// All of it.
    pub total: u64,
}

/// What the file says besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// How often CPUs changed tasks.
    pub switches: u64,
}

/// Reads the file; the CPUs go to `cpus`, in the order of the file.
#[must_use]
pub fn stat(text: &[u8], cpus: &mut Vec<CpuTimes>) -> Option<Stat> {
    cpus.clear();
    let mut switches = None;
    for line in lines(text) {
        if let Some(rest) = line.strip_prefix(b"cpu") {
            // The first line is the sum of the others.
            if rest.first().is_some_and(u8::is_ascii_digit) {
                cpus.push(cpu_times(rest)?);
            }
        } else if let Some(rest) = line.strip_prefix(b"ctxt ") {
            switches = Some(number(rest)?);
        }
    }
    switches.map(|switches| Stat { switches })
}

fn cpu_times(rest: &[u8]) -> Option<CpuTimes> {
    let mut words = words(rest);
    let cpu = u32::try_from(number(words.next()?)?).ok()?;
    let [user, nice, system, idle] = numbers(&mut words)?;
    // Older kernels do not tell these four; time as a guest is in `user` and `nice` already.
    let [iowait, irq, softirq, steal] = numbers(&mut words).unwrap_or_default();
    let sum = |parts: &[u64]| parts.iter().fold(0_u64, |sum, part| sum.saturating_add(*part));
    let busy = sum(&[user, nice, system, irq, softirq, steal]);
    Some(CpuTimes { cpu, busy, total: sum(&[busy, idle, iowait]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 20 3 4000 50 6 7 8 90 0\n\
                          cpu3 1 0 0 1 0 0 0 0 0 0\nintr 5 0 0 1\nctxt 77\nbtime 1\n";

    #[test]
    fn each_cpu_is_busy_when_it_is_not_idle() {
        let mut cpus = Vec::new();
        assert_eq!(stat(TEXT, &mut cpus), Some(Stat { switches: 77 }));
        let first = CpuTimes { cpu: 0, busy: 144, total: 4194 };
        assert_eq!(cpus, [first, CpuTimes { cpu: 3, busy: 1, total: 2 }]);
        // What an old kernel writes.
        assert_eq!(stat(b"cpu0 1 2 3 4\nctxt 1\n", &mut cpus), Some(Stat { switches: 1 }));
        assert_eq!(cpus, [CpuTimes { cpu: 0, busy: 6, total: 10 }]);
    }

    #[test]
    fn what_is_damaged_is_refused() {
        for text in ["", "cpu0 1 2 3 4\n", "cpu0 1 2\nctxt 1\n", "ctxt x\n", "cpu0 a 1 1 1\nctxt 1"]
        {
            assert_eq!(stat(text.as_bytes(), &mut Vec::new()), None, "{text}");
        }
    }
}
