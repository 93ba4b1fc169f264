//! Compose projects, and everything that a container can have beside its image, on one Docker; and
//! clients that others wrote.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::engine::{Engine, tool};
use crate::host::{Host, until};

const SECRET: &str = "a horse, a stable and a battery";
/// Runs until it is told to stop; `$$` is a plain one in a compose file.
const SERVE: &str = "echo began; trap 'exit 0' TERM; while true; do sleep 1 & wait $$!; done";

fn inspect(engine: &Engine, name: &str) -> Value {
    let text = engine.docker(&["inspect", name]);
    serde_json::from_str::<Value>(&text).unwrap()[0].clone()
}

fn compose() -> String {
    tool("docker-compose-v2.29.7", "docker-compose").display().to_string()
}

fn start(engine: &Engine, more: &[&str]) -> Host {
    let compose = compose();
    Host::start(engine, &[&["--run-compose", &compose][..], more].concat())
}

/// A project of two services with a volume, without a network.
fn shop(revision: &str, more: &str) -> String {
    let service = |name: &str| {
        format!(
            "        {name}:\n          image: \"walras-test:${{TAG}}\"\n          \
             command: [/bin/sh, -c, \"{SERVE}\"]\n          network_mode: none\n          \
             restart: always\n          volumes: [\"data:/data\"]\n          \
             environment: {{TOKEN: \"${{TOKEN}}\"}}\n{more}"
        )
    };
    format!(
        "id: shop\nrevision_id: \"{revision}\"\nspec:\n  secrets: {{TOKEN: \"{SECRET}\"}}\n  \
         compose:\n    env: {{TAG: \"1\"}}\n    compose_yaml: |\n      services:\n{}{}      \
         volumes: {{data: {{}}}}\n",
        service("web"),
        service("db")
    )
}

fn container(id: &str, revision: &str, command: &str, more: &str) -> String {
    format!(
        "id: {id}\nrevision_id: \"{revision}\"\nspec:\n  container:\n    image: walras-test:1\n    \
         command: [/bin/sh, -c]\n    args: [\"{command}\"]\n{more}"
    )
}

fn serve() -> String {
    SERVE.replace("$$", "$")
}

