//! Seeded simulator and trace replay over the core.
//!
//! It holds what proof and measurement need: [`random`] makes markets and sequences of facts from a
//! seed, [`reference`] answers the same questions as the core in slower and plainer ways, [`fact`]
//! turns what happens to a node into plain data that can be recorded and fed again, [`watch`] holds
//! a node to its promises, and [`shrink`] makes a failing sequence short.
//!
//! Always: the same seed gives the same input on every machine. No clock, no threads, no I/O.
#![forbid(unsafe_code)]

pub mod fact;
pub mod random;
pub mod reference;
pub mod shrink;
pub mod watch;
