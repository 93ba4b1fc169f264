//! Peers without the key, with a recording of one that had it, or with nothing good in mind. All of
//! them get refused; the agent is served all the while, and the program stays small.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::agent::{Agent, send, signed};
use crate::world::{World, wait_for};

/// Figures of a number that comes from a seed, which failures print.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(most).expect("small")).expect("small")
    }
}

/// Sends bytes and returns the status of what comes back; 0 where nothing does.
fn throw(to: SocketAddr, bytes: &[u8]) -> u16 {
    let Ok(mut stream) = TcpStream::connect(to) else { return 0 };
    let patient = stream.set_read_timeout(Some(Duration::from_secs(20)));
    let sent = stream.write_all(bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
    let mut answer = Vec::new();
    if patient.is_err() || sent.is_err() {
        return 0;
    }
    // A program that closes on us has answered in its own way.
    drop(stream.take(4096).read_to_end(&mut answer));
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.unwrap_or(0)
}

#[test]
fn ten_thousand_malformed_messages_are_refused_in_bounded_memory_and_others_are_served() {
    let seed = 0x5eed_0001;
    let world = World::start();
    let mut agent = Agent::start('7');
    assert_eq!(agent.register(world.address), 200);
    wait_for("it is resumed", || agent.heard("/resume") == 1);
    let body =
        "{\"data\":{\"agentID\":\"77777777-7777-7777-7777-777777777777\"},\"sequenceNumber\":1}";
    let good = format!(
        "PUT /health-check HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\
         Walras-Nonce: {:032x}\r\nWalras-Signature: {:064x}\r\n\r\n{body}",
        body.len(),
        7,
        9
    );
    let mut dice = Dice(seed);
    let before = world.resident_kib();
    for round in 0..10_000 {
        let mut bytes = good.clone().into_bytes();
        for _ in 0..1 + dice.below(8) {
            let place = dice.below(bytes.len());
            match dice.below(3) {
                0 => bytes[place] = u8::try_from(dice.below(256)).expect("a byte"),
                1 => bytes.truncate(place.max(1)),
                _ => bytes.insert(place, u8::try_from(dice.below(256)).expect("a byte")),
            }
        }
        let status = throw(world.address, &bytes);
        assert!(status != 200, "seed {seed:#x}, message {round}");
        if round % 2500 == 0 {
            assert_eq!(agent.health(world.address), 200, "seed {seed:#x}, message {round}");
        }
    }
    assert_eq!(agent.health(world.address), 200);
    let after = world.resident_kib();
    assert!(after < before + 2048, "{before} KiB, then {after} KiB");
    // What it may use in a guest, with what it shares with other programs here.
    assert!(after < 5 << 10, "{after} KiB");
}

#[test]
fn what_is_not_signed_replayed_or_of_another_session_is_refused() {
    let world = World::start();
    let mut agent = Agent::start('8');
    let register = agent.request("POST", "/register", &agent.description(4, 4));
    // Signed by nobody, the call back would be a way to make the guest call anybody.
    let mut unsigned = register.clone();
    unsigned.fields.clear();
    assert_eq!(send(world.address, &unsigned).status, 401);
    let mut forged = register.clone();
    forged.body = agent.description(3, 4).into_bytes();
    assert_eq!(send(world.address, &forged).status, 401);
    assert_eq!(agent.heard("/id"), 0);
    assert_eq!(agent.register(world.address), 200);
    wait_for("it is resumed", || agent.heard("/resume") == 1);
    // Recorded and sent again: the number is known.
    let body = format!(
        "{{\"data\":{{\"cpu\":1,\"memory\":\"1Gi\",\"id\":{{\"agentID\":\"{}\"}}}},\
         \"sequenceNumber\":5}}",
        agent.id
    );
    let recorded = agent.request("PUT", "/upscale", &body);
    assert_eq!(send(world.address, &recorded).status, 200);
    assert_eq!(send(world.address, &recorded).status, 400);
    assert_eq!(send(world.address, &register).status, 409);
    // Recorded in an earlier session: nobody of that session is known.
    let old = agent.session;
    let unregister = agent.request("DELETE", "/unregister", &agent.description(4, 4));
    assert_eq!(send(world.address, &unregister).status, 200);
    assert_eq!(agent.register(world.address), 200);
    assert_ne!(agent.session, old);
    let later = body.replace(":5}", ":6}");
    assert_eq!(send(world.address, &signed("PUT", "/upscale", &later, old)).status, 404);
    assert_eq!(send(world.address, &signed("PUT", "/upscale", &later, None)).status, 404);
    assert_eq!(send(world.address, &unregister).status, 404);
    // An agent that is gone cannot be registered by a recording: it does not answer.
    let gone = agent.description(4, 4).replace("8888888", "9999999");
    let gone = gone.replace(&agent.address.to_string(), "127.0.0.1:1");
    assert_eq!(send(world.address, &signed("POST", "/register", &gone, None)).status, 400);
}

#[test]
fn stalled_connections_take_nothing_from_others_for_long_and_nothing_spins() {
    let world = World::start();
    let mut agent = Agent::start('9');
    assert_eq!(agent.register(world.address), 200);
    let stalled: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = TcpStream::connect(world.address).expect("a connection");
            // The first bytes of a request that never ends.
            drop(stream.write_all(b"PUT /health-check HTTP/1.1\r\nHost"));
            stream
        })
        .collect();
    // Those that are served are cut off after five seconds; all others were closed at once.
    let before = world.cpu_ticks();
    wait_for("the agent is served", || {
        let answer = walras_informant::http::call(
            world.address,
            &signed("GET", "/x", "", None),
            Duration::from_secs(20),
        );
        answer.is_ok_and(|answer| answer.status == 404)
    });
    let used = world.cpu_ticks() - before;
    drop(stalled);
    // Ten seconds of anything that spins would be a thousand ticks.
    assert!(used < 300, "{used} ticks of CPU");
    assert_eq!(agent.health(world.address), 200);
}
