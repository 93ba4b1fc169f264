//! Lines of JSON from a stream, of a limited length.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The longest line. Lists of devices have a few thousand bytes.
pub(super) const LINE_MAX: usize = 1 << 20;
/// So much is read at once.
const PIECE: usize = 8 << 10;

/// The lines of a stream. A read that is given up loses nothing.
#[derive(Debug)]
pub(super) struct Lines<R> {
    stream: R,
    held: Vec<u8>,
    /// How much of what is held has no end of a line in it.
    looked: usize,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) const fn new(stream: R) -> Self {
        Self { stream, held: Vec::new(), looked: 0 }
    }

    /// The next line; nothing at the end of the stream.
    ///
    /// # Errors
    /// The stream fails, a line is too long, or one is no JSON.
    pub(super) async fn next(&mut self) -> io::Result<Option<Value>> {
        loop {
            if let Some(line) = self.take() {
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return serde_json::from_slice(&line).map(Some).map_err(io::Error::other);
            }
            if self.held.len() > LINE_MAX {
                return Err(io::Error::other(format!("a line has more than {LINE_MAX} bytes")));
            }
            // What was read is in `held` before anything else is awaited.
            let mut piece = [0; PIECE];
            let count = self.stream.read(&mut piece).await?;
            if count == 0 {
                return Ok(None);
            }
            self.held.extend_from_slice(&piece[..count]);
        }
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        let end = self.held[self.looked..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end else {
            self.looked = self.held.len();
            return None;
        };
        let rest = self.held.split_off(self.looked + end + 1);
        self.looked = 0;
        Some(std::mem::replace(&mut self.held, rest))
    }
}
