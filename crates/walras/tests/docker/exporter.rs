//! `walras telemetry --node-exporter` beside Prometheus' real node exporter, on this machine.
//!
//! It needs no Docker, but comes from Debian in the same way.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::engine::tool;
use crate::host::until;

/// An exporter that is gone with this value.
struct Exporter {
    child: Child,
    folder: TempDir,
}

impl Exporter {
    fn start() -> Self {
        let program = tool("exporter/usr/bin", "prometheus-node-exporter");
        let folder = tempfile::tempdir().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let child = Command::new(program)
            .arg("--web.listen-address=127.0.0.1:0")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, folder }
    }

    /// Where it answers, which it says in its log.
    fn url(&self) -> String {
        let log: PathBuf = self.folder.path().join("log");
        let address = || {
            let text = fs::read_to_string(&log).unwrap();
            let (_, rest) = text.split_once("address=127.0.0.1:")?;
            rest.split_whitespace().next().map(str::to_owned)
        };
        until("the exporter listens", || address().is_some());
        format!("http://127.0.0.1:{}/metrics", address().unwrap())
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The share of memory that is not available, as the kernel says it.
fn memory_used() -> f64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let of = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    1.0 - of("MemAvailable:") / of("MemTotal:")
}

#[test]
fn what_a_real_node_exporter_says_becomes_figures() {
    let exporter = Exporter::start();
    let asked = Command::new(env!("CARGO_BIN_EXE_walras"))
        .args(["telemetry", "--json", "--node", "far", "--node-exporter", &exporter.url()])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&asked.stderr);
    assert!(asked.status.success(), "{stderr}");
    let told: Value = serde_json::from_slice(&asked.stdout).unwrap();
    assert_eq!(told["node"], "far");
    assert_eq!(told["stale"], false);
    let figures = told["figures"].as_array().unwrap();
    let of = |name: &str| figures.iter().find(|figure| figure["name"] == name).unwrap();
    for name in [
        "cpu_utilization",
        "memory_utilization",
        "disk_io_wait_ms",
        "disk_iops",
        "network_rx_packets_sec",
        "network_tx_packets_sec",
        "network_drop_rate",
        "context_switches_sec",
        "io_pressure",
    ] {
        let figure = of(name);
        assert!(figure["value"].as_f64().is_some_and(|value| value >= 0.0), "{figure:#}");
        assert!(figure["source"].as_str().unwrap().contains("exporter"), "{figure:#}");
    }
    assert!((0.0..=1.0).contains(&of("cpu_utilization")["value"].as_f64().unwrap()));
    assert!(of("context_switches_sec")["value"].as_f64().unwrap() > 0.0);
    let memory = of("memory_utilization")["value"].as_f64().unwrap();
    // Others take and give memory meanwhile.
    assert!((memory - memory_used()).abs() < 0.25, "{memory} and {}", memory_used());
    assert!(of("l3_cache_miss_rate")["value"].is_null());
    // Somebody who is no exporter, and nobody at all.
    let elsewhere = exporter.url().replace("/metrics", "/");
    let refused = |url: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_walras"))
            .args(["telemetry", "--node-exporter", url])
            .output()
            .unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let told = refused(&elsewhere);
    assert!(told.contains("there is nothing of a node in its answer"), "{told}");
    let url = exporter.url();
    drop(exporter);
    let told = refused(&url);
    assert!(told.contains("cannot be read") && told.contains(&url), "{told}");
}
