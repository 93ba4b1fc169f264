//! The one call to the kernel that no safe library makes for us: `perf_event_open`.
//!
//! It is the only `unsafe` code of this crate, and has nothing in it but that call.
#![expect(unsafe_code, reason = "no crate of ours wraps perf_event_open")]

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// What is to be counted: the beginning of the kernel's `struct perf_event_attr`, in the size that
/// every kernel since 4.1 knows (`PERF_ATTR_SIZE_VER5`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const SIZE: u32 = 112;
const _: () = assert!(size_of::<Attributes>() == SIZE as usize);

/// Tells beside the number for how long it was counted, and for how long it could have been.
const TIMES: u64 = 1 | 2;
/// The descriptor is closed when another program is started.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// An event that is to be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// Who counts: a number of the kernel's, or of a device's `type`.
    pub(super) kind: u32,
    /// What.
    pub(super) config: u64,
}

/// Counts `event` on `cpu`, whoever runs there.
pub(super) fn open(event: Event, cpu: u32) -> io::Result<File> {
    let attributes = Attributes {
        kind: event.kind,
        size: SIZE,
        config: event.config,
        read_format: TIMES,
        ..Attributes::default()
    };
    let cpu = libc::c_int::try_from(cpu).map_err(|_| io::ErrorKind::InvalidInput)?;
    let (everybody, no_group): (libc::pid_t, libc::c_int) = (-1, -1);
    // SAFETY: the kernel reads `size` bytes at the pointer, which is that of a live value of
    // exactly that size, and keeps no pointer. All other arguments are plain numbers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(&attributes),
            everybody,
            cpu,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    let fd = RawFd::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above has just made this descriptor, and nobody else knows it.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok(File::from(owned))
}
