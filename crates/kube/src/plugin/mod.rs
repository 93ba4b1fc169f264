//! What a person with kubectl asks for: what pods should have, to pause, and to go on.
//!
//! For `kubectl walras`, with the rights of the caller; nothing that runs in a cluster uses
//! this. What a change is made of is decided in [`pause`], from what is there, without any I/O; it
//! is sent with the version it was decided from, so that two people at once cannot undo each other.

pub mod pause;
pub mod preview;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use axum::http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use walras_wire::placement::{PlacementTold, PlacementsTold};
use walras_wire::state::NodeState;

use self::pause::{Change, Outcome};
use crate::client::{self, ConnectError};
use crate::crd::PodAllocation;
use crate::names;
use crate::pod::{Mode, Pod};

/// The field manager of changes that people make.
const MANAGER: &str = "kubectl-walras";
/// Which pods are agents.
const AGENTS: &str = "app.kubernetes.io/name=walras,app.kubernetes.io/component=agent";
/// Which pods are schedulers.
const SCHEDULERS: &str = "app.kubernetes.io/name=walras,app.kubernetes.io/component=scheduler";
/// Where schedulers tell of placements.
const SCHEDULER_PORT: u16 = 8083;
/// Where agents listen.
const AGENT_PORT: u16 = 8082;
/// How long an agent may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many objects are asked for at a time.
const PAGE: u32 = 500;

/// Whom a change is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Every pod that says nothing else, by the ConfigMap in this namespace.
    Everybody(String),
    /// Every pod of a namespace that says nothing else.
    Namespace(String),
    /// One pod.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// What the agent of a node tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The node.
    pub node: String,
    /// How it stands; or why that is not told.
    pub state: Result<NodeState, String>,
}

/// A cluster that a person talks to, one question at a time.
pub struct Session {
    runtime: tokio::runtime::Runtime,
    client: Client,
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// There is no cluster.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Nothing can wait for answers.
    #[error("cannot wait for the API server: {0}")]
    Runtime(#[from] std::io::Error),
    /// What is asked about is not there.
    #[error("{0}")]
    Missing(String),
    /// The API server does not know PodAllocation.
    #[error("the cluster does not know PodAllocation: Walras is not installed there")]
    NotInstalled,
    /// Another client was faster.
    #[error("{0} was changed by another client in this moment; try again")]
    Conflict(String),
    /// The API server refused, or cannot be reached.
    #[error("{what}: {source}")]
    Api {
        /// What was tried.
        what: String,
        /// What came of it.
        source: kube::Error,
    },
}

// === impl Session ===

impl Session {
    /// Finds the cluster of `kubeconfig`, or the one that the environment tells of.
    ///
    /// # Errors
    /// There is none.
    pub fn open(kubeconfig: Option<&Path>) -> Result<Self, PluginError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(client::connect(kubeconfig))?;
        Ok(Self { runtime, client })
    }

