//! A made-up state, for the tests beside it.

use walras_wire::state::{NodeState, WorkloadState};

/// A node with these workloads: a name and a usage each.
pub(super) fn state(workloads: &[(&str, u64)]) -> NodeState {
    let usage_milli = workloads.iter().map(|(_, usage)| usage).sum();
    NodeState {
        version: "1.2.3".to_owned(),
        host: "node-7".to_owned(),
        profile: "direct".to_owned(),
        acting: true,
        at_ms: 100_000,
        uptime_s: 300,
        capacity_milli: 4000,
        limit_budget_milli: 8000,
        usage_milli,
        need_milli: 5000,
        request_milli: 1000,
        limit_milli: 2000,
        idle_milli: Some(300),
        unmanaged_milli: Some(100),
        guard_milli: 400,
        lent_milli: 0,
        mode: "congested".to_owned(),
        price: 0.25,
        multiplier: 0.0,
        fast_ticks: 10,
        slow_ticks: 20,
        changes: 3,
        failures: 0,
        problems: Vec::new(),
        notes: Vec::new(),
        telemetry: false,
        workloads: workloads.iter().map(|(name, usage)| workload(name, *usage)).collect(),
    }
}

fn workload(name: &str, usage_milli: u64) -> WorkloadState {
    WorkloadState {
        uid: format!("u-{name}"),
        name: name.to_owned(),
        kind: "docker".to_owned(),
        min_milli: 100,
        max_milli: 2000,
        weight: 1.5,
        usage_milli: Some(usage_milli),
        need_milli: Some(400),
        grant_milli: Some(350),
        grant_reason: None,
        reduction_ratio: Some(0.17),
        request_milli: 350,
        request_reason: None,
        limit_milli: 1000,
        lent_milli: 0,
        suggested: None,
        contained_for: None,
        burst_milli: 0,
        kernel_weight: None,
        original_limit_milli: None,
        throttled_period_ratio: Some(0.125),
        throttle_ratio: None,
        target_latency_ms: None,
        latency_missed: false,
        hot: false,
        last_change: None,
    }
}
