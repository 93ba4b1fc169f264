//! The command line of how `walras host` sizes virtual machines; the rest of it is in `run_cli`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// How virtual machines are sized.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sizing virtual machines")]
pub(crate) struct SizingArgs {
    /// Serve permits here, to who has --vm-key, or without one on the loopback interface; the usual
    /// port is 10299
    #[arg(long, value_name = "ADDRESS", env = "WALRAS_VM_PERMITS")]
    pub(crate) vm_permits: Option<SocketAddr>,
    /// Show the state of permits here; the usual port is 10298
    #[arg(long, value_name = "ADDRESS", env = "WALRAS_VM_PERMITS_STATE")]
    pub(crate) vm_permits_state: Option<SocketAddr>,
    /// Show the state of the machines' agents here; the usual port is 10300
    #[arg(long, value_name = "ADDRESS", env = "WALRAS_VM_AGENTS_STATE")]
    pub(crate) vm_agents_state: Option<SocketAddr>,
    /// A file with 64 hexadecimal digits, which who asks for permits has as well
    #[arg(long, value_name = "FILE", env = "WALRAS_VM_KEY")]
    pub(crate) vm_key: Option<PathBuf>,
    /// CPU that machines never get, in thousandths; what others have a right to is counted first
    #[arg(long, value_name = "MILLI", default_value_t = 0, env = "WALRAS_VM_RESERVE_CPU",
          value_parser = clap::value_parser!(u64).range(0..=1_024_000))]
    pub(crate) vm_reserve_cpu: u64,
    /// Memory that machines never get, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 0, env = "WALRAS_VM_RESERVE_MEMORY",
          value_parser = clap::value_parser!(u64).range(0..=1_073_741_824))]
    pub(crate) vm_reserve_memory: u64,
    /// Permit machines so much of what there is
    #[arg(long, value_name = "PERCENT", default_value_t = 100, env = "WALRAS_VM_OVERCOMMIT",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) vm_overcommit: u32,
}
