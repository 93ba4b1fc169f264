//! What a guest tells of itself, out of Prometheus' text format. What is not there is not known;
//! what cannot be is not believed.

use walras_core::units::{Bytes, Ratio};
use walras_core::vm::{Memory, Metrics};

/// The largest load average that is believed: a million runnable tasks.
const LOAD_MAX: f64 = 1e6;
/// More memory than this no guest has: 2^53 is where numbers stop to be exact.
const BYTES_MAX: f64 = 9e15;

/// The metrics in a text; nothing where the load is not among them.
pub(super) fn metrics(text: &str) -> Option<Metrics> {
    let value = |name: &str| {
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        line.split(' ').next()?.parse::<f64>().ok()
    };
    let bytes =
        |name: &str| value(name).filter(|bytes| (0.0..BYTES_MAX).contains(bytes)).map(whole);
    let memory = || {
        let total = Bytes::new(bytes("host_memory_total_bytes")?);
        let available = Bytes::new(bytes("host_memory_available_bytes")?);
        let cached = Bytes::new(bytes("host_memory_cached_bytes").unwrap_or(0));
        (available <= total).then_some(Memory { total, available, cached })
    };
    Some(Metrics {
        load1: load(value("host_load1")?)?,
        load5: value("host_load5").and_then(load),
        memory: memory(),
        touched: Vec::new(),
    })
}

fn load(load: f64) -> Option<Ratio> {
    (0.0..=LOAD_MAX).contains(&load).then(|| Ratio::from_millionths(whole(load * 1e6)))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be in range"
)]
const fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_and_lies_that_cannot_be_are_not_believed() {
        let text = "# TYPE host_load1 gauge\nhost_load1 0.75\nhost_load15 9\nhost_load5 0.5\n\
                    host_memory_total_bytes 1073741824\nhost_memory_available_bytes 536870912\n";
        let read = metrics(text).unwrap();
        assert_eq!(read.load1, Ratio::from_millionths(750_000));
        assert_eq!(read.load5, Some(Ratio::from_millionths(500_000)));
        let memory = read.memory.unwrap();
        assert_eq!((memory.total.get(), memory.available.get()), (1 << 30, 1 << 29));
        for lie in ["", "host_load1 NaN", "host_load1 -1", "host_load1 1e300", "host_load1 inf"] {
            assert_eq!(metrics(lie), None, "{lie}");
        }
        let lie = text.replace("536870912", "99999999999");
        assert_eq!(metrics(&lie).unwrap().memory, None);
    }
}
