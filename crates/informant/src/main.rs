//! `walras-informant`: the program in a guest.

use std::env;
use std::process::ExitCode;

use walras_informant::options::{self, Asked};
use walras_informant::{daemon, say};

fn main() -> ExitCode {
    match options::read(env::args().skip(1)) {
        Ok(Asked::Help(text)) => {
            say::print(&text);
            ExitCode::SUCCESS
        }
        Ok(Asked::Run(options)) => match daemon::run(&options) {
            Ok(never) => match never {},
            Err(error) => {
                say::log(&format!("error: {error}"));
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            say::log(&format!("error: {error}"));
            ExitCode::from(2)
        }
    }
}
