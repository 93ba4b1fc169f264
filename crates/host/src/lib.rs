//! A node daemon: the loop that drives the market on a real machine, and what it tells.
#![forbid(unsafe_code)]

pub mod board;
pub mod serve;
