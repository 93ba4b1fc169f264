//! Passes bytes on between programs and the API server, and counts them.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was passed on so far, and where to connect to.
pub(crate) struct Counted {
    pub(crate) address: SocketAddr,
    bytes: Arc<AtomicU64>,
}

impl Counted {
    /// How many bytes there were, both ways, as they are on the wire.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Listens on the address of the API server, so that its certificate fits, for ever.
pub(crate) fn forward(address: impl Into<IpAddr>, port: u16) -> Counted {
    let server = SocketAddr::new(address.into(), port);
    let listener = TcpListener::bind((server.ip(), 0)).expect("a free port");
    let bytes = Arc::new(AtomicU64::new(0));
    let counted =
        Counted { address: listener.local_addr().expect("an address"), bytes: Arc::clone(&bytes) };
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(server) else { continue };
            for (from, to) in [(&client, &server), (&server, &client)] {
                let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { continue };
                let bytes = Arc::clone(&bytes);
                std::thread::spawn(move || pass(from, to, &bytes));
            }
        }
    });
    counted
}

fn pass(mut from: TcpStream, mut to: TcpStream, bytes: &AtomicU64) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        bytes.fetch_add(u64::try_from(length).unwrap_or(0), Ordering::Relaxed);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    // Either side may be gone already.
    to.shutdown(Shutdown::Both).ok();
}
