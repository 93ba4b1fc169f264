//! The simulator, and what proof and measurement need beside it.
//!
//! A [`scenario`] says what a node's pods are going to want ([`load`]); the [`machine`] says who
//! runs; a [`policy`] decides over limits, requests and weights; [`mod@run`] lets time pass,
//! [`fleet`] does so for many nodes, [`contest`] for many policies, [`crew`] on several threads,
//! and [`measure`] counts against each service's [`target`]. The [`oracle`] is the yardstick;
//! [`tune`] chooses constants; [`recording`] and [`report`] show what happened. The market itself
//! is the real one, `walras_core::node`.
//!
//! For proofs: [`random`] makes markets and sequences of facts from a seed, [`mod@reference`]
//! answers the same questions as the core in slower and plainer ways, [`fact`] is what happens to a
//! node as plain data, [`watch`] holds a node to its promises, [`closed`] counts what becomes of a
//! simulated one period by period, [`vms`] is a node of virtual machines over a network that fails,
//! and [`shrink`] makes a failing sequence short.
//!
//! Always: the same seed gives the same result on every machine and on any number of threads.
#![forbid(unsafe_code)]

pub mod closed;
mod containers;
pub mod contest;
pub mod crew;
pub mod fact;
pub mod fleet;
pub mod load;
pub mod machine;
pub mod measure;
pub mod oracle;
pub mod pack;
pub mod place;
pub mod policy;
pub mod random;
pub mod recording;
pub mod reference;
pub mod report;
pub mod run;
pub mod scenario;
pub mod shrink;
pub mod target;
pub mod tune;
pub mod vms;
pub mod watch;
