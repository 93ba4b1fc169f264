//! The command line of what runs workloads on a host, and of its API; the rest of it is in `cli`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::HostArgs;
use crate::control_cli::ControlArgs;
use crate::run_help::{
    ACTIONS_HELP, APPLY_HELP, CERTS_HELP, DELETE_HELP, DRAIN_HELP, EXEC_HELP, HEALTH_HELP,
    LIST_HELP, LOGS_HELP, SNAPSHOT_HELP, STATUS_HELP,
};
use crate::sizing_cli::SizingArgs;

/// Where the API is found on its own machine.
const SOCKET: &str = "/run/walras/run.sock";

/// How to run on this machine, and whether to run workloads as well.
#[derive(Debug, Args)]
pub(crate) struct HostCommand {
    #[command(flatten)]
    pub(crate) host: HostArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
    #[command(flatten)]
    pub(crate) sizing: SizingArgs,
}

/// Whether to run workloads, and for whom.
#[derive(Debug, Args)]
#[command(next_help_heading = "Running workloads")]
pub(crate) struct RunArgs {
    /// Run workloads, and serve their API here with certificates; the usual port is 50051
    #[arg(long, value_name = "ADDRESS", env = "WALRAS_RUN_LISTEN")]
    pub(crate) run_listen: Option<SocketAddr>,
    /// The folder with ca.pem, cert.pem, key.pem and clients; see `walras certs`
    #[arg(long, value_name = "DIR", env = "WALRAS_RUN_TLS", requires = "run_listen")]
    pub(crate) run_tls: Option<PathBuf>,
    /// Serve --run-listen without certificates, which is possible on the loopback interface only
    #[arg(long, conflicts_with = "run_tls", requires = "run_listen")]
    pub(crate) run_plain: bool,
    /// Run workloads, and serve their API on this socket, for its owner
    #[arg(long, value_name = "PATH", env = "WALRAS_RUN_SOCKET")]
    pub(crate) run_socket: Option<PathBuf>,
    /// Docker's socket
    #[arg(
        long,
        value_name = "PATH",
        default_value = "/var/run/docker.sock",
        env = "WALRAS_RUN_DOCKER"
    )]
    pub(crate) run_docker: PathBuf,
    /// A file with credentials of private registries, as `docker login` writes it; mode 600
    #[arg(long, value_name = "FILE", env = "WALRAS_RUN_REGISTRY_AUTH")]
    pub(crate) run_registry_auth: Option<PathBuf>,
    /// A folder on a tmpfs for secrets that workloads want as files
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/run/walras/secrets",
        env = "WALRAS_RUN_SECRETS_DIR"
    )]
    pub(crate) run_secrets_dir: PathBuf,
    /// Docker's compose plugin, where it is not at its usual place
    #[arg(long, value_name = "PROGRAM", env = "WALRAS_RUN_COMPOSE")]
    pub(crate) run_compose: Option<PathBuf>,
    /// QEMU, where it is not at its usual place; without it no virtual machines are run
    #[arg(long, value_name = "PROGRAM", env = "WALRAS_RUN_QEMU")]
    pub(crate) run_qemu: Option<PathBuf>,
    /// libvirt, where it is not this machine's own, such as qemu:///system; asked by `virsh`
    #[arg(long, value_name = "URI", env = "WALRAS_RUN_LIBVIRT")]
    pub(crate) run_libvirt: Option<String>,
    /// Let compose files have privileges, devices, namespaces and folders of the host
    #[arg(long, env = "WALRAS_RUN_COMPOSE_HOST_ACCESS")]
    pub(crate) run_compose_host_access: bool,
    /// Remove images that no container used and no workload named for so many hours; never, if it
    /// is not said
    #[arg(long, value_name = "HOURS", env = "WALRAS_RUN_IMAGE_GC_HOURS",
          value_parser = clap::value_parser!(u64).range(1..=8760))]
    pub(crate) run_image_gc_hours: Option<u64>,
    /// The folder in which wanted workloads are kept
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/lib/walras",
        env = "WALRAS_RUN_STATE_DIR"
    )]
    pub(crate) run_state_dir: PathBuf,
    /// End at once there, for tests of crashes: before:OP or after:OP
    #[cfg(feature = "real-docker")]
    #[arg(long, hide = true)]
    pub(crate) run_fault: Option<walras_run::FaultPoint>,
}

