//! `walras top`: a node's workloads in the terminal, live; or once, as a table or as JSON. With
//! `--node` the figures of the machine.
//!
//! A thread of its own asks the daemon, so that keys are answered at once however slow the network
//! is. The terminal is given back as it was, also when something goes wrong.

mod app;
mod columns;
mod draw;
#[cfg(test)]
mod made_up;
mod table;

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use walras_wire::state::{Explanation, NodeState};

use app::{App, Effect, Key};

use clap::Args;

use crate::daemon::{DEFAULT_ADDRESS, Daemon};
use crate::failure::Failure;
use crate::figures;
use crate::screen::{self, Look};

#[cfg(feature = "kubernetes")]
pub(crate) use self::table::text as table_of_node;

/// What to watch.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// The daemon to ask
    #[arg(long, value_name = "URL", default_value = DEFAULT_ADDRESS, env = "WALRAS_ADDRESS")]
    pub(crate) address: String,
    /// Print a table once, and end: what a file or a pipe gets anyway
    #[arg(long)]
    pub(crate) once: bool,
    /// Print the state once as JSON for programs
    #[arg(long)]
    pub(crate) json: bool,
    /// Show the figures of the machine, and not its pods: pressure, latency, disks, network
    #[arg(long)]
    pub(crate) node: bool,
}

/// A node without workloads, for tests of what shows one.
#[cfg(test)]
pub(crate) fn made_up_state() -> NodeState {
    made_up::state(&[])
}

/// The daemon is asked this often.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Keys are waited for this long before answers are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What the daemon said.
#[derive(Debug)]
enum Answer {
    State(Result<Box<NodeState>, String>),
    Story(Result<Box<Explanation>, String>),
}

/// What to ask the daemon beside its state.
#[derive(Debug)]
enum Wish {
    /// Tell this story from now on.
    Explain(String),
    /// No longer tell any.
    NoStory,
}

/// Shows the node until the user has seen enough.
pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    let daemon = Daemon::at(&args.address)?;
    if args.node {
        return node(&daemon, args);
    }
    if args.json || args.once || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return once(&daemon, args.json);
    }
    // Asked before the screen is taken over, so that a wrong address is told like any other error.
    let state = daemon.state()?;
    let mut app = App::new(daemon.base().to_owned());
    app.told(Ok(state));
    let (wishes, answers) = ask_in_background(daemon)?;
    let mut terminal = ratatui::try_init()?;
    let ended = show(&mut terminal, &mut app, &wishes, &answers);
    ratatui::try_restore()?;
    Ok(ended?)
}

/// The figures of the machine: once, or again and again on a terminal, until it is stopped.
fn node(daemon: &Daemon, args: &TopArgs) -> Result<(), Failure> {
    let watch = !args.json && !args.once && io::stdout().is_terminal();
    let (_never, nobody) = mpsc::channel::<()>();
    loop {
        let told = daemon.telemetry()?;
        let mut output = screen::output();
        if args.json {
            serde_json::to_writer_pretty(&mut output, &told).map_err(io::Error::from)?;
            writeln!(output)?;
        } else {
            let clear = if watch { figures::CLEAR } else { "" };
            write!(output, "{clear}{}", figures::text(&told, Look::of_stdout()))?;
        }
        output.flush()?;
        if !watch {
            return Ok(());
        }
        // Nobody ever sends anything: this is how to wait for the next look.
        nobody.recv_timeout(ASK_EVERY).ok();
    }
}

fn once(daemon: &Daemon, json: bool) -> Result<(), Failure> {
    let state = daemon.state()?;
    let mut output = screen::output();
    if json {
        serde_json::to_writer_pretty(&mut output, &state).map_err(io::Error::from)?;
        writeln!(output)?;
    } else {
        output.write_all(table::text(&state, Look::of_stdout()).as_bytes())?;
    }
    Ok(output.flush()?)
}

fn show(
    terminal: &mut DefaultTerminal,
    app: &mut App,
    wishes: &Sender<Wish>,
    answers: &Receiver<Answer>,
) -> io::Result<()> {
    let mut changed = true;
    loop {
        if changed {
            terminal.draw(|frame| draw::draw(frame, app))?;
        }
        changed = false;
        if event::poll(LOOK_EVERY)? {
            changed = true;
            let had_story = app.open_story().is_some();
            match key(&event::read()?).map(|key| app.pressed(key)) {
                Some(Effect::Quit) => return Ok(()),
                // A thread that is gone has told why, and the screen shows it.
                Some(Effect::Explain(uid)) => drop(wishes.send(Wish::Explain(uid))),
                Some(Effect::Draw) | None => {}
            }
            if had_story && app.open_story().is_none() {
                drop(wishes.send(Wish::NoStory));
            }
        }
        while let Ok(answer) = answers.try_recv() {
            changed = true;
            match answer {
                Answer::State(answer) => app.told(answer.map(|state| *state)),
                Answer::Story(answer) => app.explained(answer.map(|story| *story)),
            }
        }
    }
}

/// The key of an event, if it means something to us.
#[expect(clippy::wildcard_enum_match_arm, reason = "most keys of a keyboard mean nothing here")]
fn key(event: &Event) -> Option<Key> {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else {
        return None;
    };
    let control = modifiers.contains(KeyModifiers::CONTROL);
    match code {
        KeyCode::Char('c' | 'd') if control => Some(Key::Interrupt),
        KeyCode::Char(_) if control => None,
        KeyCode::Char(letter) => Some(Key::Char(*letter)),
        KeyCode::Up => Some(Key::Up),
        KeyCode::Down => Some(Key::Down),
        KeyCode::PageUp => Some(Key::PageUp),
        KeyCode::PageDown => Some(Key::PageDown),
        KeyCode::Home => Some(Key::First),
        KeyCode::End => Some(Key::Last),
        KeyCode::Enter => Some(Key::Enter),
        KeyCode::Esc => Some(Key::Escape),
        KeyCode::Backspace => Some(Key::Backspace),
        _ => None,
    }
}

/// Asks again and again, until there is no receiver.
fn ask_in_background(daemon: Daemon) -> io::Result<(Sender<Wish>, Receiver<Answer>)> {
    let (wishes, wished) = mpsc::channel();
    let (answer, answers) = mpsc::channel();
    thread::Builder::new().name("walras-ask".into()).spawn(move || {
        let mut story = None;
        loop {
            match wished.recv_timeout(ASK_EVERY) {
                Ok(Wish::Explain(uid)) => story = Some(uid),
                Ok(Wish::NoStory) => {
                    story = None;
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if let Some(uid) = &story {
                let told = daemon.explain(uid).map(Box::new).map_err(|error| error.sentence());
                if answer.send(Answer::Story(told)).is_err() {
                    return;
                }
            }
            let state = daemon.state().map(Box::new).map_err(|error| error.sentence());
            if answer.send(Answer::State(state)).is_err() {
                return;
            }
        }
    })?;
    Ok((wishes, answers))
}
