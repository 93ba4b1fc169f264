//! From messages to facts. What makes no sense is refused with its field and its value; what was
//! not measured is not invented.

use std::collections::BTreeMap;

use walras_brain::features::{
    Criticality, NODE_FEATURES, NodeFacts, NodeFeature as N, PodFacts, Workload, zone_diversity,
};
use walras_rpc::scheduler::{self, NodeTelemetry, PodRequirements, ScoreMatrixRequest};
use walras_rpc::{Code, Refused};

/// Bytes of a number in a matrix.
const NUMBER: usize = size_of::<f32>();

/// Nodes that are to be scored, with the time each was measured.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    pub(super) facts: Vec<NodeFacts>,
    /// In milliseconds since 1970; nothing where it is not said.
    pub(super) taken_ms: Vec<Option<u64>>,
}

/// The pod of a request.
pub(super) fn pod(pod: Option<&PodRequirements>) -> Result<PodFacts, Refused> {
    let Some(pod) = pod else { return Ok(PodFacts::default()) };
    let label = |name: &str| pod.labels.get(name).map(String::as_str);
    let workload = if pod.workload_type.is_empty() {
        label("kubeattention.io/workload-type").unwrap_or_default()
    } else {
        &pod.workload_type
    };
    let criticality = match pod.criticality() {
        scheduler::Criticality::Unknown => {
            label("kubeattention.io/criticality").map(Criticality::named).unwrap_or_default()
        }
        scheduler::Criticality::Low => Criticality::Low,
        scheduler::Criticality::Medium => Criticality::Medium,
        scheduler::Criticality::High => Criticality::High,
    };
    Ok(PodFacts {
        cpu_milli: amount("pod_requirements.cpu_milli", pod.cpu_milli)?,
        memory_bytes: amount("pod_requirements.memory_bytes", pod.memory_bytes)?,
        workload: Workload::named(workload),
        criticality,
    })
}

/// The nodes of a request. How full zones are is computed over all of them.
pub(super) fn nodes(told: &[NodeTelemetry]) -> Nodes {
    let zones: Vec<Option<&str>> = told
        .iter()
        .map(|node| node.availability_zone.as_deref().filter(|zone| !zone.is_empty()))
        .collect();
    let diversity = zone_diversity(&zones);
    let facts = told.iter().zip(diversity).map(|(node, diversity)| {
        let facts = facts(node);
        diversity.map_or(facts, |diversity| facts.with(N::ZoneDiversityScore, diversity))
    });
    let taken_ms = told.iter().map(|node| time(node.timestamp_unix_ms.unwrap_or_default()));
    Nodes { facts: facts.collect(), taken_ms: taken_ms.collect() }
}

/// The node of a request in the old form: names of features with their values.
pub(super) fn legacy(told: &BTreeMap<String, f64>) -> Result<NodeFacts, Refused> {
    let mut facts = NodeFacts::UNKNOWN;
    for (name, value) in told {
        let feature = match name.as_str() {
            "cost_per_hour" => Some(N::NodeCostIndex),
            name => N::named(name),
        };
        let feature =
            feature.ok_or_else(|| invalid(format!("telemetry: there is no feature {name}")))?;
        facts = facts.with(feature, *value);
    }
    Ok(facts)
}

/// The rows of a matrix.
pub(super) fn matrix(request: &ScoreMatrixRequest) -> Result<Nodes, Refused> {
    if usize::try_from(request.columns) != Ok(NODE_FEATURES) {
        let columns = request.columns;
        return Err(invalid(format!("columns: {columns} is not {NODE_FEATURES}")));
    }
    let row = NODE_FEATURES * NUMBER;
    let bytes = request.matrix.len();
    if !bytes.is_multiple_of(row) {
        return Err(invalid(format!("matrix: {bytes} bytes are no whole rows of {row} bytes")));
    }
    let rows = bytes / row;
    let times = request.timestamps_unix_ms.len();
    if times != 0 && times != rows {
        return Err(invalid(format!("timestamps_unix_ms: {times} times for {rows} rows")));
    }
    let facts = request.matrix.chunks_exact(row).map(|row| {
        let numbers = row
            .chunks_exact(NUMBER)
            .map(|bytes| bytes.try_into().map_or(f32::NAN, f32::from_le_bytes));
        let measured = N::ALL.into_iter().zip(numbers).filter(|(_, number)| !number.is_nan());
        measured.fold(NodeFacts::UNKNOWN, |facts, (feature, number)| {
            facts.with(feature, f64::from(number))
        })
    });
    let taken_ms = if times == 0 {
        vec![None; rows]
    } else {
        request.timestamps_unix_ms.iter().copied().map(time).collect()
    };
    Ok(Nodes { facts: facts.collect(), taken_ms })
}

