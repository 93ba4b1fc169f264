//! Peers that send nonsense, hold connections, or try what is not theirs. Others are served all the
//! while, the ledger does not change, and memory stays bounded.

use std::fs;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time;

use crate::world::{PATIENCE, World, question, run, seal, units, vm};

struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(most).expect("small")).expect("small")
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).expect("a byte")
    }
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn ten_thousand_malformed_questions_change_nothing_and_others_are_answered() {
    let seed = 0x5eed_0002;
    run(async {
        let world = World::start(None).await;
        let mut dice = Dice(seed);
        let before = resident_kib();
        let mut client = world.client();
        let mut accepted = 0;
        for round in 0..10_000 {
            let mut body = question(4, "a", 2, Some(1)).into_bytes();
            for _ in 0..=dice.below(6) {
                let place = dice.below(body.len());
                match dice.below(3) {
                    0 => body[place] = dice.byte(),
                    1 => body.truncate(place.max(1)),
                    _ => body.insert(place, dice.byte()),
                }
            }
            let question = walras_scale::http::Question {
                method: "POST",
                path: "/".to_owned(),
                headers: Vec::new(),
                body,
            };
            let answer = client.ask(&question, PATIENCE).await;
            let answer = answer.unwrap_or_else(|error| panic!("seed {seed:#x}, {round}: {error}"));
            // What is still a question, such as one for another number of units, may be answered.
            accepted += u32::from(answer.status == 200);
            assert!([200, 400, 404, 500].contains(&answer.status), "{}", answer.status);
        }
        assert!(accepted < 2000, "{accepted} of 10000 were taken for questions");
        assert_eq!(world.permits.held(&vm("b")), Some(units(1)));
        let answer = world.ask(&question(4, "b", 2, Some(1))).await;
        assert_eq!(answer.status, 200, "{}", answer.words());
        let standing = world.permits.standing("node").expect("a node");
        assert!(standing.held.fits(units(16)));
        let grown = resident_kib().saturating_sub(before);
        assert!(grown < 8 << 10, "it grew by {grown} KiB");
    });
}

#[test]
fn who_holds_connections_or_never_ends_a_question_keeps_nobody_from_asking() {
    run(async {
        let world = World::start(Some(seal())).await;
        let mut held = Vec::new();
        for place in 0..500 {
            let mut stream =
                TcpStream::connect(world.server.address()).await.expect("a connection");
            let begun: &[u8] = match place % 3 {
                0 => b"POST / HT",
                1 => b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n{",
                _ => b"\x16\x03\x01\x00\xff not HTTP at all\r\n\r\n",
            };
            stream.write_all(begun).await.expect("it is written");
            held.push(stream);
        }
        let answer = world.ask(&question(4, "a", 2, None)).await;
        assert_eq!(answer.status, 401);
        // What is no HTTP is told so, and its connection ends.
        let mut told = Vec::new();
        let read = held[2].read_to_end(&mut told);
        time::timeout(Duration::from_secs(60), read).await.expect("it ends").expect("it is read");
        assert!(told.starts_with(b"HTTP/1.1 400"), "{told:?}");
        // And one that never ends its question, after a while.
        let mut told = Vec::new();
        let read = held[1].read_to_end(&mut told);
        time::timeout(Duration::from_secs(120), read).await.expect("it ends").expect("it is read");
        assert!(told.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&told));
    });
}
