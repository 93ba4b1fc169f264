//! What is going on on a node: the figures that placement is decided by, and those that people
//! look at.
//!
//! A [`sampler::Sampler`] looks at this machine, or at a part of it, and makes a
//! [`snapshot::Snapshot`] of two looks: every [`metric::Metric`] with its source, and with the
//! reason where it was not measured. Reading is apart from computing: [`counters::figures`] makes
//! figures of counters and of nothing else. What `/proc` does not tell, [`ebpf::Probes`] count in
//! the kernel where they may. [`watch::Watch`] looks again and again, for a daemon. For nodes
//! without an agent, [`adapt`] reads what others measure.
//!
//! `unsafe` is denied but in one small module, `hardware/syscall.rs`, for the one call to the
//! kernel that no safe library makes.
#![deny(unsafe_code)]

pub mod adapt;
pub mod counters;
pub mod cpu_set;
pub mod ebpf;
pub mod export;
mod hardware;
pub mod histogram;
pub mod metadata;
pub mod metric;
pub mod parse;
pub mod rate;
pub mod reading;
pub mod sampler;
pub mod snapshot;
pub mod watch;
