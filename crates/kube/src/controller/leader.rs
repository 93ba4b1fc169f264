//! Holds the lease that says which controller acts, or watches the one that does.
//!
//! When to read, to take and to renew is decided by `walras_core::lease`; here it is done. Every
//! write carries the version that was seen, so that it fails if another controller was faster.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::time;
use walras_core::lease::{Elector, LeaseSeen, LeaseStep, LeaseTimes};
use walras_core::units::{Moment, Span};

use super::Shared;
use crate::client::words;
use crate::names;

/// A call about the lease that takes longer has failed.
const WITHIN: Duration = Duration::from_secs(4);

/// Why a call about the lease did not succeed.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// Another controller was faster.
    Overtaken,
    /// In words.
    Because(String),
}

/// Whether this controller acts.
#[derive(Debug)]
pub(crate) enum Leadership {
    /// It is the only one.
    Alone(Moment),
    /// One of several.
    Elected(Mutex<Elector>),
}

// === impl Leadership ===

impl Leadership {
    /// One of several, whose name is `me`.
    pub(crate) fn elected(me: String) -> Self {
        Self::Elected(Mutex::new(Elector::new(me, LeaseTimes::DEFAULT)))
    }

    /// Until when it acts, if it does.
    pub(crate) fn acts_until(&self, now: Moment) -> Option<Moment> {
        match self {
            Self::Alone(_) => Some(now + Span::from_s(3600)),
            Self::Elected(elector) => lock(elector).acts_until(now),
        }
    }

    /// The name in the lease, where there is one.
    pub(crate) fn holder(&self, now: Moment) -> Option<String> {
        match self {
            Self::Alone(_) => None,
            Self::Elected(elector) => lock(elector).holder(now).map(str::to_owned),
        }
    }

    /// Since when it acts, if it does.
    pub(crate) fn acts_since(&self, now: Moment) -> Option<Moment> {
        match self {
            Self::Alone(since) => Some(*since),
            Self::Elected(elector) => lock(elector).acts_since(now),
        }
    }
}

pub(super) fn lock(elector: &Mutex<Elector>) -> MutexGuard<'_, Elector> {
    // Its methods leave it whole.
    elector.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes part in the election for as long as the process lasts.
pub(super) async fn campaign(shared: Arc<Shared>, client: Client) {
    let Leadership::Elected(elector) = &shared.leadership else {
        return;
    };
    let api: Api<Lease> = Api::namespaced(client, &shared.namespace);
    let mut last: Option<Lease> = None;
    let mut acted_since = None;
    let mut broken = None;
    loop {
        let now = shared.clock.now();
        let acts_since = lock(elector).acts_since(now);
        // Also after a moment without the lease that was too short to be noticed here.
        if acts_since != acted_since {
            acted_since = acts_since;
            if acts_since.is_some() {
                shared.store.others_acted();
                tracing::info!(me = lock(elector).me(), "this controller acts now");
            } else {
                tracing::warn!("this controller does not act any more");
            }
        }
        if acts_since.is_some() && shared.overlooked.swap(false, Ordering::Relaxed) {
            shared.look_at_all(None);
        }
        let step = lock(elector).next(now);
        let call = if step == LeaseStep::Look { Call::Read } else { Call::Write };
        let done = match step {
            LeaseStep::Wait { until } => {
                // Often enough to notice that time is up.
                let pause = shared.clock.until(until).min(Duration::from_millis(500));
                time::sleep(pause).await;
                continue;
            }
            LeaseStep::Look => look(&api, elector, now, &mut last).await,
            LeaseStep::Acquire { version } => {
                write(&api, elector, last.as_ref(), version, true, now).await.map(|it| last = it)
            }
            LeaseStep::Renew { version } => {
                let written = write(&api, elector, last.as_ref(), Some(version), false, now);
                written.await.map(|it| last = it)
            }
        };
        if done.is_err() {
            lock(elector).lease_failed(shared.clock.now());
        }
        tell(done, call, &mut broken);
    }
}

/// What is done with the lease. The right to write it includes reading it, but not the other way
/// round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    Read,
    Write,
}

