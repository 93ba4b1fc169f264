//! A plain transcription of the allocator document's algorithm, kept for comparison only.
//!
//! Benchmarks use it as the speed baseline. It is not what Walras does, and its flaws are kept:
//! - ratios are floats, so two machines may disagree by a millicore;
//! - surpluses are rounded down one by one, so a congested market leaves CPU unused;
//! - scaled mins are raised to 10m afterwards, so an overloaded market can exceed capacity;
//! - weights count for nothing, and whoever asks for more gets more;
//! - every pass makes a new hash map with copied keys, in an order that differs from run to run.

#![expect(clippy::disallowed_types, reason = "the document's algorithm is built on hash maps")]

use std::collections::HashMap;

/// What the document calls the parameters of a workload; CPU in millicores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkloadParams {
    /// How urgently the workload wants more, from 0 to 1.
    pub demand: f64,
    /// What it uses, where that is known.
    pub usage_milli: Option<i64>,
    /// How often it still showed demand after an allocation, lately.
    pub headroom_misses: u32,
    /// The least it is to have.
    pub min_milli: i64,
    /// The most it may have.
    pub max_milli: i64,
}

/// The least an overloaded workload is given, in millicores.
const FLOOR_MILLI: i64 = 10;

/// What each workload gets of `capacity_milli`, by uid.
#[must_use]
pub fn allocate(
    capacity_milli: i64,
    workloads: &HashMap<String, WorkloadParams>,
) -> HashMap<String, i64> {
    let mut needs = HashMap::new();
    for (uid, workload) in workloads {
        needs.insert(uid.clone(), compute_need(workload));
    }
    let total_min: i64 = workloads.values().map(|workload| workload.min_milli).sum();
    if total_min > capacity_milli {
        return scale_mins(capacity_milli, total_min, workloads);
    }
    let total_need: i64 = needs.values().sum();
    let mut allocations = HashMap::new();
    if total_need <= capacity_milli {
        for (uid, workload) in workloads {
            let need = needs[uid];
            allocations.insert(uid.clone(), need.clamp(workload.min_milli, workload.max_milli));
        }
        return allocations;
    }
    let total_surplus: i64 =
        workloads.iter().map(|(uid, workload)| needs[uid] - workload.min_milli).sum();
    let ratio = to_float(capacity_milli - total_min) / to_float(total_surplus);
    for (uid, workload) in workloads {
        let surplus = needs[uid] - workload.min_milli;
        let amount = workload.min_milli + to_whole(to_float(surplus) * ratio);
        allocations.insert(uid.clone(), amount.clamp(workload.min_milli, workload.max_milli));
    }
    allocations
}

fn scale_mins(
    capacity_milli: i64,
    total_min_milli: i64,
    workloads: &HashMap<String, WorkloadParams>,
) -> HashMap<String, i64> {
    let scale = to_float(capacity_milli) / to_float(total_min_milli);
    let mut allocations = HashMap::new();
    for (uid, workload) in workloads {
        let scaled = to_whole(to_float(workload.min_milli) * scale);
        allocations.insert(uid.clone(), scaled.max(FLOOR_MILLI));
    }
    allocations
}

/// Demand picks a point between min and max, and headroom goes on top.
fn compute_need(workload: &WorkloadParams) -> i64 {
    let range = to_float(workload.max_milli - workload.min_milli);
    let raw = to_float(workload.min_milli) + range * workload.demand;
    let headroom =
        (0.10 + 0.15 * workload.demand + 0.05 * f64::from(workload.headroom_misses)).min(0.5);
    let mut need = raw * (1.0 + headroom);
    if let Some(usage) = workload.usage_milli {
        need = need.max(to_float(usage) * (1.0 + headroom));
        if workload.demand == 0.0 && to_float(usage) > to_float(workload.min_milli) * 0.9 {
            need = need.max(to_float(usage) * 1.3);
        }
    }
    to_whole(need).clamp(workload.min_milli, workload.max_milli)
}

#[expect(clippy::cast_precision_loss, reason = "as documented; exact for any real machine")]
fn to_float(milli: i64) -> f64 {
    milli as f64
}

#[expect(clippy::cast_possible_truncation, reason = "as documented; saturates")]
fn to_whole(milli: f64) -> i64 {
    milli.floor() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Workloads as `min/max/demand`; their allocations in the order given.
    fn check(capacity_milli: i64, workloads: &str) -> Vec<i64> {
        let workload = |text: &str| {
            let numbers: Vec<f64> = text.split('/').map(|part| part.parse().unwrap()).collect();
            WorkloadParams {
                demand: numbers[2],
                usage_milli: None,
                headroom_misses: 0,
                min_milli: to_whole(numbers[0]),
                max_milli: to_whole(numbers[1]),
            }
        };
        let texts: Vec<&str> = workloads.split(' ').collect();
        let named =
            texts.iter().enumerate().map(|(place, text)| (place.to_string(), workload(text)));
        let allocations = allocate(capacity_milli, &named.collect());
        (0..texts.len()).map(|place| allocations[&place.to_string()]).collect()
    }

    #[test]
    fn each_mode_is_as_documented() {
        assert_eq!(check(4000, "100/1000/0 100/1000/0.5"), [110, 646]);
        assert_eq!(check(500, "100/1000/0 100/1000/0.5"), [105, 394], "one millicore is lost");
        assert_eq!(check(100, "1000/1000/0 50/50/0"), [95, 10], "more than there is");
    }
}
