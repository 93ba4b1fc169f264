//! Prometheus' node exporter: what it says about CPUs, memory, disks, interfaces and pressure.

use walras_core::units::Moment;

use super::exposition::Sample;
use super::{count_of, sum_of, whole};
use crate::counters::{Counters, Listed, MemoryUse};
use crate::parse::{CpuTimes, Disk, Interface, InterfaceName};
use crate::reading::{Seen, Unavailable};

/// Modes of a CPU that are not work.
const IDLE: [&str; 2] = ["idle", "iowait"];
/// Modes that are in others already.
const GUEST: [&str; 2] = ["guest", "guest_nice"];
/// Beginnings of names of disks and interfaces that are not of the machine itself.
const UNREAL: [&str; 10] =
    ["loop", "ram", "zram", "dm-", "md", "lo", "veth", "docker", "br-", "cali"];

/// The counters in a text of the exporter, read at `at`.
#[must_use]
pub fn node_exporter(samples: &[Sample<'_>], at: Moment) -> Counters {
    let mut counters = Counters::missing(at, Unavailable::NotReported { what: "it" });
    counters.cpus = listed(cpus(samples));
    counters.memory = memory(samples);
    counters.disks = listed(disks(samples));
    counters.interfaces = listed(interfaces(samples));
    counters.switches = count_of(samples, "node_context_switches_total", |_| true);
    let stalled = |name| Ok(micro(sum_of(samples, name, |_| true)?));
    counters.stalled_us = [
        stalled("node_pressure_cpu_waiting_seconds_total"),
        stalled("node_pressure_memory_waiting_seconds_total"),
        stalled("node_pressure_io_waiting_seconds_total"),
    ];
    counters
}

fn listed<T>(seen: Seen<Vec<T>>) -> Listed<T> {
    seen.map_or_else(Listed::missing, Listed::of)
}

fn micro(seconds: f64) -> u64 {
    whole((seconds * 1e6).floor()).unwrap_or_default()
}

fn cpus(samples: &[Sample<'_>]) -> Seen<Vec<CpuTimes>> {
    let name = "node_cpu_seconds_total";
    let mut cpus: Vec<CpuTimes> = Vec::new();
    for sample in samples.iter().filter(|it| it.name == name) {
        let number = sample.label("cpu").and_then(|cpu| cpu.parse::<u32>().ok());
        let (Some(cpu), Some(mode)) = (number, sample.label("mode")) else {
            return Err(Unavailable::Unreadable { what: name });
        };
        if GUEST.contains(&mode) {
            continue;
        }
        let us = micro(sample.value);
        let busy = if IDLE.contains(&mode) { 0 } else { us };
        match cpus.iter_mut().find(|it| it.cpu == cpu) {
            Some(times) => {
                times.busy = times.busy.saturating_add(busy);
                times.total = times.total.saturating_add(us);
            }
            None => cpus.push(CpuTimes { cpu, busy, total: us }),
        }
    }
    if cpus.is_empty() { Err(Unavailable::NotReported { what: name }) } else { Ok(cpus) }
}

fn memory(samples: &[Sample<'_>]) -> Seen<MemoryUse> {
    let total_bytes = count_of(samples, "node_memory_MemTotal_bytes", |_| true)?;
    let available = count_of(samples, "node_memory_MemAvailable_bytes", |_| true)?;
    Ok(MemoryUse { used_bytes: total_bytes.saturating_sub(available), total_bytes })
}

/// The devices of a metric that are of the machine itself, in the order of the text.
fn devices<'a>(samples: &'a [Sample<'_>], name: &'static str) -> Seen<Vec<&'a str>> {
    let of_name = samples.iter().filter(|it| it.name == name);
    let devices: Vec<&str> = of_name.filter_map(|it| it.label("device")).collect();
    if devices.is_empty() {
        return Err(Unavailable::NotReported { what: name });
    }
    let real = |device: &&str| !UNREAL.iter().any(|unreal| device.starts_with(unreal));
    Ok(devices.into_iter().filter(real).collect())
}

fn disks(samples: &[Sample<'_>]) -> Seen<Vec<Disk>> {
    let reads = "node_disk_reads_completed_total";
    let names = devices(samples, reads)?;
    let disk = |(place, device): (usize, &&str)| {
        let is = |it: &Sample<'_>| it.label("device") == Some(device);
        let seconds = sum_of(samples, "node_disk_read_time_seconds_total", is)?
            + sum_of(samples, "node_disk_write_time_seconds_total", is)?;
        let operations = count_of(samples, reads, is)?.saturating_add(count_of(
            samples,
            "node_disk_writes_completed_total",
            is,
        )?);
        Ok(Disk {
            // The exporter tells no numbers, so the name has to do, which stays with its disk.
            device: (number_of(device), u32::try_from(place).unwrap_or(u32::MAX)),
            operations,
            time_ms: micro(seconds) / 1000,
        })
    };
    names.iter().enumerate().map(disk).collect()
}

/// A number for a name: the same for the same name.
fn number_of(name: &str) -> u32 {
    name.bytes().fold(2_166_136_261, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(16_777_619))
}

fn interfaces(samples: &[Sample<'_>]) -> Seen<Vec<Interface>> {
    let received = "node_network_receive_packets_total";
    let names = devices(samples, received)?;
    let interface = |device: &&str| {
        let is = |it: &Sample<'_>| it.label("device") == Some(device);
        let name = InterfaceName::new(device.as_bytes())
            .ok_or(Unavailable::Unreadable { what: received })?;
        let dropped = count_of(samples, "node_network_receive_drop_total", is)?
            .saturating_add(count_of(samples, "node_network_transmit_drop_total", is)?);
        Ok(Interface {
            name,
            received: count_of(samples, received, is)?,
            sent: count_of(samples, "node_network_transmit_packets_total", is)?,
            dropped,
        })
    };
    names.iter().map(interface).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapt::{samples, snapshot};
    use crate::metric::Metric;
    use crate::reading::Reading;
    use crate::snapshot::Source;

    const OLDER: &str = "\
node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 100
node_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 50.5
node_cpu_seconds_total{cpu=\"0\",mode=\"guest\"} 7
node_memory_MemTotal_bytes 1000
node_memory_MemAvailable_bytes 250
node_context_switches_total 1e6
node_disk_reads_completed_total{device=\"sda\"} 10
node_disk_writes_completed_total{device=\"sda\"} 20
node_disk_read_time_seconds_total{device=\"sda\"} 1.5
node_disk_write_time_seconds_total{device=\"sda\"} 0.5
node_disk_reads_completed_total{device=\"dm-0\"} 10
node_network_receive_packets_total{device=\"eth0\"} 100
node_network_receive_packets_total{device=\"lo\"} 100
node_network_transmit_packets_total{device=\"eth0\"} 200
node_network_receive_drop_total{device=\"eth0\"} 0
node_network_transmit_drop_total{device=\"eth0\"} 0
node_pressure_io_waiting_seconds_total 5
";
    const NEWER: &str = "\
node_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 107.5
node_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 53
node_cpu_seconds_total{cpu=\"0\",mode=\"guest\"} 9
node_memory_MemTotal_bytes 1000
node_memory_MemAvailable_bytes 500
node_context_switches_total 1.005e6
node_disk_reads_completed_total{device=\"sda\"} 30
node_disk_writes_completed_total{device=\"sda\"} 50
node_disk_read_time_seconds_total{device=\"sda\"} 1.55
node_disk_write_time_seconds_total{device=\"sda\"} 0.6
node_network_receive_packets_total{device=\"eth0\"} 200
node_network_transmit_packets_total{device=\"eth0\"} 290
node_network_receive_drop_total{device=\"eth0\"} 10
node_network_transmit_drop_total{device=\"eth0\"} 0
node_pressure_io_waiting_seconds_total 7.5
";

    #[test]
    fn counters_of_two_texts_become_rates() {
        let read = |text, ms| node_exporter(&samples(text).0, Moment::from_ms(ms));
        let (older, newer) = (read(OLDER, 0), read(NEWER, 10_000));
        let snapshot = snapshot("a", 7, Source::NodeExporter, Some(&older), &newer);
        for (metric, expected) in [
            (Metric::CpuUtilization, 0.25),
            (Metric::MemoryUtilization, 0.5),
            (Metric::ContextSwitches, 500.0),
            (Metric::DiskOperations, 5.0),
            (Metric::DiskWait, 3.0),
            (Metric::PacketsReceived, 10.0),
            (Metric::PacketsSent, 9.0),
            (Metric::PacketDropRate, 0.05),
            (Metric::IoPressure, 0.25),
        ] {
            let value = snapshot.value(metric).unwrap_or(f64::NAN);
            assert!((value - expected).abs() < 1e-9, "{metric}: {value}");
        }
        let missing = snapshot.figure(Metric::CacheMissRate).reading;
        let why = Unavailable::NotReported { what: "l3_cache_miss_rate" };
        assert_eq!(missing, Reading::Unavailable(why));
    }

    #[test]
    fn a_text_of_something_else_says_nothing() {
        let counters = node_exporter(&samples("up 1\n").0, Moment::ORIGIN);
        let snapshot = snapshot("a", 0, Source::NodeExporter, None, &counters);
        assert!(Metric::ALL.iter().all(|metric| snapshot.value(*metric).is_none()));
    }
}