/// Says what became of a call, and remembers in `broken` what does not work. Once is enough: the
/// same trouble comes back every few seconds.
fn tell(done: Result<(), Failure>, call: Call, broken: &mut Option<Call>) {
    let lease = names::LEASE;
    match done {
        Ok(()) if broken.is_some_and(|broken| broken <= call) => {
            *broken = None;
            tracing::info!("the lease {lease} can be read and written again");
        }
        Ok(()) => {}
        Err(Failure::Overtaken) => tracing::debug!("another controller wrote the lease {lease}"),
        Err(Failure::Because(because)) => {
            let was_broken = broken.replace(call.max(broken.unwrap_or(call)));
            if was_broken.is_some() {
                tracing::debug!("the lease {lease} cannot be read or written: {because}");
                return;
            }
            tracing::warn!(
                "the lease {lease} cannot be read or written, and without it this controller does \
                 not act; trying again: {because}"
            );
        }
    }
}

/// Gives the lease back, so that another controller need not wait for its end.
pub(super) async fn release(shared: &Shared, client: Client) {
    let Leadership::Elected(elector) = &shared.leadership else {
        return;
    };
    if lock(elector).acts_until(shared.clock.now()).is_none() {
        return;
    }
    let api: Api<Lease> = Api::namespaced(client, &shared.namespace);
    let Ok(Ok(mut lease)) = time::timeout(WITHIN, api.get(names::LEASE)).await else {
        return;
    };
    let spec = lease.spec.get_or_insert_default();
    if spec.holder_identity.as_deref() != Some(lock(elector).me()) {
        return;
    }
    spec.holder_identity = Some(String::new());
    let parameters = parameters();
    let given_back = api.replace(names::LEASE, &parameters, &lease);
    if let Ok(Ok(_)) = time::timeout(WITHIN, given_back).await {
        tracing::info!("the lease is given back");
    }
}

async fn look(
    api: &Api<Lease>,
    elector: &Mutex<Elector>,
    now: Moment,
    last: &mut Option<Lease>,
) -> Result<(), Failure> {
    let found = within(api.get_opt(names::LEASE)).await?;
    lock(elector).lease_seen(found.as_ref().map(seen), now);
    *last = found;
    Ok(())
}

async fn write(
    api: &Api<Lease>,
    elector: &Mutex<Elector>,
    last: Option<&Lease>,
    version: Option<String>,
    anew: bool,
    now: Moment,
) -> Result<Option<Lease>, Failure> {
    let me = lock(elector).me().to_owned();
    let old = last.and_then(|lease| lease.spec.clone()).unwrap_or_default();
    let stamp = Some(MicroTime(Timestamp::now()));
    let lease = Lease {
        metadata: ObjectMeta {
            name: Some(names::LEASE.to_owned()),
            resource_version: version.clone(),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            acquire_time: if anew { stamp.clone() } else { old.acquire_time },
            holder_identity: Some(me),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(
                old.lease_transitions.unwrap_or(0).saturating_add(i32::from(anew)),
            ),
            renew_time: stamp,
            ..LeaseSpec::default()
        }),
    };
    let parameters = parameters();
    let written = match version {
        Some(_) => within(api.replace(names::LEASE, &parameters, &lease)).await?,
        None => within(api.create(&parameters, &lease)).await?,
    };
    lock(elector).lease_written(seen(&written), now);
    Ok(Some(written))
}

fn parameters() -> PostParams {
    PostParams { field_manager: Some(names::CONTROLLER_MANAGER.to_owned()), dry_run: false }
}

async fn within<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    match time::timeout(WITHIN, call).await {
        Ok(answer) => answer.map_err(|error| failure(&error)),
        Err(_) => Err(Failure::Because(format!("no answer within {} s", WITHIN.as_secs()))),
    }
}

fn failure(error: &kube::Error) -> Failure {
    if let kube::Error::Api(status) = error
        && status.code == 409
    {
        return Failure::Overtaken;
    }
    Failure::Because(words(error))
}

fn seen(lease: &Lease) -> LeaseSeen {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|it| u64::try_from(it).ok()).unwrap_or(0);
    LeaseSeen {
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        lasts: Span::from_s(seconds.min(3600)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: &str) -> Failure {
        failure(&kube::Error::Api(Box::new(serde_json::from_str(status).unwrap())))
    }

    #[test]
    fn who_was_slower_is_not_in_trouble_and_trouble_is_told_in_the_words_of_the_api_server() {
        let slower = r#"{"message": "the object has been modified", "code": 409}"#;
        assert_eq!(check(slower), Failure::Overtaken);
        let absent =
            r#"{"message": "namespaces \"walras\" not found", "code": 404, "metadata": {}}"#;
        let told = "namespaces \"walras\" not found (404)";
        assert_eq!(check(absent), Failure::Because(told.to_owned()));
    }
}
