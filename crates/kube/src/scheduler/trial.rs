//! A scheduler without a cluster, for benchmarks: nodes that do not exist report once, and
//! questions are answered by the same code, in this process or over HTTP.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::routing::post;
use walras_brain::file::ModelFile;
use walras_core::place::{Mode, Terms};
use walras_core::units::{Bytes, Millicores, Resources};
use walras_rpc::reports::Snapshot;

use super::door::{Door, DoorError};
use super::extender::prioritize;
use super::{Shared, web};

/// A scheduler that knows nodes which do not exist.
#[derive(Debug)]
pub struct Trial {
    shared: Arc<Shared>,
    nodes: usize,
}

/// Somewhere to ask over HTTP, until this is dropped.
#[derive(Debug)]
pub struct TrialDoor(Door);

impl Trial {
    /// A scheduler in active mode that knows `nodes` nodes.
    #[must_use]
    pub fn new(nodes: usize, model: Option<ModelFile>) -> Self {
        let (shared, _) = Shared::new(Mode::Active, Terms::DEFAULT, model, None);
        let trial = Self { shared, nodes };
        let has = Resources::new(Millicores::new(8000), Bytes::new(32 << 30));
        for place in 0..nodes {
            trial.shared.store.node_seen(&name(place), has);
        }
        trial.report();
        trial
    }

    /// Every node reports, and the table is swapped.
    pub fn report(&self) {
        let now_ms = self.shared.now_ms();
        for place in 0..self.nodes {
            let busy = f64::from(u32::try_from(place % 97).unwrap_or(0)) / 97.0;
            self.shared.store.reported(&Snapshot {
                node_name: name(place),
                taken_unix_ms: now_ms,
                cpu_utilization: Some(busy),
                memory_utilization: Some(1.0 - busy),
                disk_iops: Some(busy * 1000.0),
                zone: format!("zone-{}", place % 3),
                ..Snapshot::default()
            });
        }
        self.shared.store.publish(now_ms);
    }

    /// A question of kube-scheduler about this many of the nodes.
    #[must_use]
    pub fn question(&self, candidates: usize) -> Vec<u8> {
        let step = (self.nodes / candidates.max(1)).max(1);
        let names: Vec<String> = (0..self.nodes).step_by(step).take(candidates).map(name).collect();
        let question = serde_json::json!({
            "Pod": {
                "metadata": { "name": "web", "namespace": "shop", "uid": "trial", "labels": null },
                "spec": { "containers": [{ "name": "web", "image": "registry.invalid/web:1",
                    "resources": { "requests": { "cpu": "500m", "memory": "256Mi" } } }] },
                "status": {},
            },
            "Nodes": null,
            "NodeNames": names,
        });
        question.to_string().into_bytes()
    }

    /// Answers a question in this process, as the server does.
    ///
    /// # Panics
    /// It cannot be read.
    #[must_use]
    pub async fn answer(&self, question: &[u8]) -> Vec<u8> {
        let (table, now_ms) = (self.shared.store.table(), self.shared.now_ms());
        let answered = prioritize(&self.shared.judge, &table, self.shared.mode, question, now_ms);
        let answered = answered.await.expect("the question is our own");
        if let Some(placement) = answered.remembered {
            self.shared.memory.scored(placement);
        }
        answered.body
    }

    /// Serves it on the loopback interface.
    ///
    /// # Errors
    /// That cannot be done.
    pub fn serve(&self) -> Result<TrialDoor, DoorError> {
        open(web::extender(Arc::clone(&self.shared)))
    }

    /// Serves a handler that reads a question and answers with nothing, to compare with.
    ///
    /// # Errors
    /// That cannot be done.
    pub fn serve_nothing() -> Result<TrialDoor, DoorError> {
        open(Router::new().route("/prioritize", post(|_: axum::body::Bytes| async { "[]" })))
    }
}

// === impl TrialDoor ===

impl TrialDoor {
    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.0.address()
    }
}

fn open(routes: Router) -> Result<TrialDoor, DoorError> {
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Door::open(anywhere, None, routes).map(TrialDoor)
}

fn name(place: usize) -> String {
    format!("node-{place:05}.example")
}