#[test]
fn a_project_is_applied_replaced_repaired_and_deleted_and_its_volume_stays() {
    let engine = Engine::start();
    let host = start(&engine, &[]);
    host.apply(&shop("1", ""), &["--wait"]);
    let first = inspect(&engine, "shop-web-1");
    let labels = &first["Config"]["Labels"];
    assert_eq!(labels["persys.workload_id"], "shop");
    assert_eq!(labels["com.docker.compose.project"], "shop");
    let told = host.walras(&["exec", "shop", "--service", "db", "--", "sh", "-c", "echo $TOKEN"]);
    assert_eq!(told.trim(), SECRET);
    host.walras(&["exec", "shop", "--service", "db", "--", "sh", "-c", "echo kept > /data/file"]);
    let lines = host.walras(&["logs", "shop"]);
    assert!(lines.contains("web | began") && lines.contains("db | began"), "{lines}");
    // The same again touches nothing.
    let told = host.apply(&shop("1", ""), &["--wait", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap()[0]["skipped"], true);
    assert_eq!(inspect(&engine, "shop-web-1")["Id"], first["Id"]);
    // What is removed is made again, and the other goes on.
    engine.docker(&["rm", "--force", "shop-db-1"]);
    until("the database is back", || engine.containers().contains("shop-db-1"));
    host.becomes("shop", "RUNNING");
    assert_eq!(inspect(&engine, "shop-web-1")["Id"], first["Id"]);
    // What is privileged, or of the host, is refused, and nothing is touched.
    let bad = shop("2", "          privileged: true\n          pid: host\n");
    let refused = host.refused(&bad);
    for field in ["services.web.privileged", "services.db.privileged", "services.web.pid"] {
        assert!(refused.contains(field), "{field}: {refused}");
    }
    let climbs = shop("2", "").replace("\"data:/data\"", "\"../../etc:/data\"");
    assert!(host.refused(&climbs).contains("services.web.volumes[0]"));
    let named = shop("2", "").replace("  compose:\n", "  compose:\n    project_name: ../x\n");
    assert!(host.refused(&named).contains("project_name"));
    assert_eq!(inspect(&engine, "shop-web-1")["Id"], first["Id"]);
    // A new revision keeps the volume.
    host.apply(&shop("2", ""), &["--wait"]);
    let second = inspect(&engine, "shop-web-1");
    assert_ne!(second["Id"], first["Id"]);
    let told = host.walras(&["exec", "shop", "--service", "web", "--", "cat", "/data/file"]);
    assert_eq!(told.trim(), "kept");
    // Nothing of the secret is in a file of ours.
    host.greps_nothing(SECRET);
    host.walras(&["delete", "shop", "--wait"]);
    assert_eq!(engine.containers(), "");
    assert_eq!(engine.docker(&["volume", "ls", "-q"]).trim(), "shop_data");
}

#[test]
fn a_container_has_files_commands_lines_and_a_health_that_decides() {
    let engine = Engine::start();
    let host = start(&engine, &[]);
    let more = "    managed_volumes: [{name: scratch, mount_path: /s, retain_policy: Delete}]\n    \
                resources: {weight: 2.5, target_latency_ms: 20}\n    logs: {max_bytes: 65536}\n  \
                secrets_as_files: true\n";
    let more = format!("{more}  secrets: {{TOKEN: \"{SECRET}\"}}\n  rollback: true\n");
    let web = |revision: &str, check: &str| {
        let check =
            format!("    health_check: {{command: [\"{check}\"], interval_s: 1, retries: 1}}\n");
        container("web", revision, &serve(), &[check, more.clone()].concat())
    };
    host.apply(&web("1", "true"), &["--wait"]);
    assert_eq!(host.walras(&["exec", "web", "--", "cat", "/run/secrets/TOKEN"]), SECRET);
    let told = inspect(&engine, "web");
    assert_eq!(told["Config"]["Labels"]["walras.dev/weight"], "2.500");
    assert_eq!(told["Config"]["Labels"]["walras.dev/target-latency-ms"], "20");
    assert_eq!(told["HostConfig"]["LogConfig"]["Config"]["max-size"], "65536");
    // A secret that is a file is nowhere on a disk: not with us, and not with Docker.
    assert!(!told.to_string().contains(SECRET));
    host.greps_nothing(SECRET);
    engine.greps_nothing(SECRET);
    // Lines, commands and how they end.
    assert_eq!(host.walras(&["logs", "web", "--tail", "1"]), "began\n");
    let (code, output) = host.ends_with(&["exec", "web", "--", "sh", "-c", "echo x; exit 7"]);
    assert_eq!((code, &*output), (Some(1), "x\n"));
    let (code, _) = host.ends_with(&["logs", "none"]);
    assert_eq!(code, Some(2));
    let told = host.walras_fed(&["exec", "web", "-i", "--", "cat"], "hello\n");
    assert_eq!(told, "hello\n");
    let mut follows = host.spawn(&["logs", "web", "--follow"]);
    let begun = host.first_line(&mut follows);
    assert_eq!(begun, "began");
    follows.kill().unwrap();
    follows.wait().unwrap();
    assert_eq!(host.metric("persys_workloads_total{state=\"running\"}"), "1");
    // A new revision that is not well gives way to the one before it.
    host.apply(&web("2", "false"), &[]);
    until("it gave way", || {
        let status = host.status("web");
        status.starts_with("web: RUNNING") && status.contains("failed_revision 2")
    });
    let labels = inspect(&engine, "web")["Config"]["Labels"].clone();
    assert_eq!(labels["persys.revision_id"], "1");
    assert_ne!(host.metric("persys_agent_task_executions_total{action_type=\"start\"}"), "0");
    host.walras(&["delete", "web", "--wait"]);
    assert_eq!(engine.docker(&["volume", "ls", "-q"]).trim(), "", "it went with its workload");
}

#[test]
fn a_client_that_others_wrote_speaks_the_api_with_certificates() {
    let engine = Engine::start();
    let certs = tempfile::tempdir().unwrap();
    let ca = certs.path().display().to_string();
    let walras = |args: &[&str]| assert!(Host::program(args).status().unwrap().success());
    walras(&["certs", "init", "--dir", &ca]);
    walras(&["certs", "issue", "--dir", &ca, "--use", "server", "--name", "localhost"]);
    walras(&["certs", "issue", "--dir", &ca, "--use", "client", "--name", "alice"]);
    walras(&["certs", "issue", "--dir", &ca, "--use", "client", "--name", "bob"]);
    let server = certs.path().join("localhost");
    fs::write(server.join("clients"), "alice\nbob read\n").unwrap();
    let tls = server.display().to_string();
    let host = start(&engine, &["--run-listen", "127.0.0.1:0", "--run-tls", &tls]);
    let address = format!("localhost:{}", host.api_port());
    let call = |who: &str, args: &[&str]| {
        let folder = certs.path().join(who);
        let file = |name: &str| folder.join(name).display().to_string();
        let mut command = Command::new(tool("grpcurl-v1.9.2", "grpcurl"));
        command.args(["-cacert", &file("ca.pem"), "-cert", &file("cert.pem")]);
        command.args(["-key", &file("key.pem")]);
        let (options, rest) = args.split_at(args.len() - 1);
        // Options, the address, and what to call.
        command.args(options).arg(&address).args(rest).stdin(Stdio::null());
        let output = command.output().unwrap();
        let told = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(told).unwrap())
    };
    let (_, services) = call("alice", &["list"]);
    assert!(services.contains("persys.agent.v1.AgentService"), "{services}");
    let apply = format!(
        r#"{{"id": "web", "type": "WORKLOAD_TYPE_CONTAINER", "revisionId": "1",
            "desiredState": "DESIRED_STATE_RUNNING", "spec": {{"container": {{
            "image": "walras-test:1", "command": ["/bin/sh", "-c", "{}"]}}}}}}"#,
        serve()
    );
    let method = |name: &str| format!("persys.agent.v1.AgentService/{name}");
    let (fine, told) = call("alice", &["-d", &apply, &method("ApplyWorkload")]);
    assert!(fine && told.contains("\"applied\": true"), "{told}");
    host.becomes("web", "RUNNING");
    let (fine, told) = call("bob", &["-d", r#"{"id": "web"}"#, &method("GetWorkloadStatus")]);
    assert!(fine && told.contains("ACTUAL_STATE_RUNNING"), "{told}");
    let (fine, told) = call("bob", &["-d", r#"{"id": "web"}"#, &method("DeleteWorkload")]);
    assert!(!fine && told.contains("bob may not delete here"), "{told}");
    let (fine, told) = call("alice", &["-d", r#"{"id": "web"}"#, &method("GetLogs")]);
    assert!(fine && told.contains("text"), "{told}");
    // Who asked for what is in the log.
    let log = host.log();
    let line = |words: [&str; 3]| log.lines().any(|line| words.iter().all(|it| line.contains(it)));
    assert!(line(["by=\"alice\"", "verb=\"apply\"", "workload=\"web\""]), "{log}");
    assert!(line(["by=\"bob\"", "verb=\"delete\"", "forbidden"]), "{log}");
    fans_out(&host, certs.path(), &address);
}

/// The same host twice, by two names, and one that is not there.
fn fans_out(host: &Host, certs: &Path, address: &str) {
    let hosts = certs.join("hosts");
    fs::write(&hosts, format!("# ours\n{address}\nlocalhost:1\n")).unwrap();
    let (hosts, alice) = (hosts.display().to_string(), certs.join("alice").display().to_string());
    let file = certs.join("more.yaml");
    fs::write(&file, container("more", "1", &serve(), "")).unwrap();
    let file = file.display().to_string();
    let args = ["apply", "-f", &file, "--wait", "--hosts", &hosts, "--tls", &alice];
    let output = Host::program(&args).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "one of them is not there");
    assert!(told.contains("HOST") && told.contains(address), "{told}");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("localhost:1: "), "{errors}");
    host.becomes("more", "RUNNING");
}
