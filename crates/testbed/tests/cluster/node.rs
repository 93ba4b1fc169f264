//! A real node does what a real node does: pods run, are resized in place, and answer.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;
use walras_testbed::{CpuMax, Image, Settings, Testbed, wait_for};

use crate::PATIENCE;

/// What a web server answers to `GET path`.
fn get(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\n\r\n")?;
    // No more is asked on this connection, so the server closes it after the answer.
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_else(|| panic!("no {path} in {value:#}"))
}

#[test]
fn a_pod_is_resized_in_place_and_the_kernel_enforces_it() {
    let testbed = Testbed::shared().unwrap();
    let kubectl = testbed.kubectl().unwrap();
    let namespace = testbed.namespace("resize").unwrap();
    namespace.run("load", Image::Loadgen, &["0.0.0.0:8080"], "200m").unwrap();
    let pod = namespace.pod_in("load", "Running").unwrap();
    let uid = text(&pod, "/metadata/uid");
    let container = text(&pod, "/status/containerStatuses/0/containerID").to_owned();
    let limit = |quota_us| CpuMax { quota_us: Some(quota_us), period_us: 100_000 };
    assert_eq!(testbed.cpu_max(uid, &container).unwrap(), limit(20_000));

    let patch = r#"{"spec":{"containers":[{"name":"load","resources":
        {"requests":{"cpu":"800m"},"limits":{"cpu":"800m"}}}]}}"#;
    let args = ["patch", "pod", "load", "-n", &namespace.name, "--subresource=resize", "-p", patch];
    kubectl.run(&args).unwrap();
    wait_for("the new limit in the cgroup", PATIENCE, || {
        Ok((testbed.cpu_max(uid, &container)? == limit(80_000)).then_some(()))
    })
    .unwrap();
    let pod = wait_for("the new limit in the status", PATIENCE, || {
        let pod = kubectl.json(&["get", "pod", "load", "-n", &namespace.name])?;
        let limit = pod.pointer("/status/containerStatuses/0/resources/limits/cpu");
        Ok((limit == Some(&Value::from("800m"))).then_some(pod))
    })
    .unwrap();
    assert_eq!(pod.pointer("/status/containerStatuses/0/restartCount"), Some(&Value::from(0)));
    assert_eq!(text(&pod, "/status/containerStatuses/0/containerID"), container);

    let audit = testbed.audit().unwrap();
    let resized = audit.iter().find(|event| {
        event["verb"] == "patch"
            && event["objectRef"]["subresource"] == "resize"
            && event["objectRef"]["namespace"] == namespace.name.as_str()
    });
    let resized = resized.expect("the audit log has the resize");
    assert_eq!(resized["responseStatus"]["code"], 200);
    let sent = resized.pointer("/requestObject/spec/containers/0/resources/limits/cpu");
    assert_eq!(sent, Some(&Value::from("800m")), "the log has what was sent");
}

#[test]
fn the_load_generator_works_on_request_and_measures_it() {
    let testbed = Testbed::shared().unwrap();
    let namespace = testbed.namespace("load").unwrap();
    namespace.run("load", Image::Loadgen, &["0.0.0.0:8080"], "500m").unwrap();
    let pod = namespace.pod_in("load", "Running").unwrap();
    let address: SocketAddr = format!("{}:8080", text(&pod, "/status/podIP")).parse().unwrap();
    let healthy = wait_for("an answer", PATIENCE, || Ok(get(address, "/healthz").ok())).unwrap();
    assert!(healthy.ends_with("\r\n\r\nok\n"), "{healthy}");
    for _ in 0..3 {
        assert!(get(address, "/work?ms=5").unwrap().ends_with("done\n"));
    }
    assert!(get(address, "/burst?ms=5&threads=2").unwrap().ends_with("started\n"));
    assert!(get(address, "/work?ms=-1").unwrap().starts_with("HTTP/1.1 400 "));
    let metrics = get(address, "/metrics").unwrap();
    assert!(metrics.contains("\nloadgen_request_seconds_count 3\n"), "{metrics}");
    assert!(metrics.contains("\nloadgen_cpu_asked_seconds_total 0.015\n"), "{metrics}");
}

#[test]
fn our_own_binary_runs_in_a_pod_and_its_output_is_in_the_log() {
    let testbed = Testbed::shared().unwrap();
    testbed.import(&[Image::Walras], &Settings::read().unwrap()).unwrap();
    let namespace = testbed.namespace("own").unwrap();
    namespace.run("walras", Image::Walras, &["profiles"], "100m").unwrap();
    namespace.pod_in("walras", "Succeeded").unwrap();
    let kubectl = testbed.kubectl().unwrap();
    let log = kubectl.run(&["logs", "walras", "-n", &namespace.name]).unwrap();
    assert!(log.contains("rounding_milli"), "{log}");
}
