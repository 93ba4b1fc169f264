//! A real Kubernetes on this machine, as ordinary processes, for tests and for trying Walras.
//!
//! [`Testbed`] is where to start: `shared` and `fresh` for tests, `up` for people. Everything is
//! stock: etcd, the API server, the controllers, the scheduler, and on a real node the kubelet,
//! containerd and runc. Further nodes are played by KWOK and exist in the API alone. Everything
//! listens on a loopback address of the testbed's own, and ends without a trace.
#![forbid(unsafe_code)]

mod assets;
mod certs;
mod cgroup;
mod config;
mod faults;
mod image;
mod keeper;
mod kubectl;
mod node;
mod plan;
mod process;
mod progress;
mod proxy;
mod settings;
mod start;
mod state;
mod status;
mod teardown;
mod testbed;

pub use self::assets::{Pins, Program, Programs, needed, pins, prepare};
pub use self::cgroup::{CpuMax, cpu_max, groups};
pub use self::config::NODE_LABEL;
pub use self::image::{Archive, Image, pack, release};
pub use self::keeper::{Way, keep};
pub use self::kubectl::Kubectl;
pub use self::node::{MOST_REAL_NODES, Real};
pub use self::plan::{Part, parts};
pub use self::progress::{say, wait_for};
pub use self::settings::Settings;
pub use self::state::{Life, MOST_NODES, Phase, Spec, State};
pub use self::status::{Row, status};
pub use self::teardown::{end, end_stale};
pub use self::testbed::{Namespace, PATIENCE, SHARED, Testbed};
