//! Random input for proofs and measurements, all of it from a seed.
//!
//! Property tests and benchmarks call it. It aims at edges on purpose: a plain uniform draw would
//! almost never meet them. The same seed gives the same input on every machine.

pub mod draw;
pub mod facts;
pub mod load;
pub mod market;
pub mod node;
pub mod profile;