/// What to show of running workloads.
#[derive(Debug, Args)]
#[command(next_help_heading = "Running workloads")]
pub(crate) struct DemoRunArgs {
    /// Run a container, a compose project and a virtual machine instead, as far as this machine has
    /// what they need
    #[arg(long, conflicts_with_all = ["simulate", "json"])]
    pub(crate) run: bool,
    /// Docker's socket
    #[arg(long, value_name = "PATH", default_value = "/var/run/docker.sock", requires = "run")]
    pub(crate) docker: PathBuf,
    /// The image of the containers, with a shell in it
    #[arg(long, value_name = "IMAGE", default_value = "busybox:1.36", requires = "run")]
    pub(crate) image: String,
    /// Docker's compose plugin, where it is not at its usual place
    #[arg(long, value_name = "PROGRAM", requires = "run")]
    pub(crate) compose: Option<PathBuf>,
    /// QEMU, where it is not at its usual place
    #[arg(long, value_name = "PROGRAM", requires = "run")]
    pub(crate) qemu: Option<PathBuf>,
    /// The kernel of the machine; this machine's own where it is not said
    #[arg(long, value_name = "FILE", requires = "run")]
    pub(crate) kernel: Option<PathBuf>,
    /// Its first file system
    #[arg(long, value_name = "FILE", requires = "run")]
    pub(crate) initrd: Option<PathBuf>,
}

/// What to ask of a host that runs workloads.
#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// Make workloads of a host what a file says
    #[command(after_help = APPLY_HELP)]
    Apply(ApplyArgs),
    /// Stop and remove workloads of a host; their named volumes stay
    #[command(after_help = DELETE_HELP)]
    Delete(DeleteArgs),
    /// Say how workloads of a host are, as its runtime has it now
    #[command(after_help = STATUS_HELP)]
    Status(StatusArgs),
    /// List the workloads of a host
    #[command(after_help = LIST_HELP)]
    List(ListArgs),
    /// List what a host did lately, and how it ended
    #[command(after_help = ACTIONS_HELP)]
    Actions(ActionsArgs),
    /// Show what a workload of a host wrote, and follow it
    #[command(after_help = LOGS_HELP)]
    Logs(LogsArgs),
    /// Run a command in a workload of a host
    #[command(after_help = EXEC_HELP)]
    Exec(ExecArgs),
    /// Keep the disks of a machine as they are, go back to that, or list what is kept
    #[command(after_help = SNAPSHOT_HELP)]
    Snapshot(SnapshotArgs),
    /// Say whether a host that runs workloads is well
    #[command(after_help = HEALTH_HELP)]
    Health(ListArgs),
    /// Stop all workloads of a host and take no new ones, or end that
    #[command(after_help = DRAIN_HELP)]
    Drain(DrainArgs),
    /// Make certificates for hosts and for who asks them
    #[command(after_help = CERTS_HELP, subcommand_required = true, arg_required_else_help = true)]
    Certs(CertsArgs),
}

/// Which host to ask.
#[derive(Clone, Debug, Args)]
pub(crate) struct HostChoice {
    /// The host, such as web1.example:50051; the socket of this machine where it is not said
    #[arg(long, value_name = "NAME:PORT", env = "WALRAS_RUN_ADDRESS")]
    pub(crate) address: Option<String>,
    /// The folder with your ca.pem, cert.pem and key.pem
    #[arg(long, value_name = "DIR", env = "WALRAS_RUN_TLS")]
    pub(crate) tls: Option<PathBuf>,
    /// Ask --address without certificates
    #[arg(long, conflicts_with = "tls", requires = "address")]
    pub(crate) plain: bool,
    /// The socket of the host on this machine
    #[arg(long, value_name = "PATH", default_value = SOCKET, env = "WALRAS_RUN_SOCKET",
          conflicts_with = "address")]
    pub(crate) socket: PathBuf,
}

