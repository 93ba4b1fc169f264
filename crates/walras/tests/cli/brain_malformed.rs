//! `walras brain serve` is sent what no client of good will sends: messages that are changed, cut
//! off, too large or lie about their length, and frames of HTTP/2 that make no sense.
//!
//! The bytes are written to the socket by hand, so that nothing between here and the server mends
//! them. Whatever comes, the server answers or refuses, keeps its memory, and says the same as
//! before to whoever asks properly.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use prost::Message as _;
use walras_core::rng::Rng;
use walras_rpc::scheduler::{BatchScoreRequest, BatchScoreResponse};

use crate::brain_serve::{Served, node};

const SEED: u64 = 17;
/// Connections of each kind, with three requests each.
const ROUNDS: u64 = 60;
const REQUESTS: u32 = 3;
/// What the server may have taken and kept, in KiB: eight messages of 4 MiB are taken in at once,
/// and what is freed is not always given back.
const KEPT_MAX_KIB: u64 = 40 << 10;

/// Frames of HTTP/2.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The largest frame of data that a server takes unless it says otherwise.
const FRAME_MAX: usize = 16 << 10;

const BATCH: &str = "/scheduler.Brain/BatchScore";

/// What is wrong with a message.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    /// Some of its bytes are others.
    Changed,
    /// It ends early, and says so.
    CutOff,
    /// It says to be longer than it is.
    SaysLonger,
    /// It says to be of 4 GiB.
    SaysHuge,
    /// It says to be compressed, or something that nobody knows.
    Flagged,
    /// It is larger than what is taken.
    TooLarge,
    /// It is anything at all.
    Anything,
}

const WRONG: [Wrong; 7] = [
    Wrong::Changed,
    Wrong::CutOff,
    Wrong::SaysLonger,
    Wrong::SaysHuge,
    Wrong::Flagged,
    Wrong::TooLarge,
    Wrong::Anything,
];

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Answer,
    Refusal,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a small frame").to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The headers of a call, each as a literal that is never indexed.
fn headers(path: &str) -> Vec<u8> {
    let all = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let mut bytes = Vec::new();
    for (name, value) in all {
        bytes.push(0x10);
        for text in [name, value] {
            bytes.push(u8::try_from(text.len()).expect("short headers"));
            bytes.extend(text.as_bytes());
        }
    }
    bytes
}

/// A call with a message, in frames.
fn call(stream: u32, path: &str, message: &[u8]) -> Vec<u8> {
    let mut bytes = frame(HEADERS, END_HEADERS, stream, &headers(path));
    let mut pieces = message.chunks(FRAME_MAX).peekable();
    if pieces.peek().is_none() {
        bytes.extend(frame(DATA, END_STREAM, stream, &[]));
    }
    while let Some(piece) = pieces.next() {
        let last = if pieces.peek().is_none() { END_STREAM } else { 0 };
        bytes.extend(frame(DATA, last, stream, piece));
    }
    bytes
}

/// The length and the mark before a message.
fn prefixed(mark: u8, length: usize, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let mut bytes = vec![mark];
    bytes.extend(length.to_be_bytes());
    bytes.extend(body);
    bytes
}

fn below(rng: &mut Rng, bound: usize) -> usize {
    let bound = u64::try_from(bound.max(1)).expect("a small bound");
    usize::try_from(rng.below(bound)).expect("below a small bound")
}

fn random(rng: &mut Rng, length: usize) -> Vec<u8> {
    (0..length).map(|_| rng.next_u64().to_le_bytes()[0]).collect()
}

/// A message that somebody of good will would send.
fn good(nodes: usize) -> Vec<u8> {
    let nodes = (0..nodes).map(|place| node(&format!("node-{place}"), 0.4, 0)).collect();
    BatchScoreRequest { pod_requirements: None, nodes }.encode_to_vec()
}

fn made_wrong(wrong: Wrong, rng: &mut Rng) -> Vec<u8> {
    let mut body = good(1 + below(rng, 20));
    let length = body.len();
    match wrong {
        Wrong::Changed => {
            for _ in 0..1 + below(rng, 8) {
                let place = below(rng, length);
                body[place] ^= 1 << below(rng, 8);
            }
            prefixed(0, length, &body)
        }
        Wrong::CutOff => {
            body.truncate(below(rng, length));
            prefixed(0, body.len(), &body)
        }
        Wrong::SaysLonger => prefixed(0, length + 1 + below(rng, 5_000_000), &body),
        Wrong::SaysHuge => prefixed(0, usize::MAX, &body),
        Wrong::Flagged => prefixed(u8::try_from(1 + below(rng, 255)).unwrap_or(1), length, &body),
        Wrong::TooLarge => prefixed(0, 5 << 20, &vec![0; 5 << 20]),
        Wrong::Anything => {
            let length = below(rng, 400);
            random(rng, length)
        }
    }
}

/// A connection on which frames are written and read by hand.
struct Raw(UnixStream);

impl Raw {
    fn open(served: &Served) -> Self {
        let stream = UnixStream::connect(served.socket()).expect("it listens");
        let patience = Some(Duration::from_secs(90));
        stream.set_read_timeout(patience).expect("a socket");
        stream.set_write_timeout(patience).expect("a socket");
        Self(stream)
    }

