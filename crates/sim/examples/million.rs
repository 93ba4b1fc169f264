//! Prints a market of a million workloads as JSON, to be piped into `walras clear`.

use std::io::{self, BufWriter, Write};

use walras_core::rng::Rng;

/// How many workloads.
const WORKLOADS: u32 = 1_000_000;

fn main() -> io::Result<()> {
    let mut rng = Rng::from_seed(1);
    let mut out = BufWriter::new(io::stdout().lock());
    write!(out, "{{\"capacity_milli\": 500000000, \"pods\": [")?;
    for workload in 0..WORKLOADS {
        let separator = if workload == 0 { "" } else { "," };
        let (demand, min) = (rng.below(101), 50 + rng.below(200));
        let max = min + rng.below(4000);
        write!(
            out,
            "{separator}\n{{\"uid\": \"pod-{workload:07}\", \"demand\": {}.{:02}, \
             \"min_milli\": {min}, \"max_milli\": {max}}}",
            demand / 100,
            demand % 100
        )?;
    }
    writeln!(out, "\n]}}")
}
