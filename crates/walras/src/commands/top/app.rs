//! What `walras top` shows and does, without a terminal: keys and answers come in, and what has to
//! be asked of the daemon comes out.

use walras_wire::state::{Explanation, NodeState, WorkloadState};

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
    /// What the workloads are sorted by.
    pub(super) by: Column,
    /// The largest first.
    pub(super) down: bool,
    /// Only workloads that have this in their name, kind or uid.
    pub(super) filter: String,
    /// The workload under the cursor, by uid, since rows move.
    pub(super) picked: Option<String>,
    /// What is in front.
    pub(super) view: View,
    /// Whether new states are ignored.
    pub(super) frozen: bool,
}

/// What is in front.
#[derive(Debug)]
pub(super) enum View {
    /// The table.
    Workloads,
    /// The table, while a filter is typed.
    Filtering,
    /// Why a workload has what it has.
    Story {
        /// The workload.
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
    /// Ask why this workload has what it has.
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
            view: View::Workloads,
            frozen: false,
        }
    }

    /// The daemon told its state, or could not be asked.
    pub(super) fn told(&mut self, answer: Result<NodeState, String>) {
        match answer {
            Ok(state) => {
                self.trouble = None;
                if !self.frozen || self.state.is_none() {
                    self.state = Some(state);
                }
            }
            Err(trouble) => self.trouble = Some(trouble),
        }
    }

    /// The daemon explained a workload, or refused to.
    pub(super) fn explained(&mut self, answer: Result<Explanation, String>) {
        let View::Story { uid, told, .. } = &mut self.view else {
            return;
        };
        match answer {
            Ok(explanation) if explanation.workload.uid == *uid => {
                *told = Some(Box::new(explanation))
            }
            // An answer about a workload that is no longer looked at.
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
            View::Workloads => self.pressed_in_workloads(key),
            View::Filtering => {
                self.pressed_in_filter(key);
                Effect::Draw
            }
            View::Help => {
                self.view = View::Workloads;
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
                        self.view = View::Workloads;
                    }
                    Key::Last | Key::Interrupt | Key::Char(_) => {}
                }
                Effect::Draw
            }
        }
    }

    fn pressed_in_workloads(&mut self, key: Key) -> Effect {
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
            Key::Char('f') => self.frozen = !self.frozen,
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
                if let Some(workload) = self.picked_workload() {
                    let uid = workload.uid.clone();
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
                self.view = View::Workloads;
            }
            Key::Enter => self.view = View::Workloads,
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
        let workloads = self.workloads();
        let Some(last) = workloads.len().checked_sub(1) else {
            return;
        };
        let place = self.place_among(&workloads).saturating_add_signed(by).min(last);
        self.picked = Some(workloads[place].uid.clone());
    }
}

// === impl App: queries ===

impl App {
    /// The workloads that are shown, in order.
    pub(super) fn workloads(&self) -> Vec<&WorkloadState> {
        let words = self.filter.to_lowercase();
        let fits = |workload: &&WorkloadState| {
            let text =
                format!("{} {} {}", workload.name, workload.kind, workload.uid).to_lowercase();
            words.split_whitespace().all(|word| text.contains(word))
        };
        let all = self.state.iter().flat_map(|state| &state.workloads);
        let mut workloads: Vec<&WorkloadState> = all.filter(fits).collect();
        workloads.sort_by(|a, b| {
            let order = self.by.compare(a, b);
            let order = if self.down { order.reverse() } else { order };
            order.then_with(|| a.uid.cmp(&b.uid))
        });
        workloads
    }

    /// Where the cursor is among `workloads`: on the first where its workload is gone.
    pub(super) fn place_among(&self, workloads: &[&WorkloadState]) -> usize {
        let picked = self.picked.as_deref();
        workloads
            .iter()
            .position(|workload| Some(workload.uid.as_str()) == picked)
            .unwrap_or_default()
    }

    /// The workload whose story is open.
    pub(super) fn open_story(&self) -> Option<&str> {
        match &self.view {
            View::Story { uid, .. } => Some(uid),
            View::Workloads | View::Filtering | View::Help => None,
        }
    }

    fn picked_workload(&self) -> Option<&WorkloadState> {
        let workloads = self.workloads();
        workloads.get(self.place_among(&workloads)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::top::made_up;

    fn check(keys: &str) -> String {
        let mut app = App::new("http://node:8082".to_owned());
        app.told(Ok(made_up::state(&[("web", 300), ("db", 900), ("batch", 20)])));
        let mut effects = Vec::new();
        for word in keys.split_whitespace() {
            let key = match word {
                "up" => Key::Up,
                "down" => Key::Down,
                "end" => Key::Last,
                "home" => Key::First,
                "enter" => Key::Enter,
                "escape" => Key::Escape,
                "back" => Key::Backspace,
                letter => Key::Char(letter.chars().next().unwrap()),
            };
            match app.pressed(key) {
                Effect::Draw => {}
                Effect::Explain(uid) => effects.push(format!("explain {uid}")),
                Effect::Quit => effects.push("quit".to_owned()),
            }
        }
        let workloads = app.workloads();
        let place = app.place_among(&workloads);
        let names = workloads.iter().enumerate().map(|(row, workload)| {
            if row == place { format!("[{}]", workload.name) } else { workload.name.clone() }
        });
        names.chain(effects).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_busiest_workload_is_first_and_under_the_cursor() {
        assert_eq!(check(""), "[db] web batch");
    }

    #[test]
    fn the_cursor_stays_on_its_workload_when_rows_move() {
        assert_eq!(check("down"), "db [web] batch");
        assert_eq!(check("down n"), "batch db [web]");
        assert_eq!(check("end r"), "[batch] web db");
        assert_eq!(check("end down down home up"), "[db] web batch");
    }

    #[test]
    fn a_filter_leaves_what_fits_and_escape_clears_it() {
        assert_eq!(check("/ b enter"), "[db] web batch", "all of them have a b");
        assert_eq!(check("/ D B enter"), "[db]", "case does not matter");
        assert_eq!(check("/ x"), "");
        assert_eq!(check("/ x enter down enter"), "", "there is nothing to explain");
        assert_eq!(check("/ x back enter"), "[db] web batch");
        assert_eq!(check("/ q escape"), "[db] web batch", "letters do not quit while one types");
    }

    #[test]
    fn enter_explains_the_workload_under_the_cursor_and_q_leaves_one_thing_at_a_time() {
        assert_eq!(check("down enter"), "db [web] batch explain u-web");
        assert_eq!(check("enter q q"), "[db] web batch explain u-db quit");
        assert_eq!(check("? q q"), "[db] web batch quit");
    }

    #[test]
    fn a_daemon_that_is_gone_leaves_the_last_state_with_the_trouble_beside_it() {
        let mut app = App::new(String::new());
        app.told(Ok(made_up::state(&[("web", 1)])));
        app.told(Err("no daemon answers".to_owned()));
        assert!(app.state.is_some());
        assert_eq!(app.trouble.as_deref(), Some("no daemon answers"));
        app.told(Ok(made_up::state(&[])));
        assert_eq!(app.trouble, None);
    }

    #[test]
    fn a_frozen_screen_stands_still() {
        let mut app = App::new(String::new());
        app.told(Ok(made_up::state(&[("web", 1)])));
        app.pressed(Key::Char('f'));
        app.told(Ok(made_up::state(&[])));
        assert_eq!(app.workloads().len(), 1);
    }
}
