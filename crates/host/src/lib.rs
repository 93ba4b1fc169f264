//! One Linux machine: which control groups are workloads, and the daemon that sizes them.
#![forbid(unsafe_code)]

pub mod adopt;
pub mod cgroups;
pub mod config;
pub mod daemon;
pub mod latency;
