//! HTTP for permits and agents: short messages both ways, answered from memory.
//!
//! A server has a limit for connections in all and of one peer, for heads, for bodies and for the
//! time that each may take; whoever goes beyond is refused and takes nothing from others. A client
//! holds one connection and drops it when a question fails, so that nothing late comes back.

mod client;
mod serve;

use hyper::body::Bytes;
use hyper::header::HeaderMap;

pub use client::{Client, ClientError};
pub use serve::{Handler, Limits, Server, start};

/// A request that was read.
#[derive(Clone, Debug)]
pub struct Asked {
    /// As `POST`.
    pub method: String,
    /// As `/register`.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// An answer to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// As 200.
    pub status: u16,
    /// What the body is.
    pub kind: &'static str,
    /// More headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// A request to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// As `POST`.
    pub method: &'static str,
    /// As `/register`.
    pub path: String,
    /// More headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// An answer that was read.
#[derive(Clone, Debug)]
pub struct Answered {
    /// As 200.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Told {
    /// Words for people.
    #[must_use]
    pub fn words(status: u16, words: &str) -> Self {
        let body = format!("{words}\n").into_bytes();
        Self { status, kind: "text/plain; charset=utf-8", headers: Vec::new(), body }
    }

    /// JSON.
    #[must_use]
    pub const fn json(body: Vec<u8>) -> Self {
        Self { status: 200, kind: "application/json", headers: Vec::new(), body }
    }
}

impl Question {
    /// A request with a body of JSON.
    #[must_use]
    pub fn json(method: &'static str, path: &str, body: &impl serde::Serialize) -> Self {
        let body = serde_json::to_vec(body).unwrap_or_default();
        Self { method, path: path.to_owned(), headers: Vec::new(), body }
    }

    /// A request without a body.
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self { method: "GET", path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
    }
}

impl Answered {
    /// The body as words, for errors; not more than fits into a line.
    #[must_use]
    pub fn words(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        text.trim().chars().filter(|letter| !letter.is_control()).take(200).collect()
    }
}
