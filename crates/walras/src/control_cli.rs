//! The command line of whom `walras host` tells of itself; the rest of it is in `run_cli`.

use std::path::PathBuf;

use clap::Args;

/// A control plane that wants to be told.
#[derive(Debug, Args)]
#[command(next_help_heading = "Telling a control plane")]
pub(crate) struct ControlArgs {
    /// Tell the control plane here that this host is there and how its workloads are
    #[arg(long, value_name = "NAME:PORT", env = "WALRAS_RUN_CONTROL")]
    pub(crate) run_control: Option<String>,
    /// The folder with the ca.pem of the control plane, and this host's cert.pem and key.pem for
    /// clients
    #[arg(long, value_name = "DIR", env = "WALRAS_RUN_CONTROL_TLS", requires = "run_control")]
    pub(crate) run_control_tls: Option<PathBuf>,
    /// Tell it without certificates, which is possible on the loopback interface only
    #[arg(long, conflicts_with = "run_control_tls", requires = "run_control")]
    pub(crate) run_control_plain: bool,
    /// The name of this host for the control plane; its host name and the begin of its machine id
    /// where it is not said
    #[arg(long, value_name = "NAME", env = "WALRAS_RUN_NODE_ID", requires = "run_control")]
    pub(crate) run_node_id: Option<String>,
    /// Where the control plane reaches this host; --run-listen where it is not said
    #[arg(long, value_name = "NAME:PORT", env = "WALRAS_RUN_ENDPOINT", requires = "run_control")]
    pub(crate) run_endpoint: Option<String>,
    /// The cluster that this host belongs to
    #[arg(long, value_name = "NAME", default_value = "", env = "WALRAS_RUN_CLUSTER")]
    pub(crate) run_cluster: String,
    /// A label of this host for the control plane; may be said several times
    #[arg(long, value_name = "KEY=VALUE", requires = "run_control")]
    pub(crate) run_label: Vec<String>,
}
