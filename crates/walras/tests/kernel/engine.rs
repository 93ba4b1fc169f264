//! Containers whose engine tells what they say about themselves, or does not: cgroups as Docker
//! makes them, and somebody who answers as Docker does.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::stage::{Stage, wait_for};

/// An id that no engine gives, for the container of this number.
fn id(number: u8) -> String {
    format!("77616c726173{:08x}{number:044x}", std::process::id())
}

/// Answers as Docker does: the first container asked to be left alone, the second says something,
/// and of the third there is word only once that is let through.
fn engine(socket: &Path, third: &Arc<AtomicBool>) {
    let listener = UnixListener::bind(socket).unwrap();
    let third = Arc::clone(third);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut asked = String::new();
            reader.read_line(&mut asked).unwrap();
            let body = if asked.contains(&id(1)) {
                r#"{"Name": "/shy", "Config": {"Labels": {"walras.dev/managed": "false"}}}"#
            } else if asked.contains(&id(2)) {
                r#"{"Name": "/web", "Config": {"Labels": {"walras.dev/min-cpu": "70m"}}}"#
            } else if asked.contains(&id(3)) && third.load(Ordering::Relaxed) {
                r#"{"Name": "/late", "Config": {"Labels": null}}"#
            } else {
                ""
            };
            let (status, length) =
                if body.is_empty() { ("500 No", 0) } else { ("200 OK", body.len()) };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
            reader.get_mut().write_all(head.as_bytes()).ok();
        }
    });
}

#[test]
fn a_container_that_asked_to_be_left_alone_is_and_so_is_one_that_may_have() {
    let Some(mut stage) = Stage::prepared() else { return };
    let containers = [1, 2, 3].map(|number| stage.make_container(&id(number), 10));
    let [shy, web, late] = &containers;
    let _burners = containers.each_ref().map(|path| stage.burn(path, 1));
    let (socket, third) = (stage.folder.path().join("docker.sock"), Arc::default());
    engine(&socket, &third);
    let at = |name: &str| stage.folder.path().join(name).display().to_string();
    let config = format!(
        "act = true\nlook_interval_ms = 100\n[adopt]\nwalras = \"none\"\npodman = \"none\"\n\
         docker_socket = \"{}\"\ndocker_root = \"{}\"\n",
        socket.display(),
        at("nowhere")
    );
    fs::write(at("host.toml"), config).unwrap();
    let daemon = stage.start(&[]);
    wait_for("a larger quota", || stage.quota(web).filter(|&quota| quota > 10_000));
    let told = daemon.pod(web).unwrap();
    assert_eq!((&told["name"], &told["min_milli"]), (&"web".into(), &70.into()), "{told}");
    assert_eq!((daemon.pod(shy), daemon.pod(late)), (None, None));
    let problems = daemon.state()["problems"].to_string();
    let words = format!("docker {} is left alone, because it is not known", &id(3)[..12]);
    assert!(problems.contains(&words) && problems.contains("500"), "{problems}");
    third.store(true, Ordering::Relaxed);
    wait_for("the third one", || daemon.pod(late));
    // Of its own containers: others may have left some on this machine.
    wait_for("no problem with it", || {
        let problems = daemon.state()["problems"].to_string();
        (!problems.contains(&id(3)[..12])).then_some(())
    });
    daemon.stop();
    assert_eq!(containers.each_ref().map(|path| stage.quota(path)), [Some(10_000); 3]);
}
