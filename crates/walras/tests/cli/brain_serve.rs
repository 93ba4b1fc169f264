//! `walras brain serve` as schedulers meet it: what it answers, by which model, and what it
//! refuses.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use walras_rpc::scheduler::{
    BatchScoreRequest, NodeTelemetry, PodRequirements, ScoreMatrixRequest, ScoreRequest,
};
use walras_rpc::{BrainClient, Code, Target};

use crate::{refusal_of, walras};

const PATIENCE: Duration = Duration::from_secs(90);
const TREES: &str = "../brain/testdata/models/xgboost-squarederror.ubj";

/// A Brain that serves, until it goes.
pub(crate) struct Served {
    child: Child,
    folder: TempDir,
    pub(crate) threads: Runtime,
}

impl Served {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let child = Command::new(assert_cmd::cargo::cargo_bin!("walras"))
            .args(["brain", "serve", "--socket"])
            .arg(folder.path().join("brain.sock"))
            .args(arguments)
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        let threads = Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { child, folder, threads }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("brain.sock")
    }

    pub(crate) fn client(&self) -> BrainClient {
        let target = Target::Unix { path: self.socket() };
        wait_for("the Brain", || self.threads.block_on(BrainClient::connect(&target)).ok())
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|ended| ended.is_none())
    }

    /// What it has in memory beside its own program, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let line = line.expect("a process has memory");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        // Nobody ever wakes it: this is how to wait a little.
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn node(name: &str, cpu: f64, age_ms: i64) -> NodeTelemetry {
    NodeTelemetry {
        node_name: name.to_owned(),
        cpu_utilization: Some(cpu),
        memory_utilization: Some(cpu),
        timestamp_unix_ms: Some(now_ms() - age_ms),
        ..NodeTelemetry::default()
    }
}

#[test]
fn the_model_that_is_built_in_scores_and_a_stale_node_is_neutral_alone() {
    let served = Served::start(&[]);
    let mut client = served.client();
    let health = served.threads.block_on(client.health()).unwrap();
    assert!(health.healthy && health.model_kind == "mlp", "{health:?}");
    assert!(health.model_version.contains("simulator"), "named as what it is: {health:?}");
    let nodes = vec![
        node("quiet", 0.1, 0),
        node("busy", 0.95, 0),
        node("old", 0.1, 60_000),
        node("ahead", 0.1, -60_000),
        node("broken", f64::NAN, 0),
    ];
    let request = BatchScoreRequest { pod_requirements: None, nodes };
    let scores = served.threads.block_on(client.batch(request)).unwrap().scores;
    let names: Vec<&str> = scores.iter().map(|score| score.node_name.as_str()).collect();
    assert_eq!(names, ["quiet", "busy", "old", "ahead", "broken"]);
    assert!(scores[0].score > scores[1].score && scores[0].confidence > 0.0, "{scores:?}");
    assert!(scores[0].reasoning.starts_with("quiet: low CPU load"), "{scores:?}");
    for (place, words) in [(2, "is 60 s old"), (3, "from the future"), (4, "not a finite number")] {
        let score = &scores[place];
        assert_eq!((score.score, score.confidence), (50, 0.0), "{score:?}");
        assert!(score.reasoning.contains(words), "{score:?}");
    }
    // The same by the other calls.
    let one = ScoreRequest { node_telemetry: Some(node("quiet", 0.1, 0)), ..Default::default() };
    let one = served.threads.block_on(client.score(one)).unwrap();
    assert_eq!(one.score, scores[0].score);
    let mut row = [f32::NAN; 15];
    (row[0], row[2]) = (0.1, 0.1);
    let rows = [row, row.map(|_| f32::INFINITY)].concat();
    let matrix = rows.iter().flat_map(|number| number.to_le_bytes()).collect();
    let request = ScoreMatrixRequest { columns: 15, matrix, ..Default::default() };
    let answer = served.threads.block_on(client.matrix(request)).unwrap();
    let first = f32::from_le_bytes(answer.scores[..4].try_into().unwrap());
    assert_eq!(format!("{}", first.floor()), one.score.to_string());
    assert_eq!((answer.scores.len(), answer.neutral.len(), answer.neutral[0].row), (16, 1, 1));
}

