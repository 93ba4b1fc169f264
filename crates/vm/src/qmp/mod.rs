//! QEMU's monitor protocol: commands and answers as lines of JSON, and events between them.
//!
//! One task owns the connection; a [`Qmp`] is a way to ask it, and any number of those may be used
//! at once. Every question has a time limit, every line a longest length, and no more than a few
//! questions wait at a time. Events are hints that something changed: who waits for a change looks
//! at what is there, when an event comes and every now and then, and so misses nothing.

mod lines;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio::time;

use self::lines::Lines;

/// How long QEMU may take to answer. It answers within milliseconds unless its host is overloaded.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);
/// So many questions wait for an answer at most.
const WAITING_MAX: usize = 64;
/// So many events are kept for a listener that is behind. It looks for itself then.
const EVENTS_KEPT: usize = 256;

/// An event of QEMU.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// Its name, such as `SHUTDOWN`.
    pub(crate) name: String,
    /// What it says.
    pub(crate) data: Value,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QmpError {
    /// The connection ended, or never was.
    #[error("there is no connection to QEMU: {0}")]
    Closed(String),
    /// It did not answer in time.
    #[error("no answer within {} ms", .0.as_millis())]
    Silent(Duration),
    /// It refused.
    #[error("{class}: {desc}")]
    Refused {
        /// The kind of refusal.
        class: String,
        /// In words.
        desc: String,
    },
}

/// A way to ask one QEMU.
#[derive(Clone, Debug)]
pub(crate) struct Qmp {
    questions: mpsc::Sender<Question>,
    events: broadcast::Sender<Event>,
}

#[derive(Debug)]
struct Question {
    line: Value,
    answer: Answer,
}

type Answer = oneshot::Sender<Result<Value, QmpError>>;

impl Qmp {
    /// Connects to the monitor at `socket`.
    ///
    /// # Errors
    /// Nobody listens there, or what answers is no QEMU.
    pub(crate) async fn connect(socket: &Path) -> Result<Self, QmpError> {
        let connected = time::timeout(ANSWER, async {
            let stream = UnixStream::connect(socket).await.map_err(closed)?;
            Self::over(stream).await
        });
        connected.await.map_err(|_| QmpError::Silent(ANSWER))?
    }

    /// Shakes hands over a connection, and keeps it.
    async fn over<S>(stream: S) -> Result<Self, QmpError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (reading, mut writing) = tokio::io::split(stream);
        let mut lines = Lines::new(reading);
        let greeting = next(&mut lines).await?;
        if greeting.get("QMP").is_none() {
            return Err(QmpError::Closed("what answers is no QEMU".to_owned()));
        }
        write(&mut writing, &json!({ "execute": "qmp_capabilities" })).await.map_err(closed)?;
        loop {
            let message = next(&mut lines).await?;
            if let Some(answer) = answer_in(&message) {
                answer?;
                break;
            }
        }
        let (questions, asked) = mpsc::channel(WAITING_MAX);
        let (events, _) = broadcast::channel(EVENTS_KEPT);
        let heard = events.clone();
        tokio::spawn(async move {
            serve(lines, writing, asked, heard).await;
        });
        Ok(Self { questions, events })
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// There is none, or a refusal.
    pub(crate) async fn ask(&self, command: &str, arguments: Value) -> Result<Value, QmpError> {
        self.ask_within(command, arguments, ANSWER).await
    }

    async fn ask_within(
        &self,
        command: &str,
        arguments: Value,
        limit: Duration,
    ) -> Result<Value, QmpError> {
        let mut line = json!({ "execute": command });
        if !arguments.is_null() {
            line["arguments"] = arguments;
        }
        let (answer, answered) = oneshot::channel();
        let asked = async {
            let ended = || QmpError::Closed("it ended".to_owned());
            self.questions.send(Question { line, answer }).await.map_err(|_| ended())?;
            answered.await.map_err(|_| ended())?
        };
        time::timeout(limit, asked).await.unwrap_or(Err(QmpError::Silent(limit)))
    }

    /// Events from now on.
    pub(crate) fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// Whether the connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.questions.is_closed()
    }
}

/// Owns the connection until either end leaves.
async fn serve<R, W>(
    mut lines: Lines<R>,
    mut writing: W,
    mut asked: mpsc::Receiver<Question>,
    events: broadcast::Sender<Event>,
) where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut waiting: BTreeMap<u64, Answer> = BTreeMap::new();
    let mut number = 0;
    loop {
        tokio::select! {
            question = asked.recv(), if waiting.len() < WAITING_MAX => {
                let Some(Question { mut line, answer }) = question else { return };
                // Whoever gave up waiting makes room.
                waiting.retain(|_, answer| !answer.is_closed());
                number += 1;
                line["id"] = json!(number);
                waiting.insert(number, answer);
                if write(&mut writing, &line).await.is_err() {
                    return;
                }
            }
            message = lines.next() => {
                let Ok(Some(message)) = message else { return };
                take(&message, &mut waiting, &events);
            }
        }
    }
}

/// Hands a message to whom it is for.
fn take(message: &Value, waiting: &mut BTreeMap<u64, Answer>, events: &broadcast::Sender<Event>) {
    if let Some(name) = message.get("event").and_then(Value::as_str) {
        let data = message.get("data").cloned().unwrap_or_default();
        // Nobody may be listening.
        events.send(Event { name: name.to_owned(), data }).ok();
    } else if let Some(answer) = answer_in(message) {
        let whose = message.get("id").and_then(Value::as_u64).and_then(|id| waiting.remove(&id));
        if let Some(whose) = whose {
            // It may have given up.
            whose.send(answer).ok();
        }
    }
}

/// The answer that a message is, if it is one.
fn answer_in(message: &Value) -> Option<Result<Value, QmpError>> {
    if let Some(value) = message.get("return") {
        return Some(Ok(value.clone()));
    }
    let error = message.get("error")?;
    let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(Err(QmpError::Refused { class: text("class"), desc: text("desc") }))
}

async fn next<R: AsyncRead + Unpin>(lines: &mut Lines<R>) -> Result<Value, QmpError> {
    let line = lines.next().await.map_err(closed)?;
    line.ok_or_else(|| QmpError::Closed("it ended".to_owned()))
}

async fn write<W: AsyncWrite + Unpin>(writing: &mut W, line: &Value) -> io::Result<()> {
    let mut bytes = line.to_string().into_bytes();
    bytes.push(b'\n');
    writing.write_all(&bytes).await?;
    writing.flush().await
}

fn closed(error: io::Error) -> QmpError {
    QmpError::Closed(error.to_string())
}
