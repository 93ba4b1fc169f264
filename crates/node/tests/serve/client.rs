//! A client that sends bytes as they are, so that a test can send what no browser would.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use walras_node::serve::Server;

/// Long enough for the slowest machine; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// An answer that is still being sent.
#[derive(Debug)]
pub(crate) struct Stream(BufReader<TcpStream>);

pub(crate) fn get(server: &Server, path: &str) -> Reply {
    get_as(server, path, "localhost")
}

pub(crate) fn get_as(server: &Server, path: &str, host: &str) -> Reply {
    ask(server, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
}

/// Sends `request` and reads the answer; a body only if its length is told.
pub(crate) fn ask(server: &Server, request: &str) -> Reply {
    let mut stream = connect(server);
    // A server that refuses early may close before it has read everything.
    stream.get_mut().write_all(request.as_bytes()).ok();
    let (status, headers) = stream.head();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, length)| length.parse().expect("a number"));
    let mut body = vec![0; if request.starts_with("HEAD") { 0 } else { length }];
    stream.0.read_exact(&mut body).expect("a whole body");
    Reply { status, headers, body: String::from_utf8(body).expect("text") }
}

/// Asks and leaves the answer to be read.
pub(crate) fn open(server: &Server, path: &str, host: &str) -> Stream {
    let mut stream = connect(server);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.get_mut().write_all(request.as_bytes()).expect("the server reads");
    stream
}

/// A connection whose client has said half of what it wants.
pub(crate) fn half_open(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    // One that has to go for the next may be gone already.
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: loc").ok();
    stream
}

/// Tries until it is so.
pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < end, "{what}");
    }
}

fn connect(server: &Server) -> Stream {
    let stream = TcpStream::connect(server.address()).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
    Stream(BufReader::new(stream))
}

// === impl Reply ===

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

// === impl Stream ===

impl Stream {
    pub(crate) fn status(&mut self) -> u16 {
        self.head().0
    }

    /// The next event's data.
    pub(crate) fn event(&mut self) -> String {
        loop {
            if let Some(data) = self.line().strip_prefix("data: ") {
                return data.to_owned();
            }
        }
    }

    /// Waits until the server closes.
    pub(crate) fn read_to_end(&mut self) {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).expect("the server closes in good order");
    }

    fn head(&mut self) -> (u16, Vec<(String, String)>) {
        let line = self.line();
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.expect("a status line");
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            match line.split_once(": ") {
                Some((name, value)) => headers.push((name.to_lowercase(), value.to_owned())),
                None => return (status, headers),
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(
            self.0.read_line(&mut line).expect("the server answers"),
            0,
            "the server closed"
        );
        line.trim_end().to_owned()
    }

    fn get_mut(&mut self) -> &mut TcpStream {
        self.0.get_mut()
    }
}
