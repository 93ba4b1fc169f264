//! One question to a container engine over its socket: HTTP, as Docker's API has it. Podman speaks
//! the same.
//!
//! Bounded in time and size. An engine that did not answer is not asked again for a few seconds, so
//! that a hundred containers do not wait for it a hundred times.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::runtime::{self, Runtime};
use tokio::time;

use crate::adopt::Source;

/// An engine has this long to answer.
const WITHIN: Duration = Duration::from_secs(2);
/// One that did not answer is left alone for so long.
const SILENCE: Duration = Duration::from_secs(5);
/// No description of a container is longer.
const ANSWER_MAX: usize = 4 << 20;

/// What came of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The container, as the engine describes it in JSON.
    Container(String),
    /// The engine has no container with this id.
    NoSuchContainer,
    /// It did not answer, for this reason.
    Silent(String),
}

/// Asks engines.
#[derive(Debug)]
pub(super) struct Asker {
    runtime: Runtime,
    /// When an engine last failed to answer, and why.
    silent: BTreeMap<Source, (Instant, String)>,
}

impl Asker {
    /// A client of the engine's socket.
    ///
    /// # Errors
    /// There is nothing to wait with.
    pub(super) fn new() -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Self { runtime, silent: BTreeMap::new() })
    }

    /// Asks the engine behind `socket` for the container `id`.
    pub(super) fn ask(&mut self, source: Source, socket: &Path, id: &str) -> Answer {
        if let Some((at, because)) = self.silent.get(&source)
            && at.elapsed() < SILENCE
        {
            return Answer::Silent(because.clone());
        }
        let asked = async { time::timeout(WITHIN, inspect(socket, id)).await };
        let because = match self.runtime.block_on(asked) {
            Ok(Ok(answer)) => {
                self.silent.remove(&source);
                return answer;
            }
            Ok(Err(because)) => because,
            Err(_) => format!("nothing within {} s", WITHIN.as_secs()),
        };
        self.silent.insert(source, (Instant::now(), because.clone()));
        Answer::Silent(because)
    }
}

/// Asks for one container.
///
/// # Errors
/// The engine does not answer, for this reason.
async fn inspect(socket: &Path, id: &str) -> Result<Answer, String> {
    let stream = UnixStream::connect(socket).await.map_err(|error| error.to_string())?;
    let in_words = |error: hyper::Error| error.to_string();
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(in_words)?;
    let connection = tokio::spawn(connection);
    let request = Request::get(format!("/containers/{id}/json"))
        .header(header::HOST, "localhost")
        .body(Body::empty())
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(in_words)?;
    let status = response.status();
    let body = to_bytes(Body::new(response.into_body()), ANSWER_MAX).await;
    connection.abort();
    if status == StatusCode::NOT_FOUND {
        return Ok(Answer::NoSuchContainer);
    }
    if !status.is_success() {
        // That is about this container, and others may fare better.
        return Ok(Answer::Silent(format!("it answers {status}")));
    }
    let body = body.map_err(|error| error.to_string())?;
    String::from_utf8(body.into()).map(Answer::Container).map_err(|error| error.to_string())
}
