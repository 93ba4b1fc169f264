//! `walras apply` and its like without a host: what is refused before anybody is asked, and what is
//! said when nobody answers; and `walras certs`.

use crate::{refusal_of, stdout_of, walras};

#[test]
fn certificates_are_made_and_nothing_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let ca = dir.path().join("ca").display().to_string();
    let init = ["certs", "init", "--dir", &ca];
    assert!(stdout_of(walras(&init)).contains("ca-key.pem to yourself"));
    let (code, stdout, stderr) = refusal_of(walras(&init));
    assert_eq!((code, &*stdout), (Some(1), ""));
    assert!(stderr.contains("ca-key.pem: File exists"), "{stderr}");
    let issue = |usage, name| ["certs", "issue", "--dir", &ca, "--use", usage, "--name", name];
    assert!(stdout_of(walras(&issue("server", "web1"))).contains("web1/clients"));
    assert!(stdout_of(walras(&issue("client", "alice"))).contains("is for alice"));
    for file in ["ca.pem", "cert.pem", "key.pem"] {
        assert!(dir.path().join("ca/alice").join(file).is_file(), "{file}");
    }
    let (code, _, stderr) = refusal_of(walras(&issue("client", "../x")));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("`../x` is no name"), "{stderr}");
}

#[test]
fn a_file_that_is_wrong_is_refused_before_anybody_is_asked() {
    for (text, expected) in [
        ("id: web\nspec: {container: {image: x, memroy: 1}}", "memroy"),
        ("id: web\n", "spec"),
        ("", "there is no workload in it"),
    ] {
        let mut command = walras(&["apply", "-f", "-", "--socket", "/nowhere"]);
        command.write_stdin(text);
        let (code, stdout, stderr) = refusal_of(command);
        assert_eq!((code, &*stdout), (Some(2), ""), "{stderr}");
        assert!(stderr.contains("standard input: ") && stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn a_host_that_does_not_answer_is_told_with_its_place() {
    let (code, _, stderr) = refusal_of(walras(&["list", "--socket", "/nowhere/run.sock"]));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("/nowhere/run.sock: No such file"), "{stderr}");
    let (code, _, stderr) = refusal_of(walras(&["list", "--address", "web1:50051"]));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("web1:50051: say --tls DIR with your certificates"), "{stderr}");
    let plain = ["list", "--address", "web1", "--plain"];
    let (code, _, stderr) = refusal_of(walras(&plain));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("`web1` is no address with a port"), "{stderr}");
}

#[test]
fn a_port_without_certificates_is_refused() {
    let (code, _, stderr) = refusal_of(walras(&["host", "--run-listen", "0.0.0.0:0"]));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("say --run-tls DIR"), "{stderr}");
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().display().to_string();
    let open = ["host", "--run-listen", "0.0.0.0:0", "--run-plain", "--run-state-dir", &state];
    let (code, _, stderr) = refusal_of(walras(&open));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("on the loopback interface or a socket"), "{stderr}");
}

#[test]
fn a_daemon_that_cannot_start_runs_nothing_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let config = at("host.toml");
    std::fs::write(&config, "act = 1\n").unwrap();
    let run = ["--run-socket", &at("run.sock"), "--run-state-dir", &at("state")];
    let all = [&["host", "--config", &config][..], &run[..]].concat();
    let (code, _, stderr) = refusal_of(walras(&all));
    assert_eq!(code, Some(2));
    assert!(stderr.contains("act: 1 is not true or false"), "{stderr}");
    assert!(!folder.path().join("run.sock").exists() && !folder.path().join("state").exists());
}
