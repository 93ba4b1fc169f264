//! A control plane that wants to be told of a host: written in another language, with certificates
//! on both sides, and not always there.

use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::host::{Host, until};
use crate::python::{Certs, ControlPlane};
use crate::tests::workload;

/// What is logged whenever the control plane could not be told.
const NOT_TOLD: &str = "the control plane is not told";

#[test]
fn a_control_plane_is_told_of_a_host_with_certificates_and_can_be_away() {
    let engine = Engine::start();
    let certs = Certs::new(&["host1"]);
    let plane = ControlPlane::start(&certs.of("localhost"));
    let address = format!("localhost:{}", plane.port);
    let tls = certs.of("host1").display().to_string();
    let args = ["--run-control", &address, "--run-control-tls", &tls, "--run-node-id", "host1"];
    let more = ["--run-label", "zone=a", "--run-endpoint", "host1.example:50051"];
    let mut host = Host::start(&engine, &[&args[..], &more[..]].concat());
    until("it registered", || !plane.heard("register").is_empty());
    let registered = plane.heard("register").remove(0);
    assert_eq!(
        (&registered["nodeId"], &registered["labels"]["zone"]),
        (&"host1".into(), &"a".into())
    );
    assert_eq!(registered["by"], serde_json::json!(["host1"]), "it proved its name");
    assert_eq!(registered["grpcEndpoint"], "host1.example:50051");
    let can = &registered["capabilities"];
    assert!(can["supportedWorkloadTypes"].as_array().unwrap().contains(&"container".into()));
    assert!(can["memoryTotalMb"].as_str().unwrap().parse::<u64>().unwrap() > 100, "{can}");
    // How workloads are, and what they have a right to.
    let resources = "    resources: {cpu_min_milli: 150, memory_bytes: 67108864}\n";
    host.apply(&workload("web", "1", resources), &["--wait"]);
    host.apply(&workload("bad", "1", "").replace("[/bin/sh, -c]", "[/bin/none]"), &[]);
    host.becomes("bad", "FAILED");
    until("it was told of both", || {
        plane.heard("heartbeat").last().is_some_and(|beat| {
            let told = beat["workloadStatuses"].as_array();
            let is = |id: &str, state: &str| {
                told.is_some_and(|all| {
                    all.iter().any(|one| one["workloadId"] == id && one["state"] == state)
                })
            };
            is("web", "Running") && is("bad", "Failed")
        })
    });
    let beat = plane.heard("heartbeat").pop().unwrap();
    assert_eq!(beat["usage"]["cpuAllocatedMillicores"], "150", "{beat}");
    assert_eq!(beat["usage"]["memoryAllocatedMb"], "64", "{beat}");
    let told = beat["workloadStatuses"].as_array().unwrap();
    let bad = told.iter().find(|one| one["workloadId"] == "bad").unwrap();
    assert_eq!(bad["failureReason"], "INVALID_SPEC", "{bad}");
    assert!(bad["reason"].get("retryable").is_none(), "it is not tried again: {bad}");
    // It drains, and ends that.
    plane.wishes("drain");
    host.becomes("web", "STOPPED");
    plane.wishes("");
    host.becomes("web", "RUNNING");
    // A control plane that forgot the host gets to know it again.
    let before = plane.heard("register").len();
    plane.wishes("forget");
    until("it registers again", || plane.heard("register").len() > before);
    plane.wishes("");
    let beats = plane.heard("heartbeat").len();
    until("it is told again", || plane.heard("heartbeat").len() > beats + 1);
    is_away(&host, plane);
    // Everything was told without it; another one with another certificate is told nothing.
    host.becomes("web", "RUNNING");
    host.stop();
    let others = Certs::new(&["host1"]);
    let stranger = ControlPlane::start(&others.of("localhost"));
    let address = format!("localhost:{}", stranger.port);
    let args = ["--run-control", &address, "--run-control-tls", &tls, "--run-node-id", "host1"];
    let before = host.log().matches(NOT_TOLD).count();
    host.start_again(&engine, &args);
    until("it is not told", || host.log().matches(NOT_TOLD).count() > before);
    assert_eq!(stranger.heard("register").len(), 0);
}

/// A control plane that is away longer than its lease is asked again, and ever more slowly.
fn is_away(host: &Host, plane: ControlPlane) {
    let before = host.log().matches(NOT_TOLD).count();
    drop(plane);
    let began = Instant::now();
    until("it was not told four times", || host.log().matches(NOT_TOLD).count() >= before + 4);
    // 1, 2 and 4 s are between the four.
    assert!(began.elapsed() > Duration::from_secs(6), "{}", host.log());
    assert!(host.walras(&["health"]).contains("The host is well"));
}
