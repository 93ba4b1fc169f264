//! How the API server is reached.
//!
//! Inside a pod with its service account, elsewhere with a kubeconfig. Every call ends in time:
//! connecting and reading are bounded, also for watches, which the API server keeps alive.

use std::error::Error as _;
use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::runtime::watcher;
use kube::{Client, Config};

use crate::names::fnv;

/// The client library's modules that warn of every failed try, with all fields of the answer. We
/// say the same once, in words.
pub const TOLD_BY_CALLER: [&str; 1] = ["kube_runtime::watcher"];

/// How long it may take to connect.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may take. A watch without news is kept alive by the API server, which ends
/// it within [`WATCH_S`].
const READ: Duration = Duration::from_secs(295);
/// How long one watch lasts at most, in seconds.
pub const WATCH_S: u32 = 290;

/// How the agent of `node` watches what its node has of a kind: few objects, all in one answer,
/// which the API server has at hand; a list in pages would go through those of the whole cluster. A
/// watch lasts for another time on each node, so that agents that began together do not go on
/// together.
#[must_use]
pub fn short_list(node: &str) -> watcher::Config {
    let sooner = u32::try_from(fnv(node.as_bytes()) % u64::from(WATCH_S / 3)).unwrap_or(0);
    watcher::Config { page_size: None, ..watcher::Config::default().timeout(WATCH_S - sooner) }
}

/// Why the API server cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A kubeconfig was named and is not usable.
    #[error("the kubeconfig cannot be used: {0}")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// There is neither a service account nor a kubeconfig.
    #[error(
        "no cluster: this is not a pod with a service account, and there is no kubeconfig; name \
         one with --kubeconfig or $KUBECONFIG ({0})"
    )]
    Nowhere(#[from] kube::config::InferConfigError),
    /// The client could not be made.
    #[error("the client for the API server cannot be made: {0}")]
    Client(#[from] kube::Error),
}

/// An error in the words that a person needs: of an answer, what the API server says, and not all
/// of its fields; of anything else, all that led to it.
#[must_use]
pub fn words(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return answer(status);
    }
    let mut told = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        let text = deeper.to_string();
        // Some repeat what they were caused by, and some do not.
        if !told.contains(&text) {
            told = format!("{told}: {text}");
        }
        cause = deeper.source();
    }
    told
}

/// The same for an error of a watch.
#[must_use]
pub fn watch_words(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => words(error),
        watcher::Error::WatchError(status) => answer(status),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

fn answer(status: &Status) -> String {
    format!("{} ({})", status.message, status.code)
}

/// A client for the cluster of `kubeconfig`, or the one this process runs in or is told of.
///
/// # Errors
/// There is no cluster to be found. Whether it answers is not tried.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    let mut config = match kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path)?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
        }
        None => Config::infer().await?,
    };
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(READ);
    config.write_timeout = Some(CONNECT);
    // The caller knows best when to ask again, and tells the user meanwhile.
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn watches_of_many_nodes_end_at_many_times_and_their_lists_are_not_cut() {
        let ends = (0..200).map(|node| short_list(&format!("node-{node}")).timeout.unwrap());
        let ends: std::collections::BTreeSet<u32> = ends.collect();
        assert!(ends.len() > 50, "{ends:?}");
        assert!(ends.iter().all(|end| (WATCH_S * 2 / 3..=WATCH_S).contains(end)), "{ends:?}");
        assert_eq!(short_list("node-1").page_size, None);
    }

    fn forbidden() -> Box<Status> {
        let text = r#"{"status": "Failure", "message": "pods is forbidden", "reason": "Forbidden",
            "code": 403, "metadata": {}, "details": {"kind": "pods"}}"#;
        Box::new(serde_json::from_str(text).unwrap())
    }

    #[test]
    fn of_an_answer_only_what_the_api_server_says_is_told() {
        let error = || kube::Error::Api(forbidden());
        assert_eq!(words(&error()), "pods is forbidden (403)");
        for error in [
            watcher::Error::InitialListFailed(error()),
            watcher::Error::WatchStartFailed(error()),
            watcher::Error::WatchFailed(error()),
            watcher::Error::WatchError(forbidden()),
        ] {
            assert_eq!(watch_words(&error), "pods is forbidden (403)", "{error:?}");
        }
    }

    /// An error that does not say what it was caused by.
    #[derive(Debug, thiserror::Error)]
    #[error("client error (Connect)")]
    struct Connect(#[source] io::Error);

    #[test]
    fn why_nobody_answers_is_told_to_the_bottom_and_nothing_twice() {
        let refused = io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused");
        let error = kube::Error::Service(Box::new(Connect(refused)));
        let told = "ServiceError: client error (Connect): connection refused";
        assert_eq!(words(&error), told);
        assert_eq!(watch_words(&watcher::Error::WatchStartFailed(error)), told);
    }
}
