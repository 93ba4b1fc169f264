//! A connection that does not wait for ever for its peer to read.
//!
//! A peer that reads nothing for a while loses the connection, and whatever was kept for it goes.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{self, Sleep};

/// A stream on which every write makes progress within a time.
#[derive(Debug)]
pub(super) struct Hasty<S> {
    stream: S,
    within: Duration,
    /// Runs out when a write that waits has waited long enough.
    patience: Option<Pin<Box<Sleep>>>,
}

impl<S> Hasty<S> {
    /// `stream`, whose peer has to read something `within` this.
    pub(super) const fn new(stream: S, within: Duration) -> Self {
        Self { stream, within, patience: None }
    }

    /// What came of a write: what it says, unless it waits and has waited long enough.
    fn unless_late<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.patience = None;
            return written;
        }
        let within = self.within;
        let patience = self.patience.get_or_insert_with(|| Box::pin(time::sleep(within)));
        match patience.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Hasty<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Hasty<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.unless_late(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.unless_late(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.unless_late(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.unless_late(closed, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::runtime;

    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(work)
    }

    #[test]
    fn a_peer_that_reads_nothing_is_left() {
        let told = run(async {
            let (ours, _theirs) = duplex(16);
            let mut hasty = Hasty::new(ours, Duration::from_millis(20));
            hasty.write_all(&[0; 64]).await
        });
        assert_eq!(told.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_peer_that_reads_gets_everything() {
        let read = run(async {
            let (ours, mut theirs) = duplex(16);
            let mut hasty = Hasty::new(ours, Duration::from_secs(60));
            let write = async {
                hasty.write_all(&[7; 640]).await.unwrap();
                hasty.shutdown().await.unwrap();
            };
            let read = async {
                let mut all = Vec::new();
                theirs.read_to_end(&mut all).await.unwrap();
                all
            };
            tokio::join!(write, read).1
        });
        assert_eq!(read, [7; 640]);
    }
}