    /// Writes what can be written: a server that had enough closes in the middle.
    fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).ok();
    }

    /// The next frame; nothing when the server has closed.
    fn next(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).ok()?;
        let [a, b, c, kind, flags, d, e, f, g] = head;
        let length = usize::try_from(u32::from_be_bytes([0, a, b, c])).expect("three bytes");
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).ok()?;
        Some((kind, flags, u32::from_be_bytes([d, e, f, g]), payload))
    }

    /// Reads until the stream has ended. An answer to a batch has to be one that can be read, with
    /// scores in their range.
    fn came_of(&mut self, stream: u32, path: &str) -> Came {
        let mut answer = Vec::new();
        while let Some((kind, flags, of, payload)) = self.next() {
            match kind {
                GOAWAY => break,
                RESET if of == stream => return Came::Refusal,
                DATA if of == stream => answer.extend(payload),
                _ => {}
            }
            if of == stream && matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
                break;
            }
        }
        if answer.is_empty() {
            return Came::Refusal;
        }
        if path != BATCH {
            return Came::Answer;
        }
        let answer = BatchScoreResponse::decode(&answer[5..]).expect("an answer can be read");
        for score in answer.scores {
            assert!((0..=100).contains(&score.score), "{score:?}");
            assert!((0.0..=1.0).contains(&score.confidence), "{score:?}");
        }
        Came::Answer
    }
}

/// Frames that make no sense, after a beginning that does.
fn senseless(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = PREFACE.to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    match rng.below(6) {
        // Data of no stream.
        0 => bytes.extend(frame(DATA, 0, 0, b"data")),
        // Headers that cannot be unpacked.
        1 => bytes.extend(frame(HEADERS, END_HEADERS, 1, &random(rng, 80))),
        // A frame that says to be longer than any may be.
        2 => bytes.extend([0xFF, 0xFF, 0xFF, DATA, 0, 0, 0, 0, 1]),
        // Settings of a wrong length.
        3 => bytes.extend(frame(SETTINGS, 0, 0, &[1, 2, 3])),
        // Headers that never end.
        4 => {
            bytes.extend(frame(HEADERS, 0, 1, &headers("/scheduler.Brain/Score")));
            (0..200).for_each(|_| bytes.extend(frame(9, 0, 1, &[0x10, 1, b'a', 1, b'b'])));
        }
        // A kind that nobody knows, and then a call that is cut off.
        _ => {
            bytes.extend(frame(0xEE, 0xEE, 7, &random(rng, 40)));
            let call = call(1, BATCH, &prefixed(0, 50, &[1; 50]));
            bytes.extend(&call[..below(rng, call.len())]);
        }
    }
    bytes
}

fn properly(served: &Served) -> Vec<(String, i64)> {
    let nodes = vec![node("quiet", 0.1, 0), node("busy", 0.95, 0)];
    let request = BatchScoreRequest { pod_requirements: None, nodes };
    let answer = served.threads.block_on(served.client().batch(request)).expect("an answer");
    answer.scores.into_iter().map(|score| (score.node_name, score.score)).collect()
}

#[test]
fn whatever_is_sent_is_answered_or_refused_and_changes_nothing() {
    println!("seed {SEED}");
    let mut served = Served::start(&[]);
    let before = properly(&served);
    let base_kib = served.resident_kib();
    let mut rng = Rng::from_seed(SEED);
    let (mut answers, mut refusals) = (0, 0);
    for wrong in WRONG {
        // A message that is too large takes its time to be written.
        let rounds = if matches!(wrong, Wrong::TooLarge) { 3 } else { ROUNDS };
        for round in 0..rounds {
            let mut raw = Raw::open(&served);
            raw.write(PREFACE);
            raw.write(&frame(SETTINGS, 0, 0, &[]));
            for request in 0..REQUESTS {
                let stream = 1 + 2 * request;
                let path = match rng.below(8) {
                    0 => "/scheduler.Brain/NoSuchCall",
                    1 => "/scheduler.Brain/ScoreMatrix",
                    _ => BATCH,
                };
                let message = made_wrong(wrong, &mut rng);
                raw.write(&call(stream, path, &message));
                match raw.came_of(stream, path) {
                    Came::Answer => answers += 1,
                    Came::Refusal => refusals += 1,
                }
            }
            assert!(served.is_alive(), "seed {SEED}: ended by {wrong:?}, round {round}");
        }
    }
    for round in 0..ROUNDS {
        let mut raw = Raw::open(&served);
        raw.write(&senseless(&mut rng));
        raw.0.shutdown(std::net::Shutdown::Write).ok();
        while raw.next().is_some() {}
        assert!(served.is_alive(), "seed {SEED}: ended by frames, round {round}");
    }
    println!("{answers} answered, {refusals} refused");
    assert!(answers > 50 && refusals > 500, "{answers} and {refusals}");
    assert_eq!(properly(&served), before);
    let kept_kib = served.resident_kib().saturating_sub(base_kib);
    println!("{base_kib} KiB before, {kept_kib} KiB more after");
    assert!(kept_kib < KEPT_MAX_KIB, "{kept_kib} KiB more than before");
}
