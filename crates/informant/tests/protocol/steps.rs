//! The protocol over real sockets, in the order of its document.

use std::sync::atomic::Ordering;

use walras_informant::http::Message;
use walras_wire::vm::auth::Token;

use crate::agent::{Agent, is_signed, send, signed};
use crate::world::{World, wait_for};

#[test]
fn an_agent_registers_is_resumed_and_sizes_the_guest() {
    let world = World::start();
    let mut agent = Agent::start('1');
    let request = agent.request("POST", "/register", &agent.description(4, 4));
    let answer = send(world.address, &request);
    assert_eq!(answer.status, 200);
    assert!(is_signed(&request, &answer));
    let port = world.metrics.port();
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    let expected =
        format!("{{\"protoVersion\":4,\"metricsMethod\":{{\"prometheus\":{{\"port\":{port}}}}}}}");
    assert_eq!(body, expected);
    agent.session = answer.field("walras-session").and_then(Token::parse);
    assert_eq!(agent.heard("/id"), 1);
    wait_for("it is resumed", || agent.heard("/resume") == 1);
    assert_eq!(agent.health(world.address), 200);
    assert_eq!(agent.upscale(world.address, "1", "1Gi"), 200);
    let mut told = String::new();
    // Before the guest was looked at twice, nothing is agreed to.
    wait_for("there is room", || {
        let (status, body) = agent.downscale(world.address, "1", "896Mi");
        assert_eq!(status, 200);
        told = body;
        told.contains("\"Ok\":true")
    });
    let (_, told) = agent.downscale(world.address, "1", "256Mi");
    assert!(told.contains("\"Ok\":false") && told.contains("are in use"), "{told}");
    let unregister = agent.request("DELETE", "/unregister", &agent.description(4, 4));
    let answer = send(world.address, &unregister);
    assert_eq!((answer.status, answer.body.as_slice()), (200, &b"{\"wasActive\":true}"[..]));
    assert_eq!(agent.health(world.address), 404);
}

#[test]
fn refusals_have_the_documented_status_and_order() {
    let world = World::start();
    let mut agent = Agent::start('2');
    let post = |body: &str| send(world.address, &signed("POST", "/register", body, None)).status;
    assert_eq!(post(&agent.description(1, 3)), 400);
    assert_eq!(agent.heard("/id"), 0);
    agent.lies.store(true, Ordering::SeqCst);
    assert_eq!(post(&agent.description(4, 4)), 400);
    assert_eq!(agent.heard("/id"), 1);
    agent.lies.store(false, Ordering::SeqCst);
    assert_eq!(agent.register(world.address), 200);
    // Known, and of a version that is not spoken: 409 comes first.
    assert_eq!(post(&agent.description(1, 3)), 409);
    assert_eq!(post("{}"), 400);
    wait_for("it is resumed", || agent.heard("/resume") == 1);
    let elsewhere = agent.description(4, 4).replace("127.0.0.1", "127.0.0.9");
    let unregister = agent.request("DELETE", "/unregister", &elsewhere);
    assert_eq!(send(world.address, &unregister).status, 400);
    let get = agent.request("GET", "/register", "");
    assert_eq!(send(world.address, &get).status, 405);
    assert_eq!(send(world.address, &agent.request("GET", "/x", "")).status, 404);
    assert_eq!(agent.health(world.address), 200);
}

#[test]
fn the_newest_agent_wins_and_the_older_one_comes_back() {
    let world = World::start();
    let (mut first, mut second) = (Agent::start('3'), Agent::start('4'));
    assert_eq!(first.register(world.address), 200);
    wait_for("the first is resumed", || first.heard("/resume") == 1);
    assert_eq!(second.register(world.address), 200);
    wait_for("the second is resumed", || second.heard("/resume") == 1);
    assert_eq!(first.heard("/suspend"), 1);
    assert_eq!(first.downscale(world.address, "1", "1Gi").0, 400);
    assert_eq!(first.health(world.address), 200);
    let unregister = second.request("DELETE", "/unregister", &second.description(4, 4));
    assert_eq!(send(world.address, &unregister).status, 200);
    wait_for("the first is resumed again", || first.heard("/resume") == 2);
    assert_eq!(first.upscale(world.address, "2", "2Gi"), 200);
}

#[test]
fn more_is_asked_for_when_memory_or_cpu_is_short() {
    let world = World::start();
    let mut agent = Agent::start('5');
    assert_eq!(agent.register(world.address), 200);
    wait_for("it is resumed", || agent.heard("/resume") == 1);
    world.memory(950, 900);
    let memory = "/try-upscale {\"cpu\":false,\"memory\":true";
    wait_for("memory is asked for", || agent.heard(memory) > 0);
    world.memory(950, 200);
    world.write("proc/loadavg", "0.10 0.20 0.30 4/80 4711\n");
    let cpu = "/try-upscale {\"cpu\":true,\"memory\":false";
    wait_for("CPU is asked for", || agent.heard(cpu) > 0);
}

#[test]
fn what_is_plugged_in_comes_online_and_metrics_are_told_and_signed() {
    let world = World::start();
    world.write("sys/devices/system/cpu/cpu1/online", "0\n");
    world.write("sys/devices/system/cpu/present", "0-1\n");
    wait_for("the CPU is online", || world.read("sys/devices/system/cpu/cpu1/online") == "1");
    let plain = Message { method: "GET".into(), path: "/metrics".into(), ..Message::default() };
    let answer = send(world.metrics, &plain);
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(text.contains("\nhost_load1 0.1\n"), "{text}");
    assert!(!is_signed(&plain, &answer));
    let request = signed("GET", "/metrics", "", None);
    assert!(is_signed(&request, &send(world.metrics, &request)));
}

#[test]
fn a_killed_program_does_not_know_the_agent_which_registers_again() {
    let mut world = World::start();
    let mut agent = Agent::start('6');
    assert_eq!(agent.register(world.address), 200);
    wait_for("it is resumed", || agent.heard("/resume") == 1);
    world.kill();
    assert_eq!(agent.upscale(world.address, "1", "1Gi"), 404);
    assert_eq!(agent.register(world.address), 200);
    wait_for("it is resumed again", || agent.heard("/resume") == 2);
    assert_eq!(agent.upscale(world.address, "1", "1Gi"), 200);
}
