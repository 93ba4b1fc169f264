//! What is found out about containers, from an engine that answers, one that does not, and files.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread;

use super::ask::Asker;
use super::files::docker_root;
use super::{Question, Told, find_out};
use crate::adopt::Source;

const ID: &str = "0123456789abcdef";
const OPTED_OUT: &str =
    r#"{"Name": "/web", "Config": {"Labels": {"walras.dev/managed": "false"}}}"#;

/// An engine that answers every question with this, until it goes.
fn engine(socket: &Path, status: &'static str, body: &'static str) {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let mut asked = String::new();
            reader.read_line(&mut asked).unwrap();
            assert_eq!(asked, format!("GET /containers/{ID}/json HTTP/1.1\r\n"));
            let mut line = String::new();
            while reader.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            let length = body.len();
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}");
            reader.get_mut().write_all(answer.as_bytes()).ok();
        }
    });
}

/// A machine with an engine of this kind.
struct Machine {
    folder: tempfile::TempDir,
    source: Source,
}

impl Machine {
    fn with(source: Source) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), source }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("engine.sock")
    }

    fn file(&self, path: &str, text: &str) {
        let file = self.folder.path().join("root").join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// What is found out, in short.
    fn told(&self) -> String {
        let question = Question {
            container: (self.source, ID.to_owned()),
            socket: self.socket(),
            root: Some(self.folder.path().join("root")),
        };
        let folder = self.folder.path().display().to_string();
        match find_out(&mut Asker::new().unwrap(), &question) {
            Told::Marks(marks) => {
                let managed = marks.managed.map_or("-".to_owned(), |it| it.to_string());
                format!("{} managed {managed}", marks.name.unwrap_or_default())
            }
            Told::Unknown(because) => because.replace(&folder, "F"),
        }
    }
}

#[test]
fn an_engine_that_answers_tells_labels_wherever_it_keeps_them() {
    for source in [Source::Docker, Source::Podman] {
        let machine = Machine::with(source);
        engine(&machine.socket(), "200 OK", OPTED_OUT);
        assert_eq!(machine.told(), "web managed false");
    }
}

#[test]
fn what_the_engine_does_not_know_is_no_container_whatever_files_say() {
    let machine = Machine::with(Source::Docker);
    machine.file(&format!("containers/{ID}/config.v2.json"), r#"{"Name": "/web"}"#);
    engine(&machine.socket(), "404 Not Found", r#"{"message": "No such container"}"#);
    assert_eq!(machine.told(), "F/engine.sock knows no such container");
}

#[test]
fn the_files_of_docker_are_read_where_it_does_not_answer() {
    let machine = Machine::with(Source::Docker);
    machine.file(&format!("containers/{ID}/config.v2.json"), OPTED_OUT);
    assert_eq!(machine.told(), "web managed false", "nobody is there");
    engine(&machine.socket(), "500 Internal Server Error", "");
    assert_eq!(machine.told(), "web managed false", "somebody is, and is ill");
    let mapped = Machine::with(Source::Docker);
    mapped.file(&format!("231072.231072/containers/{ID}/config.v2.json"), OPTED_OUT);
    assert_eq!(mapped.told(), "web managed false", "users are mapped");
}

#[test]
fn where_neither_tells_the_labels_are_unknown() {
    let nobody = "F/engine.sock does not answer (No such file or directory (os error 2)), and ";
    let machine = Machine::with(Source::Docker);
    assert_eq!(machine.told(), format!("{nobody}it has no files in F/root"));
    machine.file(&format!("containers/{ID}/config.v2.json"), "{");
    let told = machine.told();
    let file = format!("F/root/containers/{ID}/config.v2.json cannot be understood: ");
    assert!(told.starts_with(&format!("{nobody}{file}")), "{told}");
    let machine = Machine::with(Source::Docker);
    engine(&machine.socket(), "200 OK", "rubbish");
    assert!(machine.told().contains("what it answers cannot be understood"), "{}", machine.told());
}

#[test]
fn podmans_files_do_not_have_its_labels_so_without_its_socket_they_are_unknown() {
    let machine = Machine::with(Source::Podman);
    let file = format!("overlay-containers/{ID}/userdata/config.json");
    machine.file(&file, r#"{"hostname": "web"}"#);
    let told = machine.told();
    assert!(told.ends_with("its files do not have its labels; podman.socket makes Podman answer"));
    machine.file(&file, r#"{"hostname": "web", "annotations": {"walras.dev/managed": "true"}}"#);
    assert_eq!(machine.told(), "web managed true", "said by an annotation as well");
}

#[test]
fn an_engine_that_was_silent_is_not_asked_about_every_container() {
    let machine = Machine::with(Source::Docker);
    let mut asker = Asker::new().unwrap();
    let socket = machine.socket();
    let first = asker.ask(Source::Docker, &socket, ID);
    engine(&socket, "200 OK", OPTED_OUT);
    assert_eq!(asker.ask(Source::Docker, &socket, ID), first, "not asked again so soon");
}

#[test]
fn docker_says_itself_where_its_files_are() {
    let root = |text: &str| docker_root(Some(text.to_owned())).display().to_string();
    assert_eq!(root(r#"{"data-root": "/big/docker", "debug": true}"#), "/big/docker");
    assert_eq!(root(r#"{"graph": "/old"}"#), "/old");
    assert_eq!(root("{}"), "/var/lib/docker");
    assert_eq!(root("{"), "/var/lib/docker");
    assert_eq!(docker_root(None), Path::new("/var/lib/docker"));
}