    /// The namespace that is meant where none is named.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.client.default_namespace()
    }

    /// The allocations of `namespace`, or of all, by namespace and pod.
    ///
    /// # Errors
    /// The API server does not tell.
    pub fn allocations(&self, namespace: Option<&str>) -> Result<Vec<PodAllocation>, PluginError> {
        let client = self.client.clone();
        let api: Api<PodAllocation> = match namespace {
            Some(namespace) => Api::namespaced(client, namespace),
            None => Api::all(client),
        };
        let mut all = self.runtime.block_on(every(&api))?;
        let key = |one: &PodAllocation| (one.spec.namespace.clone(), one.spec.pod_name.clone());
        all.sort_by_cached_key(key);
        Ok(all)
    }

    /// What the agents tell of their nodes, each by the name of its pod; or why one does not. Only
    /// of the node `node`, if one is named.
    ///
    /// # Errors
    /// The API server does not tell which agents there are.
    pub fn nodes(&self, namespace: &str, node: Option<&str>) -> Result<Vec<Told>, PluginError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let mut which = ListParams::default().labels(AGENTS);
        if let Some(node) = node {
            which = which.fields(&format!("spec.nodeName={node}"));
        }
        self.runtime.block_on(async {
            let listed = api.list(&which).await;
            let listed = listed.map_err(|source| failed("the agents cannot be listed", source))?;
            let mut told = Vec::new();
            for pod in listed {
                let state = self.node(namespace, pod.name()).await;
                told.push(Told { node: pod.spec.node_name.unwrap_or_default(), state });
            }
            Ok(told)
        })
    }

    /// What one agent tells of its node. The API server passes the question on.
    async fn node(&self, namespace: &str, pod: &str) -> Result<NodeState, String> {
        let path =
            format!("/api/v1/namespaces/{namespace}/pods/{pod}:{AGENT_PORT}/proxy/api/v1/state");
        let question = Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
        let answer = tokio::time::timeout(PATIENCE, self.client.request_text(question)).await;
        let answer = answer.map_err(|_| "its agent does not answer in time".to_owned())?;
        let answer = answer.map_err(|error| error.to_string())?;
        serde_json::from_str(&answer).map_err(|error| error.to_string())
    }

    /// How nodes were scored for a pod when it was last placed, by the scheduler that did so.
    ///
    /// # Errors
    /// The API server does not tell which schedulers there are, or none of them remembers the pod.
    pub fn placement(
        &self,
        system: &str,
        namespace: &str,
        pod: &str,
    ) -> Result<PlacementTold, PluginError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), system);
        let which = ListParams::default().labels(SCHEDULERS);
        self.runtime.block_on(async {
            let listed = api.list(&which).await;
            let listed =
                listed.map_err(|source| failed("the schedulers cannot be listed", source))?;
            let mut found: Vec<PlacementTold> = Vec::new();
            let mut why = format!("there is no walras scheduler in {system}");
            for scheduler in listed {
                let path = format!(
                    "/api/v1/namespaces/{system}/pods/{}:{SCHEDULER_PORT}/proxy/api/v1/placements\
                     ?namespace={namespace}&pod={pod}",
                    scheduler.name()
                );
                match self.ask::<PlacementsTold>(path).await {
                    Ok(told) => {
                        why = format!(
                            "no scheduler has scored nodes for {namespace}/{pod} in the last hour"
                        );
                        found.extend(told.placements);
                    }
                    Err(error) => why = format!("{}: {error}", scheduler.name()),
                }
            }
            let newest = found.into_iter().max_by_key(|told| told.at_ms);
            newest.ok_or(PluginError::Missing(why))
        })
    }

    /// What a program in the cluster answers. The API server passes the question on.
    async fn ask<T: DeserializeOwned>(&self, path: String) -> Result<T, String> {
        let question = Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
        let answer = tokio::time::timeout(PATIENCE, self.client.request_text(question)).await;
        let answer = answer.map_err(|_| "it does not answer in time".to_owned())?;
        let answer = answer.map_err(|error| error.to_string())?;
        serde_json::from_str(&answer).map_err(|error| error.to_string())
    }

    /// Sets what may be changed of `target`, and says what became of it.
    ///
    /// # Errors
    /// The target is not there, or the API server refused.
    pub fn change(&self, target: &Target, change: Change) -> Result<Outcome, PluginError> {
        let client = self.client.clone();
        self.runtime.block_on(async {
            match target {
                Target::Everybody(namespace) => {
                    let api: Api<ConfigMap> = Api::namespaced(client, namespace);
                    let found = get(&api, names::CONFIG, target).await?;
                    let said = found.data.as_ref().and_then(|data| data.get("mode"));
                    let outcome = pause::plan(change, said, found.annotations());
                    apply(&api, &found, target, &outcome, pause::of_config).await
                }
                Target::Namespace(name) => {
                    let api: Api<Namespace> = Api::all(client);
                    let found = get(&api, name, target).await?;
                    let said = found.annotations().get(names::MODE);
                    let outcome = pause::plan(change, said, found.annotations());
                    apply(&api, &found, target, &outcome, pause::of_annotations).await
                }
                Target::Pod { namespace, name } => {
                    let api: Api<Pod> = Api::namespaced(client, namespace);
                    let found = get(&api, name, target).await?;
                    let said = found.annotations().get(names::MODE);
                    let outcome = pause::plan(change, said, found.annotations());
                    apply(&api, &found, target, &outcome, pause::of_annotations).await
                }
            }
        })
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("namespace", &self.namespace()).finish_non_exhaustive()
    }
}

/// Every allocation, in pages, so that no answer is too large.
async fn every(api: &Api<PodAllocation>) -> Result<Vec<PodAllocation>, PluginError> {
    let mut all = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = api.list(&params).await.map_err(|source| match status(&source) {
            Some(404) => PluginError::NotInstalled,
            Some(_) | None => failed("the allocations cannot be listed", source),
        })?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => params = params.continue_token(&more),
            None => return Ok(all),
        }
    }
}

async fn get<K>(api: &Api<K>, name: &str, target: &Target) -> Result<K, PluginError>
where
    K: Clone + fmt::Debug + DeserializeOwned,
{
    let found = api.get_opt(name).await;
    let found = found.map_err(|source| failed(&format!("{target} cannot be read"), source))?;
    found.ok_or_else(|| PluginError::Missing(format!("there is no {target}")))
}

async fn apply<K>(
    api: &Api<K>,
    found: &K,
    target: &Target,
    outcome: &Outcome,
    patch: fn(&pause::Edit, &str) -> Value,
) -> Result<Outcome, PluginError>
where
    K: kube::Resource<DynamicType = ()> + Clone + fmt::Debug + DeserializeOwned,
{
    let Outcome::Changed { edit, .. } = outcome else {
        return Ok(outcome.clone());
    };
    let version = found.resource_version().unwrap_or_default();
    let patch = Patch::Merge(patch(edit, &version));
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..Default::default() };
    let sent = api.patch(&found.name_any(), &params, &patch).await;
    sent.map_err(|source| match status(&source) {
        Some(409) => PluginError::Conflict(target.to_string()),
        Some(_) | None => failed(&format!("{target} cannot be changed"), source),
    })?;
    Ok(outcome.clone())
}

fn failed(what: &str, source: kube::Error) -> PluginError {
    PluginError::Api { what: what.to_owned(), source }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the enum is not ours, and only this matters")]
fn status(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

// === impl Target ===

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everybody(namespace) => write!(f, "ConfigMap {namespace}/{}", names::CONFIG),
            Self::Namespace(name) => write!(f, "namespace {name}"),
            Self::Pod { namespace, name } => write!(f, "pod {namespace}/{name}"),
        }
    }
}

impl Target {
    /// Which mode counts where the target itself says none, in words.
    #[must_use]
    pub fn otherwise(&self) -> String {
        match self {
            Self::Everybody(_) => Mode::default().to_string(),
            Self::Namespace(_) => "what holds for everybody".to_owned(),
            Self::Pod { .. } => "what holds for its namespace".to_owned(),
        }
    }
}
