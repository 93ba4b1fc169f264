//! What `walras top` shows and does, without a terminal: keys and answers come in, and what has to
//! be asked of the daemon comes out.

use walras_wire::state::{Explanation, NodeState, PodState};

use super::columns::Column;

/// What is on the screen.
#[derive(Debug)]
pub(super) struct App {
    /// Where the daemon is.
    pub(super) base: String,
    /// The last state that was told.
    pub(super) state: Option<NodeState>,
    /// Why there is no newer one.
    pub(super) trouble: Option<String>,
    /// What the pods are sorted by.
    pub(super) by: Column,
    /// The largest first.
    pub(super) down: bool,
    /// Only pods that have this in their name, kind or uid.
    pub(super) filter: String,
    /// The pod under the cursor, by uid, since rows move.
    pub(super) picked: Option<String>,
    /// What is in front.
    pub(super) view: View,
    /// Whether new states are ignored.
    pub(super) paused: bool,
}

/// What is in front.
#[derive(Debug)]
pub(super) enum View {
    /// The table.
    Pods,
    /// The table, while a filter is typed.
    Filtering,
    /// Why a pod has what it has.
    Story {
        /// The pod.
        uid: String,
        /// What was told, once it was.
        told: Option<Box<Explanation>>,
        /// How many lines are scrolled away.
        scroll: u16,
    },
    /// What the keys do.
    Help,
}

/// A key that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Enter,
    Escape,
    Backspace,
    Interrupt,
    Char(char),
}

/// What is to be done because of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing but to draw.
    Draw,
    /// Ask why this pod has what it has.
    Explain(String),
    /// End.
    Quit,
}

/// So many rows make a page.
const PAGE: isize = 20;

// === impl App: facts ===

impl App {
    pub(super) fn new(base: String) -> Self {
        Self {
            base,
            state: None,
            trouble: None,
            by: Column::Usage,
            down: true,
            filter: String::new(),
            picked: None,
            view: View::Pods,
            paused: false,
        }
    }

    /// The daemon told its state, or could not be asked.
    pub(super) fn told(&mut self, answer: Result<NodeState, String>) {
        match answer {
            Ok(state) => {
                self.trouble = None;
                if !self.paused || self.state.is_none() {
                    self.state = Some(state);
                }
            }
            Err(trouble) => self.trouble = Some(trouble),
        }
    }

    /// The daemon explained a pod, or refused to.
    pub(super) fn explained(&mut self, answer: Result<Explanation, String>) {
        let View::Story { uid, told, .. } = &mut self.view else {
            return;
        };
        match answer {
            Ok(explanation) if explanation.pod.uid == *uid => *told = Some(Box::new(explanation)),
            // An answer about a pod that is no longer looked at.
            Ok(_) => {}
            Err(trouble) => self.trouble = Some(trouble),
        }
    }

    /// A key was pressed.
    pub(super) fn pressed(&mut self, key: Key) -> Effect {
        if key == Key::Interrupt {
            return Effect::Quit;
        }
        match &mut self.view {
            View::Pods => self.pressed_in_pods(key),
            View::Filtering => {
                self.pressed_in_filter(key);
                Effect::Draw
            }
            View::Help => {
                self.view = View::Pods;
                Effect::Draw
            }
            View::Story { scroll, .. } => {
                match key {
                    Key::Up => *scroll = scroll.saturating_sub(1),
                    Key::Down => *scroll = scroll.saturating_add(1),
                    Key::PageUp => *scroll = scroll.saturating_sub(10),
                    Key::PageDown => *scroll = scroll.saturating_add(10),
                    Key::First => *scroll = 0,
                    Key::Enter | Key::Escape | Key::Backspace | Key::Char('q') => {
                        self.view = View::Pods;
                    }
                    Key::Last | Key::Interrupt | Key::Char(_) => {}
                }
                Effect::Draw
            }
        }
    }

