//! `walras certs`: makes an authority, and certificates by it.

use std::io::Write as _;

use walras_rpc::certs::{self, CertsError, Use, Wish};

use crate::failure::Failure;
use crate::run_cli::{CertsCommand, UseChoice};
use crate::screen;

/// Makes what was asked for, and says where it is.
pub(super) fn run(command: CertsCommand) -> Result<(), Failure> {
    let mut output = screen::output();
    match command {
        CertsCommand::Init { dir } => {
            certs::init(&dir).map_err(|error| failure(&error))?;
            let dir = dir.display();
            writeln!(output, "{dir} has an authority. Keep {dir}/ca-key.pem to yourself.")?;
        }
        CertsCommand::Issue { dir, name, usage, dns, ip, days } => {
            let usage = match usage {
                UseChoice::Server => Use::Server,
                UseChoice::Client => Use::Client,
            };
            let wish = Wish { name, dns, ips: ip, usage, from_s: 0, days };
            let place = certs::issue(&dir, &wish).map_err(|error| failure(&error))?;
            let place = place.display();
            match usage {
                Use::Server => writeln!(
                    output,
                    "{place} is for the host. Write who may ask into {place}/clients, one name a \
                     line."
                )?,
                Use::Client => writeln!(
                    output,
                    "{place} is for {}. Write that name into the file `clients` of each host.",
                    wish.name
                )?,
            }
        }
    }
    Ok(output.flush()?)
}

fn failure(error: &CertsError) -> Failure {
    match error {
        CertsError::Name(_) => Failure::Input(error.to_string()),
        CertsError::File { .. } | CertsError::Made(_) => Failure::Machine(error.to_string()),
    }
}
