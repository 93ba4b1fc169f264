//! A node daemon: the loop that drives the market on a real machine, and what it tells.
#![forbid(unsafe_code)]

pub mod adopt;
pub mod board;
pub mod config;
pub mod daemon;
pub mod drive;
pub mod latency;
pub mod notify;
pub mod record;
pub mod serve;
pub mod store;
