//! Metrics of the guest in Prometheus' text format. Names begin with `host_`, as agents expect.
//! What is not known is left out.

use walras_core::units::Resources;

use crate::guest::Figures;

/// What this program tells of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// What the guest has, as it was told.
    pub granted: Option<Resources>,
    /// Requests that were refused.
    pub refused: u64,
    /// How often more was asked for.
    pub asked: u64,
}

/// The text.
#[must_use]
pub fn text(figures: &Figures, own: &Own) -> String {
    let mut text = String::new();
    let mut gauge = |name: &str, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            let words = format!("# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}\n");
            text.push_str(&words);
        }
    };
    for (place, minutes) in [1, 5, 15].into_iter().enumerate() {
        let load = figures.loads.map(|loads| loads[place]);
        gauge(&format!("host_load{minutes}"), &format!("Load average, {minutes} min."), load);
    }
    gauge("host_tasks_runnable", "Tasks that run or want to.", figures.runnable.map(f64::from));
    gauge("host_cpus_online", "CPUs online.", figures.cpus.map(f64::from));
    let memory = figures.memory;
    let bytes = |pick: fn(&crate::guest::Memory) -> u64| memory.as_ref().map(pick).map(number);
    gauge("host_memory_total_bytes", "Memory.", bytes(|memory| memory.total));
    gauge("host_memory_available_bytes", "Memory to be had.", bytes(|memory| memory.available));
    gauge("host_memory_free_bytes", "Memory without use.", bytes(|memory| memory.free));
    gauge("host_memory_cached_bytes", "The page cache.", bytes(|memory| memory.cached));
    gauge("host_memory_buffers_bytes", "Buffers.", bytes(|memory| memory.buffers));
    gauge("host_memory_swap_total_bytes", "Swap.", bytes(|memory| memory.swap_total));
    gauge("host_memory_swap_free_bytes", "Swap to be had.", bytes(|memory| memory.swap_free));
    let granted = own.granted;
    let cpu = granted.map(|granted| number(granted.cpu.get()) / 1000.0);
    gauge("host_granted_cpus", "CPUs that the agent granted.", cpu);
    let granted_memory = granted.map(|granted| number(granted.memory.get()));
    gauge("host_granted_memory_bytes", "Memory that the agent granted.", granted_memory);
    let counters = [
        ("host_informant_refused_total", "Requests that were refused.", own.refused),
        ("host_informant_asked_total", "Times that more was asked for.", own.asked),
    ];
    for (name, help, value) in counters {
        let words = format!("# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}\n");
        text.push_str(&words);
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "a metric is a floating point number")]
const fn number(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::Memory;

    #[test]
    fn metrics_are_named_and_what_is_not_known_is_left_out() {
        let memory = Memory { total: 1 << 30, available: 1 << 29, ..Memory::default() };
        let figures =
            Figures { loads: Some([0.5, 0.25, 0.0]), memory: Some(memory), ..Figures::default() };
        let text = text(&figures, &Own { refused: 3, ..Own::default() });
        for line in [
            "host_load1 0.5",
            "host_load5 0.25",
            "host_memory_total_bytes 1073741824",
            "host_memory_available_bytes 536870912",
            "host_memory_cached_bytes 0",
            "host_memory_swap_free_bytes 0",
            "host_informant_refused_total 3",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
        assert!(!text.contains("host_cpus_online"), "{text}");
        let names = text.lines().filter(|line| !line.starts_with('#'));
        assert!(names.clone().count() > 5 && { names }.all(|line| line.starts_with("host_")));
    }
}
