//! Bytes from outside to numbers: the kernel's cgroup files and Kubernetes quantities.
//!
//! The reader of a node calls one function per file, and the API client calls [`quantity()`].
//! Every function takes bytes, accepts any of them without panicking, does work linear in their
//! number, and allocates only to describe an error.
//!
//! Files end with or without a newline. Keys that are not asked for are skipped. Where a key
//! appears twice the first one wins and the second is not even looked at. A key that is there but
//! holds something else than a number is an error, also where the key may be absent.

mod cpu_max;
mod cpu_stat;
mod cpu_weight;
mod error;
mod field;
mod memory;
mod pressure;
mod quantity;

pub use cpu_max::{CpuMax, cpu_max, cpu_max_burst, cpu_max_v1};
pub use cpu_stat::{Bandwidth, Bursts, CpuStat, cpu_stat_v1, cpu_stat_v2};
pub use cpu_weight::{CpuShares, CpuWeight, cpu_shares, cpu_weight};
pub use error::{ParseError, QuantityFault};
pub use memory::{
    MemoryEvents, MemoryStat, memory_current, memory_events, memory_high, memory_limit_v1,
    memory_max, memory_stat, memory_usage_v1,
};
pub use pressure::{Pressure, PsiLine, cpu_pressure, memory_pressure};
pub use quantity::{Quantity, format_millicores, quantity};