fn facts(node: &NodeTelemetry) -> NodeFacts {
    let spot = node.is_spot_instance.map(|spot| if spot { 1.0 } else { 0.0 });
    [
        (N::CpuUtilization, node.cpu_utilization),
        (N::CpuThrottleRate, node.cpu_throttle_rate),
        (N::MemoryUtilization, node.memory_utilization),
        (N::MemoryBandwidthGbps, node.memory_bandwidth_gbps),
        (N::L3CacheMissRate, node.l3_cache_miss_rate),
        (N::L3CacheOccupancyMb, node.l3_cache_occupancy_mb),
        (N::DiskIoWaitMs, node.disk_io_wait_ms),
        (N::DiskIops, node.disk_iops),
        (N::NetworkRxPacketsSec, node.network_rx_packets_sec),
        (N::NetworkTxPacketsSec, node.network_tx_packets_sec),
        (N::NetworkDropRate, node.network_drop_rate),
        (N::NodeCostIndex, node.cost_per_hour),
        (N::IsSpotInstance, spot),
        (N::SpotInterruptionRisk, node.spot_interruption_risk),
    ]
    .into_iter()
    .filter_map(|(feature, value)| Some((feature, value?)))
    .fold(NodeFacts::UNKNOWN, |facts, (feature, value)| facts.with(feature, value))
}

/// A time; what is not said is zero in clients that do not know the difference.
fn time(ms: i64) -> Option<u64> {
    u64::try_from(ms).ok().filter(|ms| *ms > 0)
}

fn amount(field: &str, value: i64) -> Result<u64, Refused> {
    u64::try_from(value).map_err(|_| invalid(format!("{field}: {value} is less than nothing")))
}

fn invalid(message: String) -> Refused {
    Refused { code: Code::Invalid, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_and_zero_differ_and_zones_are_counted() {
        let node = |cpu: Option<f64>, zone: Option<&str>| NodeTelemetry {
            cpu_utilization: cpu,
            availability_zone: zone.map(str::to_owned),
            timestamp_unix_ms: Some(5),
            ..NodeTelemetry::default()
        };
        let told = [
            node(Some(0.0), Some("a")),
            node(None, Some("a")),
            node(None, Some("b")),
            node(None, Some("")),
        ];
        let nodes = nodes(&told);
        assert_eq!(nodes.facts[0].get(N::CpuUtilization), Some(0.0));
        assert_eq!(nodes.facts[1].get(N::CpuUtilization), None);
        let zones = nodes.facts.iter().map(|facts| facts.get(N::ZoneDiversityScore));
        assert_eq!(zones.collect::<Vec<_>>()[2..], [Some(1.0 - 1.0 / 3.0), None]);
        assert_eq!(nodes.taken_ms, vec![Some(5); 4]);
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_value() {
        let pod = |cpu_milli| {
            super::pod(Some(&PodRequirements { cpu_milli, ..PodRequirements::default() }))
        };
        assert!(pod(5).is_ok());
        let told = pod(-5).unwrap_err();
        assert_eq!(told.message, "pod_requirements.cpu_milli: -5 is less than nothing");
        let told = legacy(&BTreeMap::from([("gpu".to_owned(), 1.0)])).unwrap_err();
        assert_eq!(told.message, "telemetry: there is no feature gpu");
    }

    #[test]
    fn a_matrix_has_whole_rows_and_nan_is_what_was_not_measured() {
        let mut row = [f32::NAN; NODE_FEATURES];
        row[0] = 0.25;
        let bytes: Vec<u8> = row.iter().flat_map(|number| number.to_le_bytes()).collect();
        let request = |columns, matrix: &[u8], times: &[i64]| ScoreMatrixRequest {
            columns,
            matrix: matrix.to_vec(),
            timestamps_unix_ms: times.to_vec(),
            ..ScoreMatrixRequest::default()
        };
        let nodes = matrix(&request(15, &bytes, &[0])).unwrap();
        assert_eq!((nodes.facts[0].measured(), nodes.taken_ms[0]), (1, None));
        assert_eq!(nodes.facts[0].get(N::CpuUtilization), Some(0.25));
        let refused = |request| matrix(&request).unwrap_err().message;
        assert_eq!(refused(request(14, &bytes, &[])), "columns: 14 is not 15");
        let words = "matrix: 59 bytes are no whole rows of 60 bytes";
        assert_eq!(refused(request(15, &bytes[1..], &[])), words);
        assert_eq!(refused(request(15, &bytes, &[1, 2])), "timestamps_unix_ms: 2 times for 1 rows");
    }
}
