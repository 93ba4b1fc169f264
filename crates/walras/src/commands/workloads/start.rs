//! What `walras host` needs to run workloads beside its loop.

use walras_rpc::{Listen, TlsFolder};
use walras_run::{Options, Running};

use crate::cli::VERSION;
use crate::failure::Failure;
use crate::run_cli::RunArgs;

/// Starts to run workloads, if that was asked for.
pub(crate) fn start(args: &RunArgs) -> Result<Option<Running>, Failure> {
    let mut listen = Vec::new();
    match (args.run_listen, &args.run_tls) {
        (Some(address), Some(tls)) => {
            listen.push(Listen::Tls { address, folder: TlsFolder::new(tls) });
        }
        (Some(address), None) if args.run_plain => listen.push(Listen::Plain { address }),
        (Some(_), None) => {
            let words = "--run-listen: say --run-tls DIR with the certificates of this host";
            return Err(Failure::Input(words.to_owned()));
        }
        (None, _) => {}
    }
    listen.extend(args.run_socket.clone().map(|path| Listen::Unix { path }));
    if listen.is_empty() {
        return Ok(None);
    }
    let options = Options {
        listen,
        state_dir: args.run_state_dir.clone(),
        docker: args.run_docker.clone(),
        version: VERSION.to_owned(),
        #[cfg(feature = "real-docker")]
        fault: args.run_fault,
        #[cfg(not(feature = "real-docker"))]
        fault: None,
    };
    let running = walras_run::start(&options);
    running.map(Some).map_err(|error| Failure::Machine(error.to_string()))
}
