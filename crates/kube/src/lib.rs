//! Walras on Kubernetes: the node agent, the controller, and what they say to the API server.
//!
//! Everything that knows Kubernetes is in here, so that nothing else waits for its types to be
//! compiled. What is decided is decided in `walras-core`; this crate reads the API server's objects
//! into its types, asks it, and writes down what it said.
#![forbid(unsafe_code)]

pub mod agent;
mod autoscaler;
pub mod client;
pub mod controller;
pub mod crd;
pub mod names;
mod pause;
pub mod plugin;
pub mod pod;
pub mod scheduler;
pub mod settings;
mod time;
