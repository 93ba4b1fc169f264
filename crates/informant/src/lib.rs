//! The program in a guest: it tells the agent of its machine what the guest uses, says whether the
//! guest can make do with less, and asks for more when it needs it.
//!
//! Plain threads and blocking sockets, each with a deadline and a limit: the whole program is one
//! small static file without an async runtime. What is decided is decided by `core::informant`.

pub mod calls;
pub mod daemon;
pub mod group;
pub mod guest;
pub mod http;
pub mod metrics;
pub mod online;
pub mod options;
pub mod say;
pub mod serve;
pub mod session;