    fn pressed_in_pods(&mut self, key: Key) -> Effect {
        match key {
            Key::Up | Key::Char('k') => self.step(-1),
            Key::Down | Key::Char('j') => self.step(1),
            Key::PageUp => self.step(-PAGE),
            Key::PageDown => self.step(PAGE),
            Key::First | Key::Char('g') => self.step(isize::MIN),
            Key::Last | Key::Char('G') => self.step(isize::MAX),
            Key::Char('/') => self.view = View::Filtering,
            Key::Char('?' | 'h') => self.view = View::Help,
            Key::Char('r') => self.down = !self.down,
            Key::Char('p') => self.paused = !self.paused,
            Key::Char('<') => self.sort_by_neighbour(Column::ALL.len() - 1),
            Key::Char('>') => self.sort_by_neighbour(1),
            Key::Char('n') => self.sort_by(Column::Name),
            Key::Char('u') => self.sort_by(Column::Usage),
            Key::Char('e') => self.sort_by(Column::Need),
            Key::Char('l') => self.sort_by(Column::Limit),
            Key::Char('t') => self.sort_by(Column::Throttled),
            Key::Char('c') => self.sort_by(Column::Change),
            Key::Escape => self.filter.clear(),
            Key::Char('q') | Key::Interrupt => return Effect::Quit,
            Key::Enter => {
                if let Some(pod) = self.picked_pod() {
                    let uid = pod.uid.clone();
                    self.view = View::Story { uid: uid.clone(), told: None, scroll: 0 };
                    return Effect::Explain(uid);
                }
            }
            Key::Backspace | Key::Char(_) => {}
        }
        Effect::Draw
    }

    fn pressed_in_filter(&mut self, key: Key) {
        match key {
            Key::Char(letter) => self.filter.push(letter),
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Escape => {
                self.filter.clear();
                self.view = View::Pods;
            }
            Key::Enter => self.view = View::Pods,
            Key::Up => self.step(-1),
            Key::Down => self.step(1),
            Key::PageUp | Key::PageDown | Key::First | Key::Last | Key::Interrupt => {}
        }
    }

    fn sort_by(&mut self, column: Column) {
        self.down = if self.by == column { !self.down } else { !column.is_text() };
        self.by = column;
    }

    fn sort_by_neighbour(&mut self, steps: usize) {
        let place = Column::ALL.iter().position(|column| *column == self.by).unwrap_or_default();
        self.by = Column::ALL[(place + steps) % Column::ALL.len()];
        self.down = !self.by.is_text();
    }

    fn step(&mut self, by: isize) {
        let pods = self.pods();
        let Some(last) = pods.len().checked_sub(1) else {
            return;
        };
        let place = self.place_among(&pods).saturating_add_signed(by).min(last);
        self.picked = Some(pods[place].uid.clone());
    }
}

// === impl App: queries ===

impl App {
    /// The pods that are shown, in order.
    pub(super) fn pods(&self) -> Vec<&PodState> {
        let words = self.filter.to_lowercase();
        let fits = |pod: &&PodState| {
            let text = format!("{} {} {}", pod.name, pod.kind, pod.uid).to_lowercase();
            words.split_whitespace().all(|word| text.contains(word))
        };
        let all = self.state.iter().flat_map(|state| &state.pods);
        let mut pods: Vec<&PodState> = all.filter(fits).collect();
        pods.sort_by(|a, b| {
            let order = self.by.compare(a, b);
            let order = if self.down { order.reverse() } else { order };
            order.then_with(|| a.uid.cmp(&b.uid))
        });
        pods
    }

    /// Where the cursor is among `pods`: on the first where its pod is gone.
    pub(super) fn place_among(&self, pods: &[&PodState]) -> usize {
        let picked = self.picked.as_deref();
        pods.iter().position(|pod| Some(pod.uid.as_str()) == picked).unwrap_or_default()
    }

    /// The pod whose story is open.
    pub(super) fn open_story(&self) -> Option<&str> {
        match &self.view {
            View::Story { uid, .. } => Some(uid),
            View::Pods | View::Filtering | View::Help => None,
        }
    }

    fn picked_pod(&self) -> Option<&PodState> {
        let pods = self.pods();
        pods.get(self.place_among(&pods)).copied()
    }
}
