//! The kernel's control groups: found, read, written and given back.
//!
//! The way through this crate is [`Layout`] (where the kernel keeps them), [`walk`] (which there
//! are), [`Group`] (one of them, open for reading), and a way to write it: [`Adopted`] is a group
//! whose original settings were kept first, so that they can be given back, and [`Supervised`] one
//! that the kubelet or another supervisor sets as well, which knows what it should have.
//! [`Created`] is a group of our own. Both versions of control groups look the same from outside;
//! nothing here decides how much CPU a group gets.
//!
//! A group that is only open cannot be written, and one cannot be adopted before what it had was
//! kept. A group that was removed is [`CgroupError::Gone`], also if another one has taken its name
//! since.
#![forbid(unsafe_code)]

mod adopt;
mod ceiling;
mod create;
mod error;
mod file;
mod group;
mod layout;
mod open_files;
mod path;
mod retry;
mod settings;
mod supervised;
mod tree;
mod walk;

pub use adopt::{Adopted, Applied, Original, Originals, OwnersChange};
pub use ceiling::{Ceiling, ceiling};
pub use create::{Created, Inside, remove_left_behind, remove_orphans};
pub use error::CgroupError;
pub use group::{Group, Identity};
pub use layout::{BootId, Layout, LayoutError, Version};
pub use open_files::allow_open_files;
pub use path::CgroupPath;
pub use settings::{Settings, Target, WeightInForce, Written};
pub use supervised::{Limited, Supervised};
pub use walk::{Found, Owner, Refusal, Walk, WalkLimits, walk, walk_trusted};
