//! A model in another process, asked over a Unix socket, behind the breaker.
//!
//! It has 45 ms for all candidates of a pod. After three failures in a row it is left alone for
//! five seconds, and then tried with one question. While it does not answer, every node is
//! neutral. An answer for other nodes than those that were asked about is a failure like any
//! other.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::time;
use walras_brain::features::{Criticality, NodeFacts, NodeFeature, PodFacts};
use walras_brain::verdict::{Basis, Verdict};
use walras_core::place::breaker::{Breaker, BreakerState, BreakerTerms, Permission};
use walras_core::units::{Moment, Span};
use walras_rpc::scheduler::{BatchScoreRequest, NodeScore, NodeTelemetry, PodRequirements};
use walras_rpc::{BrainClient, Target};

/// A model in another process.
#[derive(Debug)]
pub(crate) struct RemoteBrain {
    socket: PathBuf,
    client: Mutex<Option<BrainClient>>,
    breaker: Mutex<Breaker>,
    started: Instant,
}

impl RemoteBrain {
    /// The one that listens on `socket`.
    pub(crate) fn new(socket: PathBuf) -> Self {
        Self {
            socket,
            client: Mutex::new(None),
            breaker: Mutex::new(Breaker::new(BreakerTerms::DEFAULT)),
            started: Instant::now(),
        }
    }

