//! The frame of a plot: where it is in its picture, its axes, and their labels.

use super::markup::{escape, px};
use super::scale::{Scale, Tick};

/// The part of a picture that data is drawn in, in pixels of the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    /// Room between the bottom of the frame and the axis.
    pub(super) below: f64,
}

/// Half the width of a long label.
const LABEL: f64 = 16.0;

/// A labelled direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis<'a> {
    pub(super) scale: Scale,
    pub(super) title: &'a str,
    /// How many labels there is room for.
    pub(super) ticks: usize,
}

/// Which part of a label is at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture of this size, which scales with the page; `label` says what it shows.
pub(super) fn picture(width: f64, height: f64, label: &str, inside: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n{inside}</svg>\n",
        px(width),
        px(height),
        escape(label)
    )
}

// === impl Frame ===

impl Frame {
    /// Where a place from 0 to 1 is, from left to right.
    pub(super) fn x(&self, place: f64) -> f64 {
        self.left + self.width * place
    }

    /// Where a place from 0 to 1 is, from the bottom up.
    pub(super) fn y(&self, place: f64) -> f64 {
        self.top + self.height * (1.0 - place)
    }

    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// Grid, labels and titles.
    pub(super) fn axes(&self, across: &Axis<'_>, up: &Axis<'_>) -> String {
        let mut text = String::new();
        let (left, right, top) = (self.left, self.right(), self.top);
        let axis = self.bottom() + self.below;
        for Tick { place, label } in up.scale.ticks(up.ticks) {
            let y = self.y(place);
            text += &line([left, y], [right, y], "grid");
            text += &label_at([left - 5.0, y + 3.5], Anchor::End, &label);
        }
        for Tick { place, label } in across.scale.ticks(across.ticks) {
            let x = self.x(place);
            text += &line([x, top], [x, axis], "grid");
            // The last label must not leave the picture.
            let (x, anchor) =
                if right - x < LABEL { (right, Anchor::End) } else { (x, Anchor::Middle) };
            text += &label_at([x, axis + 14.0], anchor, &label);
        }
        text += &line([left, axis], [right, axis], "axis");
        if !across.title.is_empty() {
            text += &label_at([right, axis + 28.0], Anchor::End, across.title);
        }
        if !up.title.is_empty() {
            text += &label_at([left - 28.0, top - 9.0], Anchor::Start, up.title);
        }
        text
    }
}

/// A line of a class.
pub(super) fn line(from: [f64; 2], to: [f64; 2], class: &str) -> String {
    let [x1, y1] = from.map(px);
    let [x2, y2] = to.map(px);
    format!("<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" class=\"{class}\"/>\n")
}

/// A label that begins, is centred, or ends at a point.
pub(super) fn label_at(at: [f64; 2], anchor: Anchor, text: &str) -> String {
    let [x, y] = at.map(px);
    let anchor = anchor.name();
    format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{}</text>\n", escape(text))
}

// === impl Anchor ===

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}
