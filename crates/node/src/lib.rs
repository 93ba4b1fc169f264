//! The shell of a node daemon: the loop that drives a market, and what it keeps, records and tells.
//!
//! A daemon brings an [`drive::Outside`], which finds workloads and carries out what was decided;
//! everything around it is here and knows neither configuration files nor clusters.
#![forbid(unsafe_code)]

pub mod beside;
pub mod board;
pub mod drive;
mod environment;
pub mod latency;
pub mod log;
pub mod notify;
pub mod record;
pub mod serve;
pub mod signal;
pub mod store;

pub use self::environment::environment;
