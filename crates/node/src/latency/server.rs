//! A small HTTP server for tests: it answers every request as it is told to, also badly.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What is answered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reply {
    /// A number, as Prometheus writes it.
    Seconds(&'static str),
    /// What a Prometheus that starts answers.
    Starting,
    /// No byte at all, and the connection stays open.
    Nothing,
    /// The beginning of an answer, and the connection stays open.
    Half,
    /// Bytes for as long as they are read.
    Endless,
}

/// Answers until the process ends.
pub(super) struct Server {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    reply: Reply,
    /// The first line of every request so far.
    requests: Vec<String>,
    /// Connections that are kept open.
    open: Vec<TcpStream>,
}

// === impl Server ===

impl Server {
    /// Answers like this from now on.
    pub(super) fn start(reply: Reply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, open) = (Vec::new(), Vec::new());
        let shared = Arc::new(Mutex::new(Shared { reply, requests, open }));
        let answering = Arc::clone(&shared);
        thread::spawn(move || {
            // A client that went away in the middle is none of our business.
            listener.incoming().flatten().for_each(|stream| drop(answer(stream, &answering)));
        });
        Self { address, shared }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers like this from now on.
    pub(super) fn reply(&self, reply: Reply) {
        self.shared.lock().unwrap().reply = reply;
    }

    /// How many requests there were.
    pub(super) fn count(&self) -> usize {
        self.shared.lock().unwrap().requests.len()
    }

    /// What was asked last, as it was before it was made part of an address.
    pub(super) fn last_query(&self) -> String {
        let last = self.shared.lock().unwrap().requests.last().cloned().unwrap();
        let query = last.strip_prefix("GET /api/v1/query?query=").unwrap();
        decoded(query.split_once("&timeout=").unwrap().0)
    }
}

fn answer(stream: TcpStream, shared: &Mutex<Shared>) -> io::Result<()> {
    let mut head = BufReader::new(&stream).lines();
    let first = head.next().transpose()?.unwrap_or_default();
    head.find(|line| line.as_ref().map_or(true, String::is_empty));
    let reply = {
        let mut shared = shared.lock().unwrap();
        shared.requests.push(first);
        shared.reply
    };
    match reply {
        Reply::Seconds(number) => {
            let body = format!(
                r#"{{"status":"success","data":{{"resultType":"scalar","result":[1,"{number}"]}}}}"#
            );
            write(&stream, "200 OK", &body)
        }
        Reply::Starting => write(&stream, "503 Service Unavailable", "Service Unavailable"),
        Reply::Endless => {
            write!(&stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            loop {
                (&stream).write_all(&[b'x'; 10_000])?;
            }
        }
        Reply::Half => {
            write!(&stream, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{{\"status\":")?;
            shared.lock().unwrap().open.push(stream);
            Ok(())
        }
        Reply::Nothing => {
            shared.lock().unwrap().open.push(stream);
            Ok(())
        }
    }
}

fn write(mut stream: &TcpStream, status: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

/// The text of a part of an address.
fn decoded(part: &str) -> String {
    let mut pieces = part.split('%');
    let mut text = pieces.next().unwrap_or_default().replace('+', " ");
    for piece in pieces {
        let (code, rest) = piece.split_at(2);
        text.push(char::from(u8::from_str_radix(code, 16).unwrap()));
        text += &rest.replace('+', " ");
    }
    text
}
