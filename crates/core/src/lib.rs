//! Every decision Walras makes, as plain data in and plain data out.
//!
//! This crate cannot do I/O, read a clock or draw randomness of its own: it is `no_std`, forbids
//! `unsafe`, and the test suite builds it for a target without an operating system.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod boost;
pub mod claim;
pub mod demand;
pub mod informant;
pub mod learn;
pub mod lease;
pub mod market;
pub mod need;
pub mod node;
pub mod parse;
pub mod permit;
pub mod place;
pub mod profile;
pub mod rebalance;
pub mod request;
pub mod resize;
pub mod rng;
pub mod run;
pub mod smooth;
pub mod tenant;
pub mod units;
pub mod vm;
