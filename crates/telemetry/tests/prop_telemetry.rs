//! What holds for any text that a kernel or an exporter may give us: nothing panics, and a figure
//! is a finite number within its range or says why there is none.
//!
//! Texts are good ones with random damage. Each test prints its seed; `WALRAS_SEED` and
//! `WALRAS_CASES` choose others.

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use walras_core::rng::Rng;
    use walras_core::units::Moment;
    use walras_telemetry::adapt::{node_exporter, node_usages, samples, snapshot, tetragon};
    use walras_telemetry::counters::{Counters, Listed, figures};
    use walras_telemetry::cpu_set::CpuSet;
    use walras_telemetry::metric::Metric;
    use walras_telemetry::parse;
    use walras_telemetry::reading::{Reading, Unavailable};
    use walras_telemetry::snapshot::Source;

    const STAT: &str = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 100 20 3 4000 50 6 7 8 90 0\n\
                        cpu1 5 6 7 8 9 10 11 12 13 14\nintr 5 0 0 1\nctxt 77\n";
    const DISKS: &str = "254 0 vda 7367370 191764 285484058 41837502 1411205 9 3 2139332 0 1 2\n\
                         7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n";
    const NET: &str = "h\nh\n lo: 35 6 0 0 0 0 0 0 35 6 0 0 0 0 0 0\n\
                       eth0: 10 50396 0 7 0 0 0 0 33 34185 0 2 0 0 0 0\n";
    const METRICS: &str = "# HELP a b\nnode_cpu_seconds_total{cpu=\"0\",mode=\"idle\"} 1.5e3\n\
        node_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 20\nnode_memory_MemTotal_bytes 1000\n\
        node_memory_MemAvailable_bytes 250\ntetragon_io_operations_total 5\n\
        tetragon_io_latency_seconds_sum{d=\"e\\\"f\"} 0.25 1700000000\n";
    const USAGE: &str =
        r#"{"items":[{"metadata":{"name":"n"},"usage":{"cpu":"5n","memory":"1Ki"}}]}"#;

    #[expect(clippy::disallowed_methods, reason = "the user's word")]
    fn said(name: &str, otherwise: u64) -> u64 {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
    }

    /// Calls `check` with a generator for each case.
    fn cases(name: &str, usual: u64, check: impl Fn(&mut Rng)) {
        let (first, count) = (said("WALRAS_SEED", 1), said("WALRAS_CASES", usual));
        println!("{name}: seed {first}, {count} cases");
        for seed in first..first + count {
            let checked = std::panic::AssertUnwindSafe(|| check(&mut Rng::from_seed(seed)));
            if let Err(broken) = std::panic::catch_unwind(checked) {
                println!("{name}: broken by WALRAS_SEED={seed} WALRAS_CASES=1");
                std::panic::resume_unwind(broken);
            }
        }
    }

    fn place(rng: &mut Rng, length: usize) -> usize {
        usize::try_from(rng.below(u64::try_from(length).unwrap())).unwrap()
    }

    /// `text` with up to four bytes changed, cut off or doubled.
    fn damaged(rng: &mut Rng, text: &str) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        for _ in 0..rng.below(5) {
            if bytes.is_empty() {
                break;
            }
            let at = place(rng, bytes.len());
            match rng.below(4) {
                0 => bytes[at] = b"0 \n\"{}=\\-9:,\xff"[place(rng, 13)],
                1 => bytes.truncate(at),
                2 => {
                    let again = bytes[at..].to_vec();
                    bytes.extend(again);
                }
                _ => {
                    bytes.splice(at..at, rng.next_u64().to_string().bytes());
                }
            }
        }
        bytes
    }

    fn counters(rng: &mut Rng, at: Moment) -> Counters {
        let mut counters = Counters::missing(at, Unavailable::FirstLook);
        let (mut cpus, mut disks, mut interfaces) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(stat) = parse::stat(&damaged(rng, STAT), &mut cpus) {
            counters.cpus = Listed::of(cpus);
            counters.switches = Ok(stat.switches);
        }
        if parse::disks(&damaged(rng, DISKS), |_| true, &mut disks).is_some() {
            counters.disks = Listed::of(disks);
        }
        if parse::interfaces(&damaged(rng, NET), |_| true, &mut interfaces).is_some() {
            counters.interfaces = Listed::of(interfaces);
        }
        counters.stalled_us = [Ok(rng.next_u64()), Ok(rng.below(9)), Ok(0)];
        counters
    }

    fn check(readings: &[Reading]) {
        for (metric, reading) in Metric::ALL.iter().zip(readings) {
            if let Some(value) = reading.value() {
                assert!(value.is_finite() && value >= 0.0, "{metric}: {value}");
                assert!(metric.unit() != "ratio" || value <= 1.0, "{metric}: {value}");
            }
        }
    }

    #[test]
    fn figures_of_damaged_files_are_within_their_range() {
        cases("figures", 30_000, |rng| {
            let (then, now) = (rng.below(1_000_000), rng.below(100_000_000));
            let older = counters(rng, Moment::from_us(then));
            let newer = counters(rng, Moment::from_us(now));
            check(&figures(Some(&older), &newer));
            check(&figures(None, &newer));
        });
    }

    #[test]
    fn figures_of_damaged_metrics_are_within_their_range() {
        cases("metrics", 20_000, |rng| {
            let texts = [0, 1].map(|_| {
                let bytes = damaged(rng, METRICS);
                String::from_utf8_lossy(&bytes).into_owned()
            });
            for read in [node_exporter, tetragon] {
                let [older, newer] = [(0, 0), (1, 5)].map(|(text, s): (usize, u64)| {
                    read(&samples(&texts[text]).0, Moment::from_ms(s * 1000))
                });
                let snapshot = snapshot("a", 0, Source::Tetragon, Some(&older), &newer);
                check(&snapshot.figures.map(|figure| figure.reading));
            }
        });
    }

    #[test]
    fn nothing_that_is_read_panics_and_sets_of_cpus_survive_being_written() {
        cases("texts", 30_000, |rng| {
            let usage = damaged(rng, USAGE);
            drop(node_usages(&usage));
            black_box(parse::memory(&damaged(rng, "MemTotal: 5 kB\nMemAvailable: 1 kB\n")));
            let damaged_io = damaged(rng, "254:0 rios=5 wios=6\n");
            black_box(parse::io_stat_operations(&damaged_io, |_| true));
            let damaged_io = damaged(rng, "254:0 Read 3\nTotal 3\n");
            black_box(parse::blkio_operations(&damaged_io, |_| true));
            let text = String::from_utf8_lossy(&damaged(rng, "0-3,8,64-70\n")).into_owned();
            if let Ok(set) = CpuSet::parse(&text) {
                assert_eq!(CpuSet::parse(&set.to_string()), Ok(set));
            }
        });
    }
}
