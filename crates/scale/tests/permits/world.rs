//! A server of permits on a port of its own, and raw requests to it.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use walras_core::permit::{PerResource, Terms, VmTerms};
use walras_core::units::{Bytes, ComputeUnit, Millicores, Ratio, Resources, VmName};
use walras_scale::http::{self, Answered, Client, Limits, Question, Server};
use walras_scale::permits::Permits;
use walras_scale::permits::keep::{Keep, Nowhere};
use walras_scale::permits::serve::Served;
use walras_scale::seal::Seal;
use walras_wire::vm::auth::Key;

pub(crate) const GIB: Bytes = Bytes::new(1 << 30);
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A node of four CPUs and 16 GiB, with machines `default/a` to `default/d` of up to 2 CPUs.
pub(crate) struct World {
    pub(crate) permits: Arc<Permits>,
    pub(crate) server: Server,
}

pub(crate) fn units(count: u64) -> Resources {
    unit().times(count)
}

fn unit() -> ComputeUnit {
    ComputeUnit::new(Resources::new(Millicores::new(250), GIB)).expect("neither is zero")
}

pub(crate) fn terms() -> Terms {
    Terms {
        capacity: units(16),
        overcommit: PerResource::both(Ratio::ONE),
        watermark: PerResource::both(Ratio::ONE),
        system: Resources::ZERO,
        unit: unit(),
        moves_at_once: 0,
    }
}

pub(crate) fn vm_terms(most: u64) -> VmTerms {
    VmTerms { max: units(most), scales: true, may_move: false }
}

pub(crate) fn vm(name: &str) -> VmName {
    VmName::new(&format!("default/{name}"))
}

pub(crate) fn seal() -> Seal {
    Seal::new(Key::parse("ab".repeat(32).as_bytes()).expect("a key"))
}

pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

impl World {
    pub(crate) async fn start(seal: Option<Seal>) -> Self {
        let world = Self::empty(seal, Box::new(Nowhere)).await;
        for name in ["a", "b", "c", "d"] {
            world.permits.vm_started("node", &vm(name), vm_terms(8), units(1));
        }
        world
    }

    pub(crate) async fn empty(seal: Option<Seal>, keep: Box<dyn Keep>) -> Self {
        let permits = Arc::new(Permits::new(keep).expect("nothing was kept"));
        permits.node_is("node", terms());
        let served = Served::new(Arc::clone(&permits), GIB, seal).expect("randomness");
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = http::start(anywhere, Limits::PERMITS, Arc::new(served)).await;
        Self { permits, server: server.expect("a port") }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.server.address())
    }

    /// Asks in plain text.
    pub(crate) async fn ask(&self, body: &str) -> Answered {
        let question = plain(body);
        self.client().ask(&question, PATIENCE).await.expect("an answer")
    }
}

pub(crate) fn plain(body: &str) -> Question {
    let body = body.as_bytes().to_vec();
    Question { method: "POST", path: "/".to_owned(), headers: Vec::new(), body }
}

/// A question of a version for so many units.
pub(crate) fn question(version: u32, name: &str, wanted: u64, last: Option<u64>) -> String {
    let slots = |count: u64| format!("{{\"vCPUs\":\"{}m\",\"mem\":{count}}}", count * 250);
    let last = last.map_or(String::new(), |last| format!("\"lastPermit\":{},", slots(last)));
    format!(
        "{{\"protoVersion\":{version},\"pod\":{{\"namespace\":\"default\",\"name\":\"{name}\"}},\
         \"resources\":{},{last}\"metrics\":null}}",
        slots(wanted)
    )
}
