//! What pods want to run: requests to serve, batch work to finish, or a recorded amount of CPU.
//!
//! A load draws its own random numbers from its own seed, so it wants the same under every policy.

pub(crate) mod draw;
mod histogram;
mod memory;
mod queue;
mod shape;
mod workload;

pub use histogram::Histogram;
pub use memory::Memory;
pub use queue::Queue;
pub use shape::Shape;
pub use workload::{Load, LoadSpec, Startup};
