//! The core's questions answered in other ways: one exact, one as the predecessor did it.
//!
//! Property tests compare the core with [`exact`]; benchmarks compare it with [`map_based`].

pub mod exact;
pub mod map_based;
