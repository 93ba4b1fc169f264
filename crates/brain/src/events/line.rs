//! One line of a file of events.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Event, LineError, Outcome, when};
use crate::features::{Criticality, NodeFacts, NodeFeature, PodFacts, Workload, zone_diversity};

/// Other names that a feature has in telemetry.
const ALIASES: &[(&str, NodeFeature)] = &[("cost_per_hour", NodeFeature::NodeCostIndex)];
/// What only hardware counters measure. Collectors that have none used to write zeros.
const COUNTERS: [NodeFeature; 3] = [
    NodeFeature::MemoryBandwidthGbps,
    NodeFeature::L3CacheMissRate,
    NodeFeature::L3CacheOccupancyMb,
];

type Object = Map<String, Value>;

/// Reads one line.
///
/// # Errors
///
/// It is no event; the error says why.
pub fn read_line(line: &[u8]) -> Result<Event, LineError> {
    let value: Value =
        serde_json::from_slice(line).map_err(|error| LineError::Json(error.to_string()))?;
    let Value::Object(line) = value else {
        return Err(LineError::Json("it is something else".to_owned()));
    };
    let outcome = text(&line, "outcome")?.unwrap_or_default();
    let outcome = Outcome::named(outcome).ok_or_else(|| {
        wrong("outcome", &Value::from(outcome), "a known outcome, such as running or evicted")
    })?;
    Ok(Event {
        time_ms: time(&line)?,
        id: text(&line, "event_id")?.unwrap_or_default().to_owned(),
        pod: pod(&line)?,
        nodes: nodes(&line)?,
        chosen: text(&line, "chosen_node")?
            .ok_or(LineError::Missing { field: "chosen_node" })?
            .to_owned(),
        outcome,
    })
}

fn time(line: &Object) -> Result<i64, LineError> {
    let value = present(line, "timestamp").ok_or(LineError::Missing { field: "timestamp" })?;
    let read = match value {
        Value::String(text) => when::of_text(text),
        Value::Number(number) => number.as_f64().and_then(when::of_number),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    read.ok_or_else(|| wrong("timestamp", value, "a time such as 2026-11-17T08:30:00Z"))
}

/// The pod, from the fields of the line, or from its `pod_context`.
fn pod(line: &Object) -> Result<PodFacts, LineError> {
    let empty = Object::new();
    let context = match present(line, "pod_context") {
        None => &empty,
        Some(Value::Object(context)) => context,
        Some(other) => return Err(wrong("pod_context", other, "an object")),
    };
    let labels = match present(line, "pod_labels") {
        Some(Value::Object(labels)) => labels,
        Some(_) | None => &empty,
    };
    let amount = |names: [&str; 2]| -> Result<u64, LineError> {
        for (object, name) in [line, context].into_iter().flat_map(|o| names.map(|n| (o, n))) {
            if let Some(value) = present(object, name) {
                let whole = value.as_u64().or_else(|| value.as_f64().and_then(whole));
                return whole.ok_or_else(|| wrong(name, value, "an amount"));
            }
        }
        Ok(0)
    };
    let named = |name: &str, annotation: &str| -> Option<&Value> {
        [(line, name), (context, name), (labels, annotation)]
            .into_iter()
            .find_map(|(object, name)| present(object, name))
    };
    let workload = named("workload_type", "kubeattention.io/workload-type");
    let criticality = named("criticality", "kubeattention.io/criticality");
    Ok(PodFacts {
        cpu_milli: amount(["cpu_request_milli", "cpu_milli"])?,
        memory_bytes: amount(["memory_request_bytes", "memory_bytes"])?,
        workload: workload.and_then(Value::as_str).map(Workload::named).unwrap_or_default(),
        criticality: criticality.map(criticality_of).unwrap_or_default(),
    })
}

/// By its name, or by its number in KubeAttention's messages.
fn criticality_of(value: &Value) -> Criticality {
    let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
    match (value.as_str(), number) {
        (Some(name), _) => Criticality::named(name),
        (None, Some(number)) => Criticality::ALL.get(number).copied().unwrap_or_default(),
        (None, None) => Criticality::Unknown,
    }
}

fn nodes(line: &Object) -> Result<BTreeMap<String, NodeFacts>, LineError> {
    const FIELD: &str = "node_telemetry";
    let nodes = match present(line, FIELD) {
        None => return Err(LineError::Missing { field: FIELD }),
        Some(Value::Object(nodes)) => nodes,
        Some(other) => return Err(wrong(FIELD, other, "an object of nodes")),
    };
    let mut read = BTreeMap::new();
    let mut zones = BTreeMap::new();
    for (name, telemetry) in nodes {
        let Value::Object(telemetry) = telemetry else {
            return Err(wrong(&format!("{FIELD}.{name}"), telemetry, "an object"));
        };
        zones.insert(name, present(telemetry, "availability_zone").and_then(Value::as_str));
        read.insert(name.clone(), node(name, telemetry)?);
    }
    // Computed here where the collector did not.
    let diversity = zone_diversity(&zones.into_values().collect::<Vec<_>>());
    for (facts, diversity) in read.values_mut().zip(diversity) {
        const FEATURE: NodeFeature = NodeFeature::ZoneDiversityScore;
        if let (None, Some(diversity)) = (facts.get(FEATURE), diversity) {
            *facts = facts.with(FEATURE, diversity);
        }
    }
    Ok(read)
}

fn node(name: &str, telemetry: &Object) -> Result<NodeFacts, LineError> {
    let mut facts = NodeFacts::UNKNOWN;
    for (key, value) in telemetry {
        let alias = ALIASES.iter().find(|(alias, _)| alias == key).map(|(_, feature)| *feature);
        let Some(feature) = NodeFeature::named(key).or(alias) else { continue };
        let number = match value {
            Value::Null => continue,
            Value::Bool(is) => Some(f64::from(u8::from(*is))),
            Value::Number(number) => number.as_f64(),
            Value::String(_) | Value::Array(_) | Value::Object(_) => None,
        };
        let number = number.filter(|number| number.is_finite());
        let field = || format!("node_telemetry.{name}.{key}");
        facts = facts.with(feature, number.ok_or_else(|| wrong(&field(), value, "a number"))?);
    }
    // No machine that runs has no accesses to memory at all.
    if COUNTERS.iter().all(|feature| facts.get(*feature).is_none_or(|value| value == 0.0)) {
        facts = COUNTERS.iter().fold(facts, |facts, feature| facts.without(*feature));
    }
    Ok(facts)
}

/// A field, unless it is null.
fn present<'a>(object: &'a Object, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

fn text<'a>(line: &'a Object, field: &'static str) -> Result<Option<&'a str>, LineError> {
    match present(line, field) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong(field, other, "text")),
    }
}

