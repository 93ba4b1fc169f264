//! Our programs in the kernel of this machine, compared with what the kernel says by other ways.
//!
//! Needs root. Run by `cargo xtask test --tier kernel`, or alone by
//! `cargo test -p walras-telemetry --features real-kernel --test kernel`.

#[cfg(test)]
mod ground;

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write;
    use std::net::UdpSocket;
    use std::os::unix::fs::MetadataExt;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use walras_core::units::Moment;
    use walras_telemetry::ebpf::{GroupWaits, ProbeOptions, Probes};
    use walras_telemetry::metadata::{Metadata, Said};
    use walras_telemetry::metric::Metric;
    use walras_telemetry::parse::{Disk, disks};
    use walras_telemetry::sampler::{Roots, Sampler, Scope};

    use crate::ground::{Burner, Ground, SchedStat, burn_if_told, wait_for};

    /// Programs of one test alone: those of another one would come and go while it counts.
    fn probes() -> (MutexGuard<'static, ()>, Probes) {
        static ALONE: Mutex<()> = Mutex::new(());
        // A test that failed leaves nothing behind that others could stumble over.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let options = ProbeOptions { per_group: true };
        (alone, Probes::load(options).expect("root on a kernel with BTF may"))
    }

    /// Starts as many burners as `count`, lets them run until each had its turn many times, and
    /// returns what our programs and the kernel itself say about that.
    fn contend(probes: &Probes, ground: &Ground, count: usize) -> (GroupWaits, SchedStat) {
        let burners = ground.burners(count);
        let number = ground.number();
        let all = |of: fn(&Burner) -> SchedStat| {
            burners.iter().map(of).fold(SchedStat::default(), |sum, one| SchedStat {
                ran_ns: sum.ran_ns + one.ran_ns,
                waited_ns: sum.waited_ns + one.waited_ns,
                runs: sum.runs + one.runs,
            })
        };
        // The first runs of a group make its entry in the map, which the kernel may refuse at a
        // moment when somebody else holds its lock. So they are not compared.
        burners.iter().for_each(Burner::go);
        wait_for("a first run", || (probes.group(number).unwrap().runs > 0).then_some(()));
        burners.iter().for_each(Burner::stop);
        let before = all(Burner::sched_stat);
        let counted_before = probes.group(number).unwrap();
        burners.iter().for_each(Burner::go);
        wait_for("CPU time", || {
            let ran = all(Burner::sched_stat).ran_ns - before.ran_ns;
            (ran > 300_000_000).then_some(())
        });
        burners.iter().for_each(Burner::stop);
        // A stopped task has left its CPU, and its last wait was counted then.
        let (after, counted) = (all(Burner::sched_stat), probes.group(number).unwrap());
        let counted = GroupWaits {
            runs: counted.runs - counted_before.runs,
            waited_ns: counted.waited_ns - counted_before.waited_ns,
        };
        let kernel = SchedStat {
            ran_ns: after.ran_ns - before.ran_ns,
            waited_ns: after.waited_ns - before.waited_ns,
            runs: after.runs - before.runs,
        };
        (counted, kernel)
    }

    /// Not a test of anything: what the burning processes run.
    #[test]
    fn the_burning_process_burns() {
        burn_if_told();
    }

    #[test]
    fn waits_for_a_cpu_are_those_that_the_kernel_counts_for_each_task() {
        let Some(ground) = Ground::prepared() else { return };
        let (_alone, probes) = probes();
        let (counted, kernel) = contend(&probes, &ground, 3);
        println!("three on one CPU: counted {counted:?}, the kernel says {kernel:?}");
        assert!(kernel.runs > 0 && kernel.waited_ns > 0, "{kernel:?}");
        // To the nanosecond, if nobody else meanwhile attaches a program to the same tracepoint:
        // the kernel may lose an event then, and with it the run that it began or ended.
        assert!(counted.runs <= kernel.runs && counted.waited_ns <= kernel.waited_ns);
        assert!(counted.runs >= kernel.runs - kernel.runs.div_ceil(10));
        assert!(counted.waited_ns >= kernel.waited_ns - kernel.waited_ns / 7);
    }

    #[test]
    fn all_of_a_cpu_is_at_least_what_one_group_waited_there() {
        let Some(ground) = Ground::prepared() else { return };
        let (_alone, probes) = probes();
        let before = probes.scheduling(None).unwrap();
        let (counted, _) = contend(&probes, &ground, 3);
        let after = probes.scheduling(None).unwrap();
        let waits = after.waits.since(&before.waits, "waits").unwrap();
        assert!(waits.sum_ns >= counted.waited_ns, "{} {}", waits.sum_ns, counted.waited_ns);
        assert!(waits.count >= counted.runs);
        assert!(after.switches - before.switches >= waits.count);
        assert_eq!(waits.buckets.iter().sum::<u64>(), waits.count);
    }

    /// The numbers and the counters of the disk that a file is on.
    fn disk_of(file: &File) -> Disk {
        let device = file.metadata().unwrap().dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let text = fs::read("/proc/diskstats").unwrap();
        let mut found = Vec::new();
        disks(&text, |_| true, &mut found).unwrap();
        let disk = found.into_iter().find(|disk| disk.device == (major, minor));
        disk.expect("the target folder is on a disk of its own")
    }

    #[test]
    fn requests_to_a_disk_took_as_long_as_the_kernel_says() {
        if Ground::prepared().is_none() {
            return;
        }
        let (_alone, probes) = probes();
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut file = File::create(folder.path().join("written")).unwrap();
        let disk = disk_of(&file).device;
        let counted = || probes.block(|device| device == disk).unwrap();
        // Others use the disk as well, so the kernel's counters are read on both sides of ours:
        // what was counted lies between the two differences, but for requests that were just
        // ending, and those that ended while the same CPU was counting another one.
        let first = (disk_of(&file), counted(), disk_of(&file));
        for _ in 0..200 {
            file.write_all(&[7; 16 << 10]).unwrap();
            file.sync_data().unwrap();
        }
        let last = (disk_of(&file), counted(), disk_of(&file));
        let seen = last.1.since(&first.1, "requests").unwrap();
        let (least, most) =
            (last.0.operations - first.2.operations, last.2.operations - first.0.operations);
        let times_ms = (last.0.time_ms - first.2.time_ms, last.2.time_ms - first.0.time_ms);
        let told = format!(
            "counted {} in {} us; the kernel says {least} to {most} in {times_ms:?} ms",
            seen.count,
            seen.sum_ns / 1000
        );
        println!("{told}");
        assert!(most >= 200, "every write was waited for: {told}");
        let ending = 4 + least / 20;
        assert!(seen.count + ending >= least && seen.count <= most + ending, "{told}");
        // The kernel takes the time a little later than we do, when it has done its own part.
        let counted_ms = seen.sum_ns / 1_000_000;
        assert!(counted_ms <= times_ms.1 + 1, "{told}");
        assert!(counted_ms + 1 >= times_ms.0 / 2, "{told}");
    }

    #[test]
    fn dropped_packets_are_counted_by_their_reason() {
        if Ground::prepared().is_none() {
            return;
        }
        let (_alone, probes) = probes();
        let count = |name: &str| {
            let mut reasons = Vec::new();
            probes.drops(None, &mut reasons).unwrap();
            let named = reasons.iter().find(|it| probes.reason_name(it.number) == name);
            named.map_or(0, |reason| reason.packets)
        };
        let before = count("no_socket");
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..50 {
            // Who is told that nobody listens hears of it at the next call.
            sender.send_to(b"nobody hears this", closed).ok();
        }
        wait_for("50 drops", || (count("no_socket") >= before + 25).then_some(()));
    }

    #[test]
    fn a_sampler_tells_of_this_machine_what_every_machine_has() {
        let Some(ground) = Ground::prepared() else { return };
        let roots = Roots::of_this_machine();
        let (_alone, probes) = probes();
        let mut sampler = Sampler::new(Scope::default(), roots, Ok(probes));
        let start = std::time::Instant::now();
        let now = || Moment::from_us(u64::try_from(start.elapsed().as_micros()).unwrap());
        sampler.look(now());
        let burners = ground.burners(1);
        burners.iter().for_each(Burner::go);
        wait_for("time", || (start.elapsed().as_millis() > 300).then_some(()));
        sampler.look(now());
        let metadata = Metadata::of(&Said::default(), &std::collections::BTreeMap::new());
        let snapshot = sampler.snapshot("here", 0, &metadata);
        for metric in Metric::ALL {
            println!("{metric}: {:?}", snapshot.figure(metric));
        }
        for metric in [
            Metric::CpuUtilization,
            Metric::CpuThrottleRate,
            Metric::MemoryUtilization,
            Metric::DiskOperations,
            Metric::PacketsReceived,
            Metric::RunQueueMean,
            Metric::ContextSwitches,
        ] {
            assert!(snapshot.value(metric).is_some(), "{metric}");
        }
        assert!(snapshot.value(Metric::CpuUtilization).unwrap() > 0.3);
    }
}
