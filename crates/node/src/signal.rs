//! Signals, as what a daemon's loop is asked for.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// What a loop may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To stop.
    Stop,
    /// To read its configuration again.
    Reload,
}

/// Hears signals from now on, in a thread of its own.
///
/// # Errors
/// They cannot be heard.
pub fn listen() -> io::Result<Receiver<Asked>> {
    let (sender, receiver): (Sender<Asked>, _) = mpsc::channel();
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let listen = move || {
        for signal in signals.forever() {
            let asked = if signal == SIGHUP { Asked::Reload } else { Asked::Stop };
            if sender.send(asked).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("walras-signals".into()).spawn(listen)?;
    Ok(receiver)
}
