//! Asks container engines what a container says about itself.
//!
//! The engine itself is asked, over its socket: it knows its containers wherever it keeps them. Its
//! files are read where the engine does not answer. What neither tells is unknown, and that is
//! told: a container that may have asked to be left alone is left alone. All of it happens in a
//! thread of its own, because an engine may take its time and the loop has none.

mod ask;
mod files;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::{AdoptRules, Marks, Seen, Source};

use self::ask::{Answer, Asker};

/// More answers than this are not kept until they are fetched.
const ANSWERS_MAX: usize = 10_000;

/// What a workload says about itself, as far as that can be found out.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// This.
    Marks(Marks),
    /// It could not be found out, for this reason.
    Unknown(String),
}

/// The thread that asks the engines. It stops when dropped.
#[derive(Debug)]
pub struct Engines {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    desk: Mutex<Desk>,
    wake: Condvar,
}

/// What is asked and what is answered.
#[derive(Debug, Default)]
struct Desk {
    questions: VecDeque<Question>,
    /// Containers that were asked about, without an answer yet.
    asked: BTreeSet<Container>,
    answers: BTreeMap<Container, Told>,
    stop: bool,
}

/// A container, by its engine and its id.
type Container = (Source, String);

/// A container to be asked about, and where to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Question {
    container: Container,
    socket: PathBuf,
    /// Where its files are; where the engine's own configuration says, if nothing is said here.
    root: Option<PathBuf>,
}

// === impl Engines ===

impl Engines {
    /// Starts to ask.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let asker = Asker::new()?;
        let work = {
            let shared = Arc::clone(&shared);
            move || shared.work(asker)
        };
        let thread = thread::Builder::new().name("walras-engines".into()).spawn(work)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// What a container says about itself; nothing while that is being found out. An answer is
    /// given once, and the next question asks anew.
    pub fn told(&self, rules: &AdoptRules, seen: &Seen) -> Option<Told> {
        let container = (seen.source, seen.id.clone());
        let mut desk = self.shared.lock();
        if let Some(told) = desk.answers.remove(&container) {
            return Some(told);
        }
        if desk.asked.insert(container.clone()) {
            let (socket, root) = match seen.source {
                Source::Podman => (&rules.podman_socket, rules.podman_root.as_ref()),
                Source::Docker | Source::Walras | Source::Systemd | Source::Path => {
                    (&rules.docker_socket, rules.docker_root.as_ref())
                }
            };
            let (socket, root) = (socket.clone(), root.cloned());
            desk.questions.push_back(Question { container, socket, root });
            self.shared.wake.notify_one();
        }
        None
    }

    /// Answers the next question about a container with what is known already.
    pub fn remember(&self, seen: &Seen, marks: Marks) {
        let container = (seen.source, seen.id.clone());
        self.shared.lock().answers.insert(container, Told::Marks(marks));
    }
}

impl Drop for Engines {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // One that panicked has told so already, and there is nothing left to stop.
            thread.join().ok();
        }
    }
}

// === impl Shared ===

impl Shared {
    fn work(&self, mut asker: Asker) {
        while let Some(question) = self.next() {
            let told = find_out(&mut asker, &question);
            let mut desk = self.lock();
            desk.asked.remove(&question.container);
            if desk.answers.len() >= ANSWERS_MAX {
                desk.answers.clear();
            }
            desk.answers.insert(question.container, told);
        }
    }

    /// The next question; nothing once it is time to stop.
    fn next(&self) -> Option<Question> {
        let mut desk = self.lock();
        loop {
            if desk.stop {
                return None;
            }
            if let Some(question) = desk.questions.pop_front() {
                return Some(question);
            }
            desk = self.wake.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the engine, and then its files.
fn find_out(asker: &mut Asker, question: &Question) -> Told {
    let (source, id) = &question.container;
    let silent = match asker.ask(*source, &question.socket, id) {
        Answer::Container(text) => match Marks::of_docker(&text) {
            Ok(marks) => return Told::Marks(marks),
            Err(error) => format!("what it answers cannot be understood: {error}"),
        },
        Answer::NoSuchContainer => {
            let socket = question.socket.display();
            return Told::Unknown(format!("{socket} knows no such container"));
        }
        Answer::Silent(because) => because,
    };
    match files::read(*source, question.root.as_deref(), id) {
        Ok(marks) => Told::Marks(marks),
        Err(unread) => {
            let socket = question.socket.display();
            Told::Unknown(format!("{socket} does not answer ({silent}), and {unread}"))
        }
    }
}
