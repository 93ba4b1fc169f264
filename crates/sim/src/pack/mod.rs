//! How many nodes are needed: what users pay for.
//!
//! A [`workload::Town`] says what pods want over weeks; [`rules`] decide what they request; the
//! scheduler packs them onto nodes by that ([`schedule`], [`cluster`]), and [`run`] counts nodes
//! and what pods missed, second by second where it matters. [`contest`] tries every rule with every
//! setting on the same town, so that nodes can be compared at equal misses.
//!
//! Always: no node has more requests than it can allocate, and the same seed gives the same result
//! on any number of threads.

pub mod cluster;
mod consolidate;
mod contend;
pub mod contest;
pub mod frontier;
mod noise;
mod pattern;
mod recorded;
pub mod rules;
pub mod run;
pub mod schedule;
pub mod tally;
pub mod town;
pub mod workload;
