//! The workloads: what each does, and what one piece of its work costs.
//!
//! Each runs in a process of its own, on one CPU, for as long as it is told or until it is ended.
//! A cost is a time: that of one piece of work, or of the slowest hundredth of requests.

use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// What they are called, in the order of the table.
pub(crate) const NAMES: [&str; 6] = ["cpu", "cache", "memory", "disk", "network", "latency"];

/// Larger than the caches of a core, and smaller than the last cache.
const CACHE_BYTES: usize = 8 << 20;
/// Larger than the last cache.
const MEMORY_BYTES: usize = 128 << 20;
const BLOCK_BYTES: usize = 16 << 10;
const BLOCKS: u64 = 512;
const MESSAGE_BYTES: usize = 64 << 10;
/// Requests arrive this often, and each takes about a tenth of it.
const ARRIVAL_NS: i64 = 1_000_000;
const REQUEST_ROUNDS: u64 = 60_000;

/// Something to do again and again; one piece of it takes well under a millisecond.
type Piece = Box<dyn FnMut()>;

/// Makes ready, calls `ready`, and works for `time`. The cost in microseconds.
pub(crate) fn work(name: &str, folder: &Path, time: Duration, ready: impl FnOnce()) -> f64 {
    if name == "latency" {
        ready();
        return requests(time);
    }
    let mut piece = piece(name, folder);
    piece();
    ready();
    let start = Instant::now();
    let mut done = 0_u32;
    while start.elapsed() < time {
        piece();
        done += 1;
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(done)
}

fn piece(name: &str, folder: &Path) -> Piece {
    match name {
        "cpu" => Box::new(|| {
            black_box(burn(black_box(100_000)));
        }),
        "cache" => chase(),
        "memory" => stream(),
        "disk" => write_blocks(folder),
        "network" => send(),
        _ => panic!("there is no workload called {name}"),
    }
}

/// Arithmetic that touches no memory.
fn burn(rounds: u64) -> u64 {
    (0..rounds).fold(1, |sum, round| sum.wrapping_mul(6_364_136_223_846_793_005) ^ round)
}

/// Follows a chain through memory in an order that nothing can guess.
fn chase() -> Piece {
    let length = CACHE_BYTES / size_of::<usize>();
    let mut order: Vec<usize> = (0..length).collect();
    let mut seed = 1_u64;
    // One cycle through all places, by Sattolo.
    for last in (1..length).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(last, (seed >> 33) as usize % last);
    }
    let mut at = 0;
    Box::new(move || {
        for _ in 0..5_000 {
            at = order[at];
        }
        black_box(at);
    })
}

/// Reads and writes a large piece of memory from its beginning to its end.
fn stream() -> Piece {
    let mut memory = vec![1_u64; MEMORY_BYTES / size_of::<u64>()];
    let part = (1 << 20) / size_of::<u64>();
    let mut next = 0;
    Box::new(move || {
        let parts = memory.len() / part;
        let here = &mut memory[next * part..(next + 1) * part];
        here.iter_mut().for_each(|word| *word = word.wrapping_add(1));
        black_box(here);
        next = (next + 1) % parts;
    })
}

/// Writes a block and waits until it is on the disk.
fn write_blocks(folder: &Path) -> Piece {
    let path = folder.join(format!("written-{}", std::process::id()));
    let file = File::create(&path).expect("the target folder can be written");
    // It stays as long as it is open.
    std::fs::remove_file(&path).expect("it was made just now");
    let mut number = 0;
    Box::new(move || {
        let offset = number % BLOCKS * BLOCK_BYTES as u64;
        file.write_all_at(&[7; BLOCK_BYTES], offset).expect("there is room");
        file.sync_data().expect("a disk takes it");
        number += 1;
    })
}

/// Sends a message over loopback to a thread that reads it.
fn send() -> Piece {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a loopback");
    let address = listener.local_addr().expect("it listens");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody comes");
        let mut message = vec![0; MESSAGE_BYTES];
        while stream.read_exact(&mut message).is_ok() && stream.write_all(&[1]).is_ok() {}
    });
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("any stream can");
    let message = vec![7; MESSAGE_BYTES];
    Box::new(move || {
        stream.write_all(&message).expect("somebody reads");
        stream.read_exact(&mut [0]).expect("somebody answers");
    })
}

/// Requests arrive by the clock, whether or not the last one is done: the 99th percentile of the
/// time from arrival to end.
fn requests(time: Duration) -> f64 {
    let now = || {
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    };
    let start = now();
    let mut took = Vec::new();
    let mut arrives = start;
    while arrives - start < i64::try_from(time.as_nanos()).expect("it is short") {
        arrives += ARRIVAL_NS;
        let (tv_sec, tv_nsec) = (arrives / 1_000_000_000, arrives % 1_000_000_000);
        clock_nanosleep_absolute(ClockId::Monotonic, &Timespec { tv_sec, tv_nsec }).ok();
        black_box(burn(black_box(REQUEST_ROUNDS)));
        took.push(now() - arrives);
    }
    took.sort_unstable();
    let place = (took.len() * 99 / 100).min(took.len() - 1);
    took[place] as f64 / 1000.0
}
