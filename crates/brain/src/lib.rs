//! The Brain: small models that score nodes for a pod from what the nodes measure of themselves.
//!
//! `features` turns telemetry and a pod into the 26 numbers that a model sees, for training and
//! serving alike. `model` scores a batch of nodes with a perceptron (`mlp`) or boosted trees
//! (`forest`). Bytes go in and come out; this crate opens no file, asks no clock and draws no
//! randomness but from a seed. Without a model, and for a node whose telemetry is no number, the
//! answer is a neutral 50 with confidence 0.
//!
//! `unsafe` is denied everywhere but in `simd`, whose header says what it is needed for.
#![deny(unsafe_code)]

pub mod collect;
pub mod confidence;
pub mod data;
pub mod drift;
mod embedded;
pub mod events;
pub mod features;
pub mod file;
pub mod forest;
pub mod judge;
pub mod label;
pub mod mlp;
pub mod model;
mod number;
pub mod random;
pub mod reason;
mod sha256;
mod simd;
pub mod slot;
pub mod train;
pub mod verdict;

pub use embedded::{embedded, embedded_bytes};
pub use sha256::sha256;
pub use simd::Kernel;
