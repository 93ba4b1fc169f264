//! What crosses a process boundary: messages as they are written, checked, and turned into the
//! quantities that `walras-core` decides with.
//!
//! Reading has two stages. The first knows JSON: it finds out what was written, and stops at the
//! first byte that is not JSON. The second knows the fields: it finds out what the document means,
//! and collects everything that is wrong with it. Reading is bounded in size and never panics,
//! whatever the bytes are.
#![forbid(unsafe_code)]

pub mod cluster;
pub mod field;
pub mod json;
mod kind;
pub mod market;
mod name;
pub mod placement;
pub mod replay;
mod scalar;
mod schema;
pub mod settings;
pub mod state;
pub mod suggest;
pub mod telemetry;
pub mod vm;
