//! The clocks that the test and its load processes share, and waiting for a moment of them.

use std::time::Duration;

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The time since the machine was started; every process sees the same.
pub(crate) fn now() -> Duration {
    read(ClockId::Monotonic)
}

/// The CPU time that this thread has had.
pub(crate) fn cpu_time() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// Waits until the clock shows `moment`. What is compared with the model happens in real time, so
/// there is no other condition to wait for.
pub(crate) fn wait_until(moment: Duration) {
    let moment = Timespec::try_from(moment).expect("a moment of this century");
    // A signal may end the wait early.
    while clock_nanosleep_absolute(ClockId::Monotonic, &moment).is_err() {}
}

/// A length of time in milliseconds, as the model counts it.
pub(crate) fn milliseconds(span: Duration) -> f64 {
    span.as_secs_f64() * 1000.0
}

fn read(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).expect("these clocks begin at zero")
}
