//! Takes in telemetry: finds out which node a token belongs to, and hands snapshots to the store.
//!
//! The API server says whose a token is: of the agents' service account, for our audience, and
//! bound to a node, by itself or by the pod that it was made for. Only that node may be reported.

use std::sync::Arc;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::Semaphore;
use walras_rpc::reports::Snapshot;
use walras_rpc::telemetry::{Collector, Unwelcome};
use walras_rpc::{Code, Refused};

use super::metrics::Metrics;
use super::table::Store;
use crate::client::words;
use crate::names::SCHEDULER_AUDIENCE;

/// Where the API server writes the node that a token is bound to.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// No token is longer.
const TOKEN_MAX: usize = 16 << 10;
/// So many tokens are looked at at once: a cluster whose agents all come back must not flood the
/// API server.
const AT_ONCE: usize = 16;

/// Takes in telemetry.
pub(crate) struct Desk {
    pub(crate) store: Arc<Store>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) client: Client,
    /// The user that agents are, such as `system:serviceaccount:mbcas-system:walras-agent`.
    pub(crate) account: String,
    places: Semaphore,
}

impl Desk {
    /// Takes in telemetry of agents that are `account`.
    pub(crate) fn new(
        store: Arc<Store>,
        metrics: Arc<Metrics>,
        client: Client,
        account: String,
    ) -> Self {
        Self { store, metrics, client, account, places: Semaphore::new(AT_ONCE) }
    }

    async fn review(&self, token: String) -> Result<String, Refused> {
        let unknown = |message: String| Refused { code: Code::Unreachable, message };
        if token.len() > TOKEN_MAX {
            return Err(no(format!("the token has {} bytes, which no token has", token.len())));
        }
        let _place = self.places.acquire().await.map_err(|error| unknown(error.to_string()))?;
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token),
                audiences: Some(vec![SCHEDULER_AUDIENCE.to_owned()]),
            },
            ..TokenReview::default()
        };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(|error| {
            unknown(format!("the API server does not say whose the token is: {}", words(&error)))
        })?;
        node_in(&answer.status.unwrap_or_default(), &self.account)
    }
}

fn no(message: String) -> Refused {
    Refused { code: Code::Forbidden, message }
}

/// The node that a token belongs to, by what the API server says of it.
fn node_in(status: &TokenReviewStatus, account: &str) -> Result<String, Refused> {
    if status.authenticated != Some(true) {
        let why = status.error.as_deref().unwrap_or("the API server does not know it");
        return Err(no(format!("the token is not good: {why}")));
    }
    let ours = status.audiences.iter().flatten().any(|audience| audience == SCHEDULER_AUDIENCE);
    if !ours {
        return Err(no(format!("the token is not for {SCHEDULER_AUDIENCE}")));
    }
    let user = status.user.clone().unwrap_or_default();
    let name = user.username.unwrap_or_default();
    if name != account {
        return Err(no(format!("the token is of {name}, and agents are {account}")));
    }
    let nodes = user.extra.unwrap_or_default().remove(NODE_NAME).unwrap_or_default();
    match nodes.as_slice() {
        [node] if !node.is_empty() => Ok(node.clone()),
        _ => Err(no("the token is not bound to a node".to_owned())),
    }
}

impl Collector for Desk {
    async fn node_of(&self, token: String) -> Result<String, Refused> {
        let node = self.review(token).await;
        if let Err(refused) = &node {
            tracing::warn!("telemetry was refused: {refused}");
        }
        node
    }

    fn reported(&self, snapshot: Snapshot) {
        self.metrics.snapshots.inc();
        self.store.reported(&snapshot);
    }

    fn refused(&self, why: Unwelcome) {
        self.metrics.telemetry_refused(why);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::authentication::v1::UserInfo;

    use super::*;

    const AGENT: &str = "system:serviceaccount:mbcas-system:walras-agent";

    fn good() -> TokenReviewStatus {
        TokenReviewStatus {
            authenticated: Some(true),
            audiences: Some(vec![SCHEDULER_AUDIENCE.to_owned()]),
            user: Some(UserInfo {
                username: Some(AGENT.to_owned()),
                extra: Some(BTreeMap::from([(NODE_NAME.to_owned(), vec!["n1".to_owned()])])),
                ..UserInfo::default()
            }),
            error: None,
        }
    }

    #[test]
    fn a_token_of_an_agent_that_is_bound_to_a_node_speaks_for_it() {
        assert_eq!(node_in(&good(), AGENT), Ok("n1".to_owned()));
    }

    #[test]
    fn every_other_token_is_refused_and_told_why() {
        let refused = |status: &TokenReviewStatus| node_in(status, AGENT).unwrap_err().message;
        let unknown = TokenReviewStatus { authenticated: None, ..good() };
        assert!(refused(&unknown).contains("not good"));
        let elsewhere = TokenReviewStatus { audiences: Some(vec!["api".to_owned()]), ..good() };
        assert!(refused(&elsewhere).contains("not for walras-scheduler"));
        let unsaid = TokenReviewStatus { audiences: None, ..good() };
        assert!(refused(&unsaid).contains("not for"));
        let other = node_in(&good(), "system:serviceaccount:x:y").unwrap_err().message;
        assert!(other.contains("walras-agent") && other.contains("x:y"), "{other}");
        let user = good().user.map(|user| UserInfo { extra: None, ..user });
        let unbound = TokenReviewStatus { user, ..good() };
        assert!(refused(&unbound).contains("not bound to a node"));
    }
}
