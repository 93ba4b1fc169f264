//! A service whose load can be turned up and down, and which measures its own latency.
//!
//! `GET /work?ms=N` burns N milliseconds of CPU and then answers. `GET /burst?ms=N&threads=T` burns
//! as much on each of T threads in the background and answers at once. `GET /metrics` has a
//! histogram of how long `/work` took and the CPU asked for, as Prometheus text; `GET /healthz`
//! says ok. Runs in pods of the testbed; listens on the address that its only argument gives.
//! CPU is counted by how often a fixed piece of arithmetic was done, calibrated at the start, so a
//! process that is held back takes longer for the same work rather than doing less of it.

use std::env;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use walras_loadgen::{Answer, Metrics, Request, answer};

/// Nobody needs a longer request line, and a client that never ends one is cut off.
const LONGEST_LINE: usize = 4096;
/// A client that says nothing for this long is cut off.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let address = env::args().nth(1).unwrap_or_else(|| "0.0.0.0:8080".to_owned());
    let listener = match TcpListener::bind(&address) {
        Ok(listener) => listener,
        Err(error) => return fail(&format!("cannot listen on {address}: {error}")),
    };
    let rounds_per_ms = calibrate();
    let metrics = Arc::new(Metrics::default());
    for stream in listener.incoming().flatten() {
        let metrics = Arc::clone(&metrics);
        thread::spawn(move || serve(&stream, &metrics, rounds_per_ms));
    }
    ExitCode::SUCCESS
}

#[expect(clippy::print_stderr, reason = "a program that cannot start says why")]
fn fail(message: &str) -> ExitCode {
    eprintln!("error: {message}");
    ExitCode::FAILURE
}

/// Serves one connection until the client closes it.
fn serve(stream: &TcpStream, metrics: &Metrics, rounds_per_ms: u64) {
    let patient = stream.set_read_timeout(Some(PATIENCE));
    let mut reader = BufReader::new(stream);
    while patient.is_ok() {
        let Some(line) = request_line(&mut reader) else { return };
        let begun = Instant::now();
        let reply = match answer(&line) {
            Ok(Request::Health) => Answer::ok("ok\n"),
            Ok(Request::Metrics) => Answer::ok(&metrics.text()),
            Ok(Request::Work(time)) => {
                burn(time, rounds_per_ms);
                metrics.worked(begun.elapsed(), time);
                Answer::ok("done\n")
            }
            Ok(Request::Burst { time, threads }) => {
                for _ in 0..threads {
                    thread::spawn(move || burn(time, rounds_per_ms));
                }
                Answer::ok("started\n")
            }
            Err(refusal) => refusal,
        };
        let mut stream = stream;
        if stream.write_all(reply.text().as_bytes()).is_err() {
            return;
        }
    }
}

/// The first line of a request, after reading all of its head; nothing at the end of the stream.
fn request_line(reader: &mut impl BufRead) -> Option<String> {
    let mut first = None;
    loop {
        let mut line = Vec::new();
        let mut limited = std::io::Read::take(&mut *reader, LONGEST_LINE as u64);
        let read = limited.read_until(b'\n', &mut line).ok()?;
        if read == 0 || line.last() != Some(&b'\n') {
            return None;
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if line.is_empty() {
            return first;
        }
        first.get_or_insert(line);
    }
}

/// How often the arithmetic of [`round`] is done in a millisecond, when nothing holds it back: the
/// best of several tries.
fn calibrate() -> u64 {
    const ROUNDS: u64 = 2_000;
    let took = (0..20).map(|_| {
        let begun = Instant::now();
        (0..ROUNDS).for_each(round);
        begun.elapsed()
    });
    let best = took.min().unwrap_or_default().as_nanos().max(1);
    u64::try_from(u128::from(ROUNDS) * 1_000_000 / best).unwrap_or(u64::MAX).max(1)
}

fn burn(time: Duration, rounds_per_ms: u64) {
    let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    (0..milliseconds.saturating_mul(rounds_per_ms)).for_each(round);
}

fn round(seed: u64) {
    let mixed = (0..64_u64).fold(seed, |sum, step| sum.wrapping_mul(31).rotate_left(7) ^ step);
    black_box(mixed);
}
