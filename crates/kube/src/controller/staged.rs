//! A controller without a cluster, for the test of its page: what its watches would have seen is
//! told to it, it decides and puts its words into the store as ever, and makes no call.
//!
//! Only there with the feature `browser`.

use std::net::SocketAddr;
use std::sync::Arc;

use walras_core::lease::LeaseSeen;
use walras_core::units::{Moment, Span};
use walras_node::serve::{self, ServeError, Server};

use super::decide::{Decision, Situation, decide};
use super::facts::{AllocationFacts, Key, PodFacts};
use super::leader::{Leadership, lock};
use super::store::Kind;
use super::{Options, Shared, status, web};
use crate::crd::PodAllocation;
use crate::pod::Pod;

/// No test takes longer.
const LONG: Span = Span::from_s(3600);

/// A controller whose cluster is told to it.
#[derive(Debug)]
pub struct Staged {
    shared: Arc<Shared>,
}

// === impl Staged ===

impl Staged {
    /// A controller that knows nothing yet.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self { shared: Arc::new(Shared::new(options)) }
    }

    /// Its name in the lease.
    #[must_use]
    pub fn me(&self) -> &str {
        &self.shared.me
    }

    /// It took the lease, and keeps it.
    pub fn lease_taken(&self) {
        if let Leadership::Elected(elector) = &self.shared.leadership {
            lock(elector).lease_written(lease(self.me()), self.shared.clock.now() + LONG);
        }
    }

    /// It saw that another one holds the lease.
    pub fn lease_held_by(&self, holder: &str) {
        if let Leadership::Elected(elector) = &self.shared.leadership {
            lock(elector).lease_seen(Some(lease(holder)), self.shared.clock.now());
        }
    }

    /// The settings say this.
    pub fn settings_seen(&self, data: &[(&str, &str)]) {
        let data = data.iter().map(|(key, value)| (String::from(*key), String::from(*value)));
        self.shared.store.settings_seen(&data.collect(), "");
    }

    /// There is this pod.
    pub fn pod_seen(&self, pod: &Pod) {
        let facts = PodFacts::of(pod);
        self.shared.store.pod_seen(&Key::of(&pod.metadata), facts);
    }

    /// There is this allocation.
    pub fn allocation_seen(&self, object: PodAllocation) {
        let key = Key::of(&object.metadata);
        self.shared.store.allocation_seen(&key, &AllocationFacts::of(object));
    }

    /// Everything that there is has been told.
    pub fn all_listed(&self) {
        let store = &self.shared.store;
        store.server_asked(true);
        let present = store.allocations(None).into_iter().collect();
        store.listed(Kind::Allocations, &present);
        for kind in [Kind::Pods, Kind::Namespaces, Kind::Settings, Kind::Horizontal, Kind::Vertical]
        {
            store.listed(kind, &present);
        }
    }

    /// Looks at every allocation, and writes down what is to be told of it. Where the answer would
    /// be a resize, nothing happens.
    pub fn look_at_all(&self) {
        let store = &self.shared.store;
        for key in store.allocations(None) {
            let Some(gathered) = store.gather(&key) else { continue };
            let now = self.shared.clock.now();
            let situation = Situation {
                key: &key,
                allocation: &gathered.allocation,
                pod: gathered.pod.as_deref(),
                autoscaler: gathered.autoscaler.as_ref(),
                siblings: gathered.siblings,
                namespace_mode: gathered.namespace_mode.as_deref(),
                own_namespace: &self.shared.namespace,
                can_resize: true,
                settings: &gathered.settings,
                memory: &gathered.memory,
                acts_since: Moment::ORIGIN,
                now,
            };
            if let Decision::Tell(told) = decide(&situation) {
                let (allocation, pod) = (&gathered.allocation, gathered.pod.as_deref());
                let status = status::status(allocation, pod, &told, now);
                let told = AllocationFacts { status, ..allocation.as_ref().clone() };
                store.allocation_seen(&key, &told);
            }
        }
    }

    /// Serves what a controller serves.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn serve(&self, listen: SocketAddr) -> Result<Server, ServeError> {
        serve::start_routes(web::routes(Arc::clone(&self.shared)), listen, &[])
    }
}

fn lease(holder: &str) -> LeaseSeen {
    LeaseSeen { holder: Some(holder.to_owned()), version: "1".to_owned(), lasts: LONG }
}
