//! The thread of a daemon that asks Prometheus, so that the loop never waits for it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};

use tokio::runtime;
use tokio::sync::oneshot;

use super::{Questions, Rhythm, Verdict, run};

/// The thread at work. It ends with this value, and a question that is being asked is not waited
/// for.
#[derive(Debug)]
pub struct Judging {
    verdicts: Receiver<Verdict>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Judging {
    /// Starts to ask.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(questions: Arc<Questions>, rhythm: Rhythm) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
        let (tell, verdicts) = mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let ask = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = run(questions, tell, rhythm) => {}
                    // Whether it was sent or dropped, there is no receiver any more.
                    _ = stopped => {}
                }
            });
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("walras-latency".into()).spawn(ask)?;
        Ok(Self { verdicts, stop: Some(stop), thread: Some(thread) })
    }

    /// What was judged since it was last asked for.
    pub fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        self.verdicts.try_iter()
    }
}

impl Drop for Judging {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has told so, and nothing is left to be ended.
            thread.join().ok();
        }
    }
}
