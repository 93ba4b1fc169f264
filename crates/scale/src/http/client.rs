//! A client with one connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time;

use super::{Answered, Question};

/// An answer of more bytes than this is refused; metrics are the longest.
const ANSWER_MAX: usize = 64 << 10;

/// A connection to somebody, made when there is something to ask.
#[derive(Debug)]
pub struct Client {
    address: SocketAddr,
    connection: Option<SendRequest<Full<Bytes>>>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody is there.
    #[error("{address}: {source}")]
    Connect {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The connection failed.
    #[error("{address}: {source}")]
    Http {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: hyper::Error,
    },
    /// The answer is too long, or ends in the middle.
    #[error("{address}: the answer cannot be read")]
    Body {
        /// Where.
        address: SocketAddr,
    },
    /// The question cannot be written as HTTP.
    #[error("{path}: cannot be asked by HTTP")]
    Question {
        /// Its path.
        path: String,
    },
    /// The answer did not come in time.
    #[error("{address}: no answer within {within:?}")]
    Late {
        /// Where.
        address: SocketAddr,
        /// How long it was waited for.
        within: Duration,
    },
}

impl Client {
    /// Asks at that address.
    #[must_use]
    pub const fn new(address: SocketAddr) -> Self {
        Self { address, connection: None }
    }

    /// Where it asks.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Asks, and waits for the answer. After a failure the connection is closed.
    ///
    /// # Errors
    /// There is no answer, or not in time.
    pub async fn ask(
        &mut self,
        question: &Question,
        within: Duration,
    ) -> Result<Answered, ClientError> {
        let address = self.address;
        let connection = self.connection.take().filter(|connection| !connection.is_closed());
        let asked = time::timeout(within, exchange(address, connection, question)).await;
        let (connection, answered) = asked.map_err(|_| ClientError::Late { address, within })??;
        self.connection = Some(connection);
        Ok(answered)
    }
}

async fn exchange(
    address: SocketAddr,
    connection: Option<SendRequest<Full<Bytes>>>,
    question: &Question,
) -> Result<(SendRequest<Full<Bytes>>, Answered), ClientError> {
    let http = |source| ClientError::Http { address, source };
    let mut connection = match connection {
        Some(connection) => connection,
        None => connect(address).await?,
    };
    // A kept connection that the other side closed meanwhile was not written to: a new one is made.
    if connection.ready().await.is_err() {
        connection = connect(address).await?;
    }
    let request = request(address, question)?;
    let response = connection.send_request(request).await.map_err(http)?;
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, ANSWER_MAX).collect().await;
    let body = body.map_err(|_| ClientError::Body { address })?.to_bytes();
    let answered = Answered { status: parts.status.as_u16(), headers: parts.headers, body };
    Ok((connection, answered))
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>, ClientError> {
    let failed = |source| ClientError::Connect { address, source };
    let stream = TcpStream::connect(address).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|source| ClientError::Http { address, source })?;
    // Ends with the sender.
    tokio::spawn(connection);
    Ok(sender)
}

fn request(address: SocketAddr, question: &Question) -> Result<Request<Full<Bytes>>, ClientError> {
    let mut builder = Request::builder()
        .method(question.method)
        .uri(question.path.as_str())
        .header("Host", address.to_string())
        .header("Content-Type", "application/json");
    for (name, value) in &question.headers {
        builder = builder.header(*name, value);
    }
    let body = Full::from(question.body.clone());
    builder.body(body).map_err(|_| ClientError::Question { path: question.path.clone() })
}
