//! Virtual machines on QEMU: started, seen, sized, moved and stopped.
//!
//! [`Machine`] is what somebody who sizes and moves a machine asks of it; [`Qemu`] is the one that
//! runs machines as QEMU processes and carries that out over QMP. What a machine is gets read from
//! QEMU every time, and is never assumed. Which device to add or remove next is decided in
//! [`sizing`], without touching anything.
//!
//! A QEMU process belongs to its folder and to no daemon: it lives on when the daemon ends, and the
//! next one finds it by what is in the folder.
#![forbid(unsafe_code)]

mod accel;
mod args;
mod error;
mod folder;
mod group;
mod iso;
mod port;
mod process;
mod qemu;
mod qmp;
mod scaling;
pub mod sizing;
mod spec;

pub use error::VmError;
pub use folder::Ending;
pub use port::{
    Destination, Handover, Machine, Migration, MigrationPhase, MigrationTerms, Observed, RunState,
};
pub use qemu::{Life, Look, Qemu, QemuMachine, QemuOptions, Snapshot, WayIn, seed_image};
pub use scaling::Scaling;
pub use spec::{
    Accel, Boot, CpuRange, Disk, DiskFormat, Firmware, Forward, MachineSpec, MemoryBy, MemoryRange,
    Network, Nic, Protocol, Secrets, Seed, SpecError,
};