/// A number without a fraction that was written with a point.
fn whole(value: f64) -> Option<u64> {
    let fits = (0.0..1e18).contains(&value);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at least 0 and below 10^18"
    )]
    fits.then_some(value as u64)
}

fn wrong(field: &str, value: &Value, expected: &'static str) -> LineError {
    let mut value = value.to_string();
    if let Some((end, _)) = value.char_indices().nth(60) {
        value.truncate(end);
        value.push_str("...");
    }
    LineError::Value { field: field.to_owned(), value, expected }
}

#[cfg(test)]
mod tests {
    use super::*;
    use NodeFeature as N;

    const COLLECTED: &str = r#"{"timestamp":"2026-11-17T08:30:00Z","event_id":"e1",
        "pod_uid":"u","pod_name":"web-1","pod_namespace":"shop","pod_labels":{"app":"web",
        "kubeattention.io/workload-type":"io-bound"},"cpu_request_milli":500,
        "memory_request_bytes":1073741824,"candidate_nodes":["a","b"],"node_telemetry":{
        "a":{"cpu_utilization":0.25,"memory_utilization":0.5,"l3_cache_miss_rate":0.0,
             "is_spot_instance":true,"availability_zone":"z1","cost_per_hour":0.75},
        "b":{"cpu_utilization":0,"disk_iops":null,"l3_cache_miss_rate":0.125,
             "memory_bandwidth_gbps":0,"availability_zone":"z1"}},
        "chosen_node":"a","scheduler_name":"default-scheduler","outcome":"oom_killed",
        "outcome_timestamp":"2026-11-17T08:35:00Z","p99_latency_ms":12.5,"another":[1]}"#;

    fn refused(from: &str, to: &str) -> String {
        let text = COLLECTED.replacen(from, to, 1);
        assert_ne!(text, COLLECTED, "{from}");
        read_line(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_collected_line_is_read() {
        let event = read_line(COLLECTED.as_bytes()).unwrap();
        assert_eq!((event.time_ms, event.id.as_str()), (1_794_904_200_000, "e1"));
        assert_eq!((event.chosen.as_str(), event.outcome), ("a", Outcome::OomKilled));
        let pod = PodFacts {
            cpu_milli: 500,
            memory_bytes: 1 << 30,
            workload: Workload::IoBound,
            criticality: Criticality::Unknown,
        };
        assert_eq!(event.pod, pod);
        let a = event.nodes["a"];
        assert_eq!(a.get(N::CpuUtilization), Some(0.25));
        assert_eq!(a.get(N::IsSpotInstance), Some(1.0));
        assert_eq!(a.get(N::NodeCostIndex), Some(0.75));
        assert_eq!(a.get(N::ZoneDiversityScore), Some(0.5), "computed over both nodes");
        assert_eq!(a.get(N::L3CacheMissRate), None, "zeros alone were not measured");
        let b = event.nodes["b"];
        assert_eq!(b.get(N::CpuUtilization), Some(0.0));
        assert_eq!(b.get(N::DiskIops), None);
        assert_eq!(b.get(N::MemoryBandwidthGbps), Some(0.0), "there are counters");
    }

    #[test]
    fn a_pod_context_is_read_too() {
        let text = r#"{"timestamp":1794904200,"node_telemetry":{},"chosen_node":"a",
            "pod_context":{"cpu_milli":250.0,"memory_bytes":1024,"workload_type":"cpu_bound",
            "criticality":3}}"#;
        let event = read_line(text.as_bytes()).unwrap();
        let pod = PodFacts {
            cpu_milli: 250,
            memory_bytes: 1024,
            workload: Workload::CpuBound,
            criticality: Criticality::High,
        };
        assert_eq!((event.pod, event.outcome), (pod, Outcome::Pending));
    }

    #[test]
    fn a_bad_line_is_told_by_field_and_value() {
        let bad = refused("\"oom_killed\"", "\"exploded\"");
        assert!(bad.starts_with("outcome: \"exploded\" is not a known outcome"), "{bad}");
        let bad = refused("0.25", "\"much\"");
        assert_eq!(bad, "node_telemetry.a.cpu_utilization: \"much\" is not a number");
        let bad = refused("\"2026-11-17T08:30:00Z\"", "\"today\"");
        assert!(bad.starts_with("timestamp: \"today\" is not a time"), "{bad}");
        let bad = refused("500", "-1");
        assert_eq!(bad, "cpu_request_milli: -1 is not an amount");
        assert_eq!(refused("\"chosen_node\"", "\"chosen\""), "chosen_node is missing");
        assert!(read_line(b"[]").unwrap_err().to_string().starts_with("it is not a JSON object"));
    }
}
