//! As much of HTTP/1.1 as the protocol needs: one request and one answer for each connection.
//!
//! Everything is bounded: the head, the body, and the time until both are there, which counts from
//! the first byte to the last however slowly they come.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use thiserror::Error;

/// A head of more bytes than this is refused.
const HEAD_MAX: usize = 4096;
/// A head of more fields than this is refused.
const FIELDS_MAX: usize = 32;
/// A request's body is at most this long.
pub const BODY_MAX: usize = 1024;
/// An answer's body is at most this long; metrics are the longest.
const ANSWER_MAX: usize = 16 << 10;

/// What was asked, or answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The method of a request.
    pub method: String,
    /// The path of a request.
    pub path: String,
    /// The status of an answer.
    pub status: u16,
    /// The fields of the head, names in small letters.
    pub fields: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// An answer to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// As 200.
    pub status: u16,
    /// What the body is.
    pub kind: &'static str,
    /// More fields of the head.
    pub fields: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Why a message cannot be read.
#[derive(Debug, Error)]
pub enum HttpError {
    /// The connection failed, or took too long.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not HTTP.
    #[error("not HTTP: {0}")]
    Malformed(#[from] httparse::Error),
    /// It is longer than anybody needs.
    #[error("a {what} of more than {most} bytes")]
    TooLong {
        /// Which part.
        what: &'static str,
        /// How long it may be.
        most: usize,
    },
    /// It ends in the middle, or its length is none.
    #[error("it ends before it is complete")]
    Cut,
}

/// A stream with an end to all patience.
struct Timed<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

/// Reads a request.
///
/// # Errors
/// It is not one, too long, or takes too long.
pub fn read_request(stream: &TcpStream, within: Duration) -> Result<Message, HttpError> {
    read(&mut Timed::new(stream, within), BODY_MAX, |head| {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut fields);
        let httparse::Status::Complete(length) = request.parse(head)? else {
            return Ok(None);
        };
        let method = request.method.unwrap_or_default().to_owned();
        let path = request.path.unwrap_or_default().to_owned();
        let fields = owned(request.headers);
        Ok(Some((length, Message { method, path, fields, ..Message::default() })))
    })
}

/// Writes an answer.
///
/// # Errors
/// The connection failed, or took too long.
pub fn write_answer(stream: &TcpStream, answer: &Answer, within: Duration) -> io::Result<()> {
    let mut head = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n",
        answer.status,
        reason(answer.status),
        answer.kind,
        answer.body.len()
    );
    for (name, value) in &answer.fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&answer.body);
    Timed::new(stream, within).write_all(&bytes)
}

/// Makes a request and reads the answer.
///
/// # Errors
/// Nobody is there, or what comes is no answer, or not in time.
pub fn call(
    address: SocketAddr,
    request: &Message,
    within: Duration,
) -> Result<Message, HttpError> {
    let until = Instant::now() + within;
    let stream = TcpStream::connect_timeout(&address, within)?;
    stream.set_nodelay(true)?;
    let mut head = format!(
        "{} {} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n",
        request.method,
        request.path,
        request.body.len()
    );
    for (name, value) in &request.fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&request.body);
    let mut timed = Timed { stream: &stream, until };
    timed.write_all(&bytes)?;
    read(&mut timed, ANSWER_MAX, |head| {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut answer = httparse::Response::new(&mut fields);
        let httparse::Status::Complete(length) = answer.parse(head)? else {
            return Ok(None);
        };
        let status = answer.code.unwrap_or_default();
        let fields = owned(answer.headers);
        Ok(Some((length, Message { status, fields, ..Message::default() })))
    })
}

/// Reads a head by `parse`, which says how long it is once it is complete, and the body after it.
fn read(
    stream: &mut Timed<'_>,
    body_max: usize,
    parse: impl Fn(&[u8]) -> Result<Option<(usize, Message)>, HttpError>,
) -> Result<Message, HttpError> {
    let mut bytes = Vec::with_capacity(1024);
    let (head, mut message) = loop {
        if let Some(parsed) = parse(&bytes)? {
            break parsed;
        }
        if bytes.len() >= HEAD_MAX {
            return Err(HttpError::TooLong { what: "head", most: HEAD_MAX });
        }
        stream.more(&mut bytes)?;
    };
    let length = match message.field("content-length") {
        Some(length) => length.parse().map_err(|_| HttpError::Cut)?,
        None => 0,
    };
    if length > body_max {
        return Err(HttpError::TooLong { what: "body", most: body_max });
    }
    while bytes.len() < head + length {
        stream.more(&mut bytes)?;
    }
    message.body = bytes[head..head + length].to_vec();
    Ok(message)
}

fn owned(fields: &[httparse::Header<'_>]) -> Vec<(String, String)> {
    let one = |field: &httparse::Header<'_>| {
        let value = String::from_utf8_lossy(field.value).into_owned();
        (field.name.to_ascii_lowercase(), value)
    };
    fields.iter().map(one).collect()
}

const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        413 => "Content Too Large",
        503 => "Service Unavailable",
        _ => "Error",
    }
}

// === impl Message ===

impl Message {
    /// A field of the head, by its name in small letters; nothing where it is there twice.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(field, _)| field == name);
        let (_, value) = found.next()?;
        found.next().is_none().then_some(value)
    }
}

// === impl Answer ===

impl Answer {
    /// Words for people.
    #[must_use]
    pub fn words(status: u16, words: &str) -> Self {
        let body = format!("{words}\n").into_bytes();
        Self { status, kind: "text/plain; charset=utf-8", fields: Vec::new(), body }
    }

    /// JSON.
    #[must_use]
    pub const fn json(body: Vec<u8>) -> Self {
        Self { status: 200, kind: "application/json", fields: Vec::new(), body }
    }
}

// === impl Timed ===

impl<'a> Timed<'a> {
    fn new(stream: &'a TcpStream, within: Duration) -> Self {
        Self { stream, until: Instant::now() + within }
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }

    fn more(&mut self, bytes: &mut Vec<u8>) -> Result<(), HttpError> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        let mut part = [0; 1024];
        match self.stream.read(&mut part)? {
            0 => Err(HttpError::Cut),
            count => {
                bytes.extend_from_slice(&part[..count]);
                Ok(())
            }
        }
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(self.left()?))?;
            match self.stream.write(bytes)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => bytes = &bytes[count..],
            }
        }
        Ok(())
    }
}