/// What to apply.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// A file with workloads, as YAML or JSON; - is standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Check everything, say what would be done, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Wait until every workload is what was wanted, or failed
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) wait: bool,
    /// How long to wait
    #[arg(long, value_name = "SECONDS", default_value_t = 300,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
    /// Print JSON for programs, not a table for people
    #[arg(long)]
    pub(crate) json: bool,
    /// A file with hosts, one NAME:PORT a line: all of them get it, with the certificates of --tls
    #[arg(long, value_name = "FILE", conflicts_with_all = ["address", "socket", "plain"],
          requires = "tls")]
    pub(crate) hosts: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) host: HostChoice,
}

/// What to delete.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// The ids of the workloads
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Wait until they are gone
    #[arg(long)]
    pub(crate) wait: bool,
    /// How long to wait
    #[arg(long, value_name = "SECONDS", default_value_t = 300,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) host: HostChoice,
}

/// Whose status.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The ids of the workloads
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<String>,
    /// Print JSON for programs, not sentences for people
    #[arg(long)]
    pub(crate) json: bool,
    /// Go on, and print whenever something changes
    #[arg(short, long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) host: HostChoice,
}

/// Whose lines.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The id of the workload
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Go on with what it writes from now on
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Begin with so many of the last lines
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) tail: u32,
    /// Of a compose project, this service only
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    #[command(flatten)]
    pub(crate) host: HostChoice,
}

/// What to run where.
#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// The id of the workload
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Hand standard input to the command
    #[arg(short, long)]
    pub(crate) interactive: bool,
    /// Of a compose project, the service to run it in
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    #[command(flatten)]
    pub(crate) host: HostChoice,
    /// The command, after --
    #[arg(value_name = "COMMAND", required = true, last = true)]
    pub(crate) command: Vec<String>,
}

/// What to do with snapshots of which machine.
#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    /// The id of the workload
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Keep its disks as they are now under this name
    #[arg(long, value_name = "NAME", group = "wish")]
    pub(crate) take: Option<String>,
    /// Make its disks what they were; the machine must be stopped
    #[arg(long, value_name = "NAME", group = "wish")]
    pub(crate) revert: Option<String>,
    /// Forget this one
    #[arg(long, value_name = "NAME", group = "wish")]
    pub(crate) drop: Option<String>,
    /// Print JSON for programs, not a table for people
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) host: HostChoice,
}

/// Which host.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print JSON for programs, not a table for people
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) host: HostChoice,
}

/// Which actions.
#[derive(Debug, Args)]
pub(crate) struct ActionsArgs {
    /// Of this workload only
    #[arg(value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Only those that failed
    #[arg(long)]
    pub(crate) failed: bool,
    /// The newest so many
    #[arg(long, value_name = "N", default_value_t = 50,
          value_parser = clap::value_parser!(i32).range(1..=1000))]
    pub(crate) limit: i32,
    /// Print JSON for programs, not a table for people
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) host: HostChoice,
}

/// Whether to drain.
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// End it: start what should run, and take new workloads again
    #[arg(long)]
    pub(crate) undo: bool,
    #[command(flatten)]
    pub(crate) host: HostChoice,
}

/// Which certificates.
#[derive(Debug, Args)]
pub(crate) struct CertsArgs {
    #[command(subcommand)]
    pub(crate) command: CertsCommand,
}

/// What to do with certificates.
#[derive(Debug, Subcommand)]
pub(crate) enum CertsCommand {
    /// Make an authority: ca.pem, which everybody gets, and ca-key.pem, which nobody else may have
    Init {
        /// The folder of the authority; made where it is missing
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
    },
    /// Make a certificate in a folder DIR/NAME that its owner can use as it is
    Issue {
        /// The folder of the authority
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
        /// Whose it is: the name by which a host is reached, or the name of who asks
        #[arg(long, value_name = "NAME")]
        name: String,
        /// What it may be used for
        #[arg(long = "use", value_enum)]
        usage: UseChoice,
        /// Another name of the host
        #[arg(long, value_name = "NAME")]
        dns: Vec<String>,
        /// An address of the host
        #[arg(long, value_name = "ADDRESS")]
        ip: Vec<IpAddr>,
        /// How long it is valid
        #[arg(long, value_name = "N", default_value_t = 365,
              value_parser = clap::value_parser!(u32).range(1..=3650))]
        days: u32,
    },
}

/// What a certificate is for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum UseChoice {
    /// A host that serves the API
    Server,
    /// Who asks
    Client,
}
