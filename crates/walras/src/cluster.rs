//! The command line of what runs for a Kubernetes cluster; the rest of it is in `cli`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::cli::{FormatChoice, LevelChoice};

/// How to run for a cluster.
#[derive(Debug, Args)]
pub(crate) struct ControllerArgs {
    /// The kubeconfig; not needed in a pod with a service account
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The namespace of its settings and its lease
    #[arg(long, value_name = "NAME", default_value = walras_kube::names::NAMESPACE,
          env = "WALRAS_NAMESPACE")]
    pub(crate) namespace: String,
    /// Where to serve health and metrics
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8080",
        env = "WALRAS_CONTROLLER_LISTEN"
    )]
    pub(crate) listen: SocketAddr,
    /// Where to answer probes (/healthz, /readyz) as well, so that nobody who fills the other
    /// address with connections makes this look dead
    #[arg(long, value_name = "ADDRESS", env = "WALRAS_CONTROLLER_PROBE_LISTEN")]
    pub(crate) probe_listen: Option<SocketAddr>,
    /// Change nothing: only log what would be resized
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Act at once, without asking whether another controller does
    #[arg(long)]
    pub(crate) no_leader_election: bool,
    /// The least urgent messages that are logged
    #[arg(long, value_enum, default_value = "info", env = "WALRAS_LOG_LEVEL")]
    pub(crate) log_level: LevelChoice,
    /// Whether messages are lines for people or JSON for programs
    #[arg(long, value_enum, default_value = "text", env = "WALRAS_LOG_FORMAT")]
    pub(crate) log_format: FormatChoice,
}
