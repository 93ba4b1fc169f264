//! A process that burns CPU: this very program, started again.
//!
//! It waits for a word on its standard input, and ends when that is closed, so none outlives the
//! benchmark, however that ends.

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use walras_cgroup::Created;

use crate::Outcome;

/// The first argument of a burner.
const NAME: &str = "burn-cpu";

/// How a burner burns: for so long, then so long not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burner {
    pub(crate) busy: Duration,
    pub(crate) idle: Duration,
}

/// A burner in a control group, ended together with this value.
#[derive(Debug)]
pub(crate) struct Burning(Child);

/// The burner that a command line asks for, if it does.
pub(crate) fn asked_for(arguments: &[String]) -> Option<Burner> {
    let [name, busy, idle] = arguments else { return None };
    let ms = |text: &String| text.parse().ok().map(Duration::from_millis);
    (name == NAME).then_some(Burner { busy: ms(busy)?, idle: ms(idle)? })
}

// === impl Burner ===

impl Burner {
    /// Starts a process in `group` that waits for [`Burning::go`].
    pub(crate) fn start(self, group: &Created) -> Outcome<Burning> {
        let child = Command::new(std::env::current_exe()?)
            .arg(NAME)
            .args([self.busy, self.idle].map(|span| span.as_millis().to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut burning = Burning(child);
        // A program that starts takes CPU time too, and that is not what is measured.
        burning.0.stdout.take().ok_or("its output is read")?.read_exact(&mut [0])?;
        group.put(burning.0.id())?;
        Ok(burning)
    }

    /// Burns until nobody holds the other end of the standard input.
    pub(crate) fn run(self) {
        static OVER: AtomicBool = AtomicBool::new(false);
        let ready = std::io::stdout().write_all(b"!").and_then(|()| std::io::stdout().flush());
        if ready.and_then(|()| std::io::stdin().read_exact(&mut [0])).is_err() {
            return;
        }
        thread::spawn(|| {
            std::io::stdin().read_exact(&mut [0]).ok();
            OVER.store(true, Ordering::Relaxed);
        });
        while !OVER.load(Ordering::Relaxed) {
            let start = Instant::now();
            while start.elapsed() < self.busy && !OVER.load(Ordering::Relaxed) {
                std::hint::black_box(start);
            }
            thread::park_timeout(self.idle);
        }
    }
}

// === impl Burning ===

impl Burning {
    /// Lets it burn.
    pub(crate) fn go(&mut self) -> Outcome<()> {
        Ok(self.0.stdin.as_mut().ok_or("its input is open")?.write_all(b"!")?)
    }
}

impl Drop for Burning {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
