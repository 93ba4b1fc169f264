//! Permits and agents of virtual machines over the network.
//!
//! [`permits`] is the server that keeps the ledger of one or several nodes and answers agents; a
//! scheduler mounts it, and so does a plain host. [`agent`] sizes machines: for each it drives
//! `core::vm` with a real clock, asks for permits, changes the machine through a small port, and
//! talks to the program in the guest. [`hosted`] is both on one plain host. [`http`] is what both
//! are served and called by, and [`seal`] how they prove who they are. What is decided is decided
//! in `core::permit` and `core::vm`.

pub mod agent;
pub mod hosted;
pub mod http;
pub mod permits;
pub mod seal;
