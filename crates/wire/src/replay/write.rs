//! Writes a fact as the line that [`super::parse_line`] reads.
//!
//! Called by recorders. What is written parses to the same fact, as long as its moment is a
//! whole number of milliseconds. Constants that are as in the profile are left out.

use std::fmt::Write;

use walras_core::profile::Profile;
use walras_core::units::{FamilyKey, WorkloadUid};

use super::{Config, Event, Fact, SampleTaken, WorkloadAdded};

/// Appends the line of `fact` to `line`, with its line end.
pub fn write_line(fact: &Fact, line: &mut String) {
    // Writing to a string cannot fail.
    put(fact, line).ok();
    line.push_str("}\n");
}

fn put(fact: &Fact, line: &mut String) -> std::fmt::Result {
    let at = fact.at.as_ms_floor();
    let mut begin = |kind: &str| write!(line, "{{\"type\":\"{kind}\",\"at_ms\":{at}");
    match &fact.event {
        Event::Config(config) => {
            begin("config")?;
            put_config(config, line)
        }
        Event::WorkloadAdded(workload) => {
            begin("pod_added")?;
            put_workload(workload, line)
        }
        Event::Sample(sample) => {
            begin("sample")?;
            put_sample(sample, line)
        }
        Event::Machine(machine) => {
            begin("machine")?;
            let (idle, busy) = (machine.idle_usec.as_us(), machine.busy_usec.as_us());
            write!(line, ",\"idle_usec\":{idle},\"busy_usec\":{busy}")
        }
        Event::WorkloadRemoved(workload) => {
            begin("pod_removed")?;
            put_uid(&workload.uid, line)
        }
        Event::Tick(tick) => {
            begin("tick")?;
            write!(line, ",\"loop\":\"{}\"", tick.r#loop.name())
        }
        Event::Capacity(capacity) => {
            begin("capacity")?;
            write!(line, ",\"capacity_milli\":{}", capacity.capacity_milli.get())
        }
        Event::Applied(applied) => {
            begin("applied")?;
            put_uid(&applied.uid, line)
        }
        Event::Latency(latency) => {
            begin("latency")?;
            put_uid(&latency.uid, line)?;
            write!(line, ",\"missed\":{}", latency.missed)
        }
        Event::Found(found) => {
            begin("found")?;
            put_uid(&found.uid, line)?;
            write!(line, ",\"limit_milli\":{}", found.limit_milli.get())
        }
        Event::TableRestored(table) => {
            begin("table_restored")?;
            put_saved(&table.family, &table.saved_hex, line)
        }
        Event::UseRestored(record) => {
            begin("use_restored")?;
            put_saved(&record.family, &record.saved_hex, line)
        }
        Event::Allocatable(told) => {
            begin("allocatable")?;
            let (size, set_aside) = (told.allocatable_milli.get(), told.set_aside_milli.get());
            write!(line, ",\"allocatable_milli\":{size},\"set_aside_milli\":{set_aside}")
        }
    }
}

fn put_config(config: &Config, line: &mut String) -> std::fmt::Result {
    let Config { capacity_milli, profile } = config;
    write!(line, ",\"capacity_milli\":{}", capacity_milli.get())?;
    write!(line, ",\"profile\":\"{}\"", profile.name.name())?;
    let usual = Profile::named(profile.name);
    for constant in Profile::CONSTANTS {
        let value = profile.get(constant.key);
        if let Some(value) = value.filter(|value| usual.get(constant.key).as_ref() != Some(value)) {
            // The core writes values as JSON does: true, 15000, 0.05, "nash".
            write!(line, ",\"{}\":{value}", constant.key)?;
        }
    }
    Ok(())
}

fn put_workload(workload: &WorkloadAdded, line: &mut String) -> std::fmt::Result {
    put_uid(&workload.uid, line)?;
    if let Some(family) = &workload.family {
        write!(line, ",\"workload\":{}", quoted(family.as_str()))?;
    }
    let (min, max) = (workload.min_milli.get(), workload.max_milli.get());
    write!(line, ",\"min_milli\":{min},\"max_milli\":{max}")?;
    if let Some(weight) = workload.weight {
        write!(line, ",\"weight\":{weight}")?;
    }
    write!(line, ",\"limit_milli\":{}", workload.limit_milli.get())?;
    if let Some(request) = workload.request_milli {
        write!(line, ",\"request_milli\":{}", request.get())?;
    }
    if let Some(limit) = workload.came_with_limit_milli {
        write!(line, ",\"came_with_limit_milli\":{}", limit.get())?;
    }
    if let Some(request) = workload.came_with_request_milli {
        write!(line, ",\"came_with_request_milli\":{}", request.get())?;
    }
    if let Some(weight) = workload.came_with_weight {
        write!(line, ",\"came_with_weight\":{}", weight.get())?;
    }
    if let Some(nature) = workload.nature {
        write!(line, ",\"nature\":\"{}\"", nature.name())?;
    }
    if let Some(rule) = workload.request_rule {
        write!(line, ",\"request_rule\":\"{}\"", rule.name())?;
    }
    Ok(())
}

fn put_sample(sample: &SampleTaken, line: &mut String) -> std::fmt::Result {
    put_uid(&sample.uid, line)?;
    let (usage, throttled) = (sample.usage_usec.as_us(), sample.throttled_usec.as_us());
    write!(line, ",\"usage_usec\":{usage},\"throttled_usec\":{throttled}")?;
    let (periods, throttled) = (sample.nr_periods, sample.nr_throttled);
    write!(line, ",\"nr_periods\":{periods},\"nr_throttled\":{throttled}")?;
    match sample.stalled_usec {
        Some(stalled) => write!(line, ",\"stalled_usec\":{}", stalled.as_us()),
        None => Ok(()),
    }
}

fn put_saved(family: &FamilyKey, saved: &[u8], line: &mut String) -> std::fmt::Result {
    write!(line, ",\"workload\":{},\"saved_hex\":\"", quoted(family.as_str()))?;
    for byte in saved {
        write!(line, "{byte:02x}")?;
    }
    line.push('"');
    Ok(())
}

fn put_uid(uid: &WorkloadUid, line: &mut String) -> std::fmt::Result {
    write!(line, ",\"uid\":{}", quoted(uid.as_str()))
}

fn quoted(text: &str) -> serde_json::Value {
    serde_json::Value::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::parse_line;

    /// Reads lines, writes them again, and reads that.
    fn check(lines: &[&str]) -> String {
        let mut written = String::new();
        for line in lines {
            let fact = parse_line(line.as_bytes(), 1).unwrap();
            let start = written.len();
            write_line(&fact, &mut written);
            let again = parse_line(written[start..].trim_end().as_bytes(), 1).unwrap();
            assert_eq!(again, fact, "{line}");
        }
        written
    }

    #[test]
    fn what_is_written_reads_as_the_same_fact() {
        let text = include_str!("../../testdata/facts.jsonl");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(check(&lines), text);
    }

    #[test]
    fn constants_are_written_where_they_differ_from_the_profile() {
        let line = r#"{"type":"config","capacity_milli":1,"profile":"seed","learning":false,
                       "raise_band":0.05,"shrink_band":0.07,"fairness":"nash","window_s":31}"#;
        assert_eq!(
            check(&[line]),
            "{\"type\":\"config\",\"at_ms\":0,\"capacity_milli\":1,\"profile\":\"seed\",\
             \"fairness\":\"nash\",\"learning\":false,\"window_s\":31,\"shrink_band\":0.07}\n"
        );
    }
}
