//! Who slows down whom: a cluster whose pods fight for more than CPU, placed by several rules.
//!
//! A [`town::Town`] says which pods come to which nodes; [`interference`] says how much slower a
//! pod is beside the others of its node, by a model fitted to what was measured on a real machine;
//! [`rules`] choose nodes, and [`mod@run`] counts what becomes of the pods. [`contest`] lets all
//! rules place the same pods, and [`teach`] writes what became of them as events to learn from.
//!
//! Always: no node has more requests than it can allocate, and the same seed gives the same pods
//! under every rule and the same result on any number of threads.

pub mod cluster;
pub mod contest;
pub mod interference;
pub mod kind;
pub mod pod;
pub mod rules;
pub mod run;
pub mod tally;
pub mod teach;
mod telemetry;
pub mod town;
