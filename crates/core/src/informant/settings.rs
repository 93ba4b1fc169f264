//! How long the program in a guest waits, how often it asks, and what it keeps. Every constant with
//! its reason.

use crate::units::{Bytes, Ratio, Span};

/// The constants of the program in a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The version of the protocol: 4 is 2.0.
    pub version: u32,
    /// So many agents are known at once. Two meet during an upgrade; more is a mistake.
    pub agents_max: usize,
    /// So many are being registered at once.
    pub coming_max: usize,
    /// An agent that nothing was heard of is called this often.
    pub check_every: Span,
    /// It has to answer within this.
    pub check_within: Span,
    /// After so many calls in a row without an answer, an agent is forgotten.
    pub missed_max: u32,
    /// An agent has to agree to be resumed within this. The predecessor's 100 ms are less than
    /// a guest without hardware virtualisation may take to be scheduled.
    pub resume_within: Span,
    /// An agent has to agree to be suspended within this.
    pub suspend_within: Span,
    /// An agent has to answer within this when asked for more.
    pub ask_within: Span,
    /// The guest asks for more at most this often, and twice as long after each time in vain.
    pub ask_pause: Span,
    /// But at least this often while it is in need: agents forget what was asked for after 10 s.
    pub ask_pause_max: Span,
    /// In so many looks in a row CPU has to be short before it is asked for.
    pub cpu_looks: u32,
    /// A CPU is not given up that tasks wanted in each of so many looks: it would be asked for
    /// again at once.
    pub cpu_busy_looks: usize,
    /// CPU is short where a task waited for it in this part of the time.
    pub cpu_stall: Ratio,
    /// With less than this part of the time idle, a part of a CPU is used up.
    pub cpu_idle: Ratio,
    /// Memory is short where a task waited for it in this part of the time.
    pub memory_stall: Ratio,
    /// Memory is short where more than this part of it is in use.
    pub memory_full: Ratio,
    /// Beside what is in use, so much has to stay free when memory is given up.
    pub memory_buffer: Bytes,
    /// What the kernel keeps of the machine's memory, where that cannot be told.
    pub memory_system: Bytes,
    /// What is in use is the most of so many looks.
    pub memory_looks: usize,
    /// Nothing is agreed to before there were so many looks.
    pub memory_looks_min: usize,
    /// Looks older than this say nothing.
    pub look_valid: Span,
}

impl Settings {
    /// Those in use.
    pub const DEFAULT: Self = Self {
        version: 4,
        agents_max: 4,
        coming_max: 4,
        check_every: Span::from_s(10),
        check_within: Span::from_s(1),
        missed_max: 3,
        resume_within: Span::from_s(1),
        suspend_within: Span::from_s(5),
        ask_within: Span::from_s(1),
        ask_pause: Span::from_s(1),
        ask_pause_max: Span::from_s(8),
        cpu_looks: 2,
        cpu_busy_looks: 5,
        cpu_stall: Ratio::from_percent(30),
        cpu_idle: Ratio::from_percent(10),
        memory_stall: Ratio::from_percent(10),
        memory_full: Ratio::from_percent(85),
        memory_buffer: Bytes::new(100 << 20),
        memory_system: Bytes::new(100 << 20),
        memory_looks: 5,
        memory_looks_min: 2,
        look_valid: Span::from_s(5),
    };

    /// How long it is waited after the `asked`-th time that more was asked for.
    #[must_use]
    pub fn pause_after(&self, asked: u32) -> Span {
        let doubled = self.ask_pause.as_us().saturating_mul(1 << asked.saturating_sub(1).min(16));
        Span::from_us(doubled.min(self.ask_pause_max.as_us()))
    }
}