#[test]
fn without_a_model_it_says_so_and_what_makes_no_sense_is_refused_by_name() {
    let served = Served::start(&["--model", "none"]);
    let mut client = served.client();
    let health = served.threads.block_on(client.health()).unwrap();
    assert_eq!((health.model_kind.as_str(), health.healthy), ("none", true));
    assert_eq!(health.neutral_because, "no model is loaded");
    let one = ScoreRequest { node_telemetry: Some(node("a", 0.9, 0)), ..Default::default() };
    let one = served.threads.block_on(client.score(one)).unwrap();
    assert_eq!((one.score, one.confidence), (50, 0.0));
    assert!(one.reasoning.contains("no model is loaded"), "{one:?}");
    let pod = PodRequirements { cpu_milli: -5, ..Default::default() };
    let bad = BatchScoreRequest { pod_requirements: Some(pod), nodes: Vec::new() };
    let refused = served.threads.block_on(client.batch(bad)).unwrap_err();
    assert_eq!(refused.code, Code::Invalid);
    assert!(refused.message.contains("cpu_milli: -5"), "{refused}");
    // Too large a request is refused, and the next one is answered.
    let huge = ScoreMatrixRequest { columns: 15, matrix: vec![0; 5 << 20], ..Default::default() };
    let refused = served.threads.block_on(client.matrix(huge)).unwrap_err();
    assert!(refused.code == Code::Invalid || refused.code == Code::NoRoom, "{refused:?}");
    assert!(served.threads.block_on(client.health()).unwrap().healthy);
    // Bytes that are no HTTP/2, and messages that are none, of a seeded generator.
    let mut rng = walras_core::rng::Rng::from_seed(7);
    for round in 0..200 {
        let mut stream = UnixStream::connect(served.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let preface: &[u8] = if round % 2 == 0 { b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" } else { b"" };
        let mut bytes = preface.to_vec();
        bytes.extend((0..64 + round).map(|_| rng.next_u64().to_le_bytes()[0]));
        // It may have been closed in the middle, which is what is to be expected.
        stream.write_all(&bytes).ok();
        stream.shutdown(std::net::Shutdown::Write).ok();
        stream.read_to_end(&mut Vec::new()).ok();
    }
    assert!(served.threads.block_on(client.health()).unwrap().healthy, "seed 7");
}

#[test]
fn a_new_file_is_in_service_at_once_and_a_broken_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.bin");
    let settings = folder.path().join("settings");
    let put = |to: &Path, bytes: &[u8]| {
        let fresh = folder.path().join("fresh");
        fs::write(&fresh, bytes).unwrap();
        fs::rename(&fresh, to).unwrap();
    };
    put(&settings, b"scale: absolute\n");
    put(&model, &fs::read(TREES).unwrap());
    let (model_path, settings_path) = (model.to_str().unwrap(), settings.to_str().unwrap());
    let served = Served::start(&[
        "--model",
        model_path,
        "--feature-order",
        "kubeattention",
        "--settings",
        settings_path,
    ]);
    let mut client = served.client();
    let mut kind = || served.threads.block_on(client.health()).unwrap().model_kind;
    assert_eq!(kind(), "trees");
    put(&model, b"{ \"learner\": ");
    put(&settings, b"model: mlp\n");
    wait_for("the model that the settings name", || (kind() == "mlp").then_some(()));
    put(&settings, b"model: elephant\n");
    put(&model, &fs::read(TREES).unwrap());
    put(&settings, b"scale: batch\n");
    wait_for("the model of the file again", || (kind() == "trees").then_some(()));
}

#[test]
fn bad_input_is_told_before_anything_is_served() {
    let said = |arguments: &[&str]| refusal_of(walras(&[&["brain", "serve"], arguments].concat()));
    let (code, _, words) = said(&["--socket", "target/x.sock", "--model", "no-such-file"]);
    assert_eq!(code, Some(2), "{words}");
    assert!(words.contains("no-such-file"), "{words}");
    let (code, _, words) = said(&["--socket", "target/x.sock", "--listen", "0.0.0.0:0", "--plain"]);
    assert_eq!(code, Some(2), "{words}");
    assert!(words.contains("can be reached from other machines"), "{words}");
}

#[test]
fn a_thousand_clients_are_answered_and_each_costs_little() {
    assert!(walras_cgroup::allow_open_files(4_096) >= 2_048, "too few files may be open");
    let served = Served::start(&[]);
    let mut first = served.client();
    served.threads.block_on(first.health()).unwrap();
    let base = served.resident_kib();
    let target = Target::Unix { path: served.socket() };
    let clients: Vec<BrainClient> = served.threads.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..1000 {
            clients.push(BrainClient::connect(&target).await.unwrap());
        }
        clients
    });
    let nodes: Vec<NodeTelemetry> =
        (0..100).map(|number| node(&format!("node-{number}"), 0.5, 0)).collect();
    let asked: Vec<_> = clients
        .iter()
        .map(|client| {
            let (mut client, nodes) = (client.clone(), nodes.clone());
            served.threads.spawn(async move {
                client.batch(BatchScoreRequest { pod_requirements: None, nodes }).await
            })
        })
        .collect();
    for answer in asked {
        let answer = served.threads.block_on(answer).unwrap().unwrap();
        assert_eq!(answer.scores.len(), 100);
    }
    let loaded = served.resident_kib();
    let each = loaded.saturating_sub(base) / 1000;
    println!("{base} KiB without clients, {loaded} KiB with 1000 that asked: {each} KiB each");
    assert!(base < 32 << 10 && each <= 64, "{base} KiB, then {loaded} KiB");
}
