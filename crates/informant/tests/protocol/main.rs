//! The program as it is shipped, over loopback: the protocol step by step, and hostile peers.

mod agent;
mod hostile;
mod steps;
mod world;
