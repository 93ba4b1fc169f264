//! `walras controller`: turns flags into what the controller is asked for, and runs it.

use walras_kube::controller::{self, Options};
use walras_node::log;

use crate::cluster::ControllerArgs;
use crate::failure::Failure;

/// Runs the controller until it is told to stop.
pub(crate) fn run(args: ControllerArgs) -> Result<(), Failure> {
    log::start(args.log_level.into(), args.log_format.into());
    let options = Options {
        // An empty variable is as good as none.
        kubeconfig: args.kubeconfig.filter(|path| !path.as_os_str().is_empty()),
        namespace: args.namespace,
        listen: args.listen,
        probe_listen: args.probe_listen,
        dry_run: args.dry_run,
        elect: !args.no_leader_election,
    };
    controller::run(&options).map_err(|error| Failure::Machine(error.to_string()))
}
