//! How the API server is reached.
//!
//! Inside a pod with its service account, elsewhere with a kubeconfig. Every call ends in time:
//! connecting and reading are bounded, also for watches, which the API server keeps alive.

use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// How long it may take to connect.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may take. A watch without news is kept alive by the API server, which ends
/// it within [`WATCH_S`].
const READ: Duration = Duration::from_secs(295);
/// How long one watch lasts at most, in seconds.
pub const WATCH_S: u32 = 290;

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

/// An error in the words that a person needs: of an answer, what the API server says, and not
/// all of its fields.
#[must_use]
pub fn words(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return format!("{} ({})", status.message, status.code);
    }
    error.to_string()
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
    // Whoever asks knows best when to ask again, and tells the user meanwhile.
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}