    /// Where it is.
    pub(crate) fn place(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// What the breaker looks like.
    pub(crate) fn state(&self) -> BreakerState {
        self.breaker().state()
    }

    /// What it says of the nodes, in their order; nothing if it does not answer as it should.
    pub(crate) async fn ask(
        &self,
        pod: &PodFacts,
        nodes: &[(&str, NodeFacts)],
        now_ms: u64,
    ) -> Option<Vec<Verdict>> {
        let permission = self.breaker().ask(self.now());
        let Permission::Ask { ticket, deadline } = permission else { return None };
        let begun = Instant::now();
        let deadline = Duration::from_micros(deadline.as_us());
        let answer = time::timeout(deadline, self.call(request(pod, nodes, now_ms))).await;
        let took = Span::from_us(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
        let verdicts = match answer {
            Ok(Ok(scores)) => read(&scores, nodes),
            Ok(Err(why)) => Err(why),
            Err(_) => Err("it did not answer within 45 ms".to_owned()),
        };
        let before = self.state();
        let now = self.now();
        match &verdicts {
            Ok(_) => self.breaker().answered(ticket, took, now),
            Err(why) => {
                // The next question begins with a new connection.
                *self.client() = None;
                self.breaker().failed(ticket, now);
                if before == BreakerState::Closed {
                    tracing::warn!("{}: all nodes are neutral: {why}", self.place());
                }
            }
        }
        let after = self.state();
        if before != after {
            tracing::info!("{}: the breaker is {} now", self.place(), after.name());
        }
        verdicts.ok()
    }

    async fn call(&self, request: BatchScoreRequest) -> Result<Vec<NodeScore>, String> {
        let held = self.client().clone();
        let mut client = match held {
            Some(client) => client,
            None => {
                let target = Target::Unix { path: self.socket.clone() };
                BrainClient::connect(&target).await.map_err(|error| error.to_string())?
            }
        };
        let answer = client.batch(request).await.map_err(|refused| refused.to_string())?;
        *self.client() = Some(client);
        Ok(answer.scores)
    }

    fn now(&self) -> Moment {
        let since = self.started.elapsed().as_micros();
        Moment::from_us(u64::try_from(since).unwrap_or(u64::MAX))
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn client(&self) -> MutexGuard<'_, Option<BrainClient>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The scores in the order of the nodes, if there is a good one for each.
fn read(scores: &[NodeScore], nodes: &[(&str, NodeFacts)]) -> Result<Vec<Verdict>, String> {
    if scores.len() != nodes.len() {
        return Err(format!(
            "it was asked about {} nodes and scored {}",
            nodes.len(),
            scores.len()
        ));
    }
    let read = scores.iter().zip(nodes).map(|(score, (name, _))| {
        if score.node_name != *name {
            return Err(format!("it was asked about {name} and scored {}", score.node_name));
        }
        let points = u8::try_from(score.score).ok().filter(|points| *points <= 100);
        let points = points.ok_or(format!("{name}: a score of {} is none", score.score))?;
        #[expect(clippy::cast_possible_truncation, reason = "a confidence from 0 to 1")]
        let confidence = (score.confidence as f32).clamp(0.0, 1.0);
        Ok(Verdict { score: f32::from(points), confidence, basis: Basis::Model })
    });
    read.collect()
}

fn request(pod: &PodFacts, nodes: &[(&str, NodeFacts)], now_ms: u64) -> BatchScoreRequest {
    let whole = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
    let requirements = PodRequirements {
        cpu_milli: whole(pod.cpu_milli),
        memory_bytes: whole(pod.memory_bytes),
        workload_type: pod.workload.name().to_owned(),
        criticality: match pod.criticality {
            Criticality::Unknown => 0,
            Criticality::Low => 1,
            Criticality::Medium => 2,
            Criticality::High => 3,
        },
        ..PodRequirements::default()
    };
    let node = |(name, facts): &(&str, NodeFacts)| {
        use NodeFeature as N;
        let get = |feature| facts.get(feature);
        NodeTelemetry {
            node_name: (*name).to_owned(),
            cpu_utilization: get(N::CpuUtilization),
            cpu_throttle_rate: get(N::CpuThrottleRate),
            memory_utilization: get(N::MemoryUtilization),
            memory_bandwidth_gbps: get(N::MemoryBandwidthGbps),
            l3_cache_miss_rate: get(N::L3CacheMissRate),
            l3_cache_occupancy_mb: get(N::L3CacheOccupancyMb),
            disk_io_wait_ms: get(N::DiskIoWaitMs),
            disk_iops: get(N::DiskIops),
            network_rx_packets_sec: get(N::NetworkRxPacketsSec),
            network_tx_packets_sec: get(N::NetworkTxPacketsSec),
            network_drop_rate: get(N::NetworkDropRate),
            // Whether a node's telemetry is too old is decided here, for each node on its own.
            timestamp_unix_ms: Some(whole(now_ms)),
            cost_per_hour: get(N::NodeCostIndex),
            is_spot_instance: get(N::IsSpotInstance).map(|spot| spot > 0.5),
            spot_interruption_risk: get(N::SpotInterruptionRisk),
            ..NodeTelemetry::default()
        }
    };
    let nodes = nodes.iter().map(node).collect();
    BatchScoreRequest { pod_requirements: Some(requirements), nodes }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::*;
    use walras_rpc::scheduler::{
        BatchScoreResponse, HealthCheckResponse, ScoreMatrixRequest, ScoreMatrixResponse,
        ScoreRequest, ScoreResponse,
    };
    use walras_rpc::{BRAIN_LIMITS, Brain, Code, Listen, Refused, serve_brain};

    /// Answers well, with an error, with nonsense, for too few nodes, or late.
    #[derive(Default)]
    struct Moody(AtomicU8);

    impl Brain for Moody {
        fn score(&self, _: ScoreRequest) -> Result<ScoreResponse, Refused> {
            Ok(ScoreResponse::default())
        }

        fn batch(&self, request: BatchScoreRequest) -> Result<BatchScoreResponse, Refused> {
            let mood = self.0.load(Ordering::SeqCst);
            match mood {
                1 => return Err(Refused { code: Code::Failed, message: "ill".to_owned() }),
                3 => return Ok(BatchScoreResponse::default()),
                4 => {
                    // Slower than the deadline, for sure: nothing ever comes.
                    let (_kept, silent) = std::sync::mpsc::channel::<()>();
                    silent.recv_timeout(Duration::from_millis(200)).unwrap_err();
                }
                _ => {}
            }
            let score = if mood == 2 { 1_000 } else { 70 };
            let scores = request.nodes.into_iter().map(|node| NodeScore {
                node_name: node.node_name,
                score,
                confidence: 0.5,
                ..NodeScore::default()
            });
            Ok(BatchScoreResponse { scores: scores.collect() })
        }

        fn matrix(&self, _: ScoreMatrixRequest) -> Result<ScoreMatrixResponse, Refused> {
            Ok(ScoreMatrixResponse::default())
        }

        fn health(&self) -> HealthCheckResponse {
            HealthCheckResponse::default()
        }
    }

    async fn asked(remote: &RemoteBrain) -> Option<Vec<f32>> {
        let nodes = [("a", NodeFacts::UNKNOWN), ("b", NodeFacts::UNKNOWN)];
        let verdicts = remote.ask(&PodFacts::default(), &nodes, 1_000).await?;
        Some(verdicts.iter().map(|verdict| verdict.score).collect())
    }

    /// Asks until there is an answer. A busy machine may take longer than 45 ms now and then.
    async fn until_answered(remote: &RemoteBrain) {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(120) {
            if let Some(scores) = asked(remote).await {
                assert_eq!(scores, [70.0, 70.0]);
                assert_eq!(remote.state(), BreakerState::Closed);
                return;
            }
            time::sleep(Duration::from_millis(50)).await;
        }
        panic!("no answer within two minutes");
    }

    #[tokio::test]
    async fn a_brain_that_fails_in_any_way_makes_nodes_neutral_and_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("brain.sock");
        let brain = Arc::new(Moody::default());
        let listen = Listen::Unix { path: path.clone() };
        let _server = serve_brain(Arc::clone(&brain), &listen, BRAIN_LIMITS).await.unwrap();
        for mood in 1..=4 {
            let remote = RemoteBrain::new(path.clone());
            brain.0.store(0, Ordering::SeqCst);
            until_answered(&remote).await;
            brain.0.store(mood, Ordering::SeqCst);
            for _ in 0..3 {
                assert_eq!(asked(&remote).await, None, "mood {mood}");
            }
            assert_eq!(remote.state(), BreakerState::Open, "mood {mood}");
            let begun = Instant::now();
            assert_eq!(asked(&remote).await, None);
            // Without waiting for it: a question that is asked takes 200 ms here.
            assert!(mood != 4 || begun.elapsed() < Duration::from_millis(200));
            brain.0.store(0, Ordering::SeqCst);
            if mood == 1 {
                until_answered(&remote).await;
            }
        }
    }

    #[tokio::test]
    async fn a_brain_that_is_not_there_makes_nodes_neutral() {
        let folder = tempfile::tempdir().unwrap();
        let remote = RemoteBrain::new(folder.path().join("nothing.sock"));
        for _ in 0..3 {
            assert_eq!(asked(&remote).await, None);
        }
        assert_eq!(remote.state(), BreakerState::Open);
    }

    #[test]
    fn scores_are_read_only_for_the_nodes_that_were_asked_about() {
        let nodes = [("a", NodeFacts::UNKNOWN)];
        let score = |node_name: &str, score| {
            [NodeScore { node_name: node_name.to_owned(), score, ..NodeScore::default() }]
        };
        assert_eq!(read(&score("a", 100), &nodes).unwrap()[0].score, 100.0);
        for bad in [score("b", 50), score("a", 101), score("a", -1)] {
            read(&bad, &nodes).unwrap_err();
        }
        read(&[], &nodes).unwrap_err();
    }
}
