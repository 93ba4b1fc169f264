//! What became of the pods of a run: slowdowns minute by minute, and what it took.

use super::cluster::{Cluster, as_number};
use super::kind::Kind;
use super::town::{MINUTE, Town, WARM_UP};

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlaceFigures {
    /// The 99th percentile of slowdowns, over all minutes of all pods.
    pub p99: f64,
    /// The same of pods that somebody waits for.
    pub p99_latency: f64,
    /// The mean slowdown.
    pub mean: f64,
    /// The share of minutes in which a pod took half as long again as alone.
    pub slow: f64,
    /// The CPU that was used, as a share of what all nodes have.
    pub utilisation: f64,
    /// The nodes that had a pod, on average.
    pub nodes_used: f64,
    /// The share of pods' minutes in which they waited for room.
    pub pending: f64,
}

/// Counts.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// For each pod that is there: the sum of its slowdowns in this minute.
    all: Vec<f32>,
    latency: Vec<f32>,
    used: f64,
    nodes: f64,
    steps: f64,
    pending: f64,
}

/// From here on a pod counts as slow.
const SLOW: f32 = 1.5;

impl Tally {
    /// Looks at the cluster after a step. `waiting` pods have no room.
    pub fn step(&mut self, town: &Town, cluster: &Cluster, step: usize, waiting: usize) {
        if step < WARM_UP {
            return;
        }
        self.steps += 1.0;
        self.pending += as_number(waiting as u64);
        for (node, site) in cluster.nodes.iter().zip(&town.sites) {
            self.used += node.taken(site, step).cores.min(site.shape.cores);
            self.nodes += f64::from(u8::from(!node.guests.is_empty()));
        }
        // One look a minute is as good as six: what pods want changes within minutes.
        if !step.is_multiple_of(MINUTE) {
            return;
        }
        for guest in cluster.nodes.iter().flat_map(|node| &node.guests) {
            let slowdown = narrow(guest.slowdown);
            self.all.push(slowdown);
            if town.pods[guest.pod].kind == Kind::Latency {
                self.latency.push(slowdown);
            }
        }
    }

    /// What it comes to.
    #[must_use]
    pub fn figures(mut self, town: &Town) -> PlaceFigures {
        let minutes = as_number(self.all.len() as u64).max(1.0);
        let cores: f64 = town.sites.iter().map(|site| site.shape.cores).sum();
        let slow = self.all.iter().filter(|slowdown| **slowdown > SLOW).count();
        let steps = self.steps.max(1.0);
        let waited = self.pending / as_number(MINUTE as u64);
        PlaceFigures {
            mean: self.all.iter().map(|slowdown| f64::from(*slowdown)).sum::<f64>() / minutes,
            slow: as_number(slow as u64) / minutes,
            utilisation: self.used / steps / cores,
            nodes_used: self.nodes / steps,
            pending: waited / (waited + minutes),
            p99: p99(&mut self.all),
            p99_latency: p99(&mut self.latency),
        }
    }
}

/// The 99th percentile; 1 where there is nothing.
fn p99(values: &mut [f32]) -> f64 {
    if values.is_empty() {
        return 1.0;
    }
    let place = (values.len() * 99 / 100).min(values.len() - 1);
    f64::from(*values.select_nth_unstable_by(place, f32::total_cmp).1)
}

#[expect(clippy::cast_possible_truncation, reason = "a slowdown needs no more digits")]
fn narrow(value: f64) -> f32 {
    value as f32
}
