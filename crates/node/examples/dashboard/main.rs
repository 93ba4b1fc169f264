//! Serves the dashboard of a node that does not exist, for whoever works on the dashboard:
//!
//!     cargo run --package walras-host --example dashboard -- 127.0.0.1:8082 500
//!
//! The second argument is the number of workloads. An hour has already passed when it starts.

mod made_up;

use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use made_up::MadeUp;
use walras_node::serve::{self, ServeSettings};

/// The time between two ticks.
const TICK: Duration = Duration::from_millis(200);

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let listen = args.next().unwrap_or_else(|| "127.0.0.1:8082".to_owned()).parse()?;
    let workloads = args.next().unwrap_or_else(|| "5".to_owned()).parse()?;
    let mut made_up = MadeUp::new(workloads);
    made_up.let_pass(Duration::from_secs(3600));
    let settings = ServeSettings { listen, names: Vec::new() };
    let _server = serve::start(Arc::clone(made_up.board()), &settings)?;
    // Nobody ever sends: waiting for it is how to wait for the next tick.
    let (_never, next) = mpsc::channel::<()>();
    while next.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        made_up.tick();
    }
    Ok(())
}
