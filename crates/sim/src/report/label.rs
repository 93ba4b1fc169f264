//! Puts the names of points next to them, so that no name covers another one or a point.
//!
//! Every name takes the nearest free place of a few around its point; one that had to go further
//! away is connected to it by a line. Where nothing is free, the place with the least overlap is
//! taken, so every point has its name.

use super::frame::{Anchor, Frame};

/// A point that wants a name next to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'a> {
    pub(super) at: [f64; 2],
    pub(super) name: &'a str,
}

/// Where a name goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    /// Where the name begins, is centred, or ends, on its base line.
    pub(super) at: [f64; 2],
    /// Which of these.
    pub(super) anchor: Anchor,
    /// Where a line from the point to the name ends, if one is needed.
    pub(super) tether: Option<[f64; 2]>,
}

/// Widths of letters differ; this is a little more than their mean in the page's small type.
const LETTER: f64 = 6.7;
const HEIGHT: f64 = 12.0;
/// A point keeps its neighbourhood free.
const AROUND: f64 = 6.0;
/// How many rows above and below a point are tried.
const ROWS: u32 = 9;

#[derive(Clone, Copy, Debug)]
struct Area {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

/// Finds a place for each name; the first ones choose first.
pub(super) fn places(frame: &Frame, spots: &[Spot<'_>]) -> Vec<Place> {
    let mut taken: Vec<Area> = spots.iter().map(|spot| Area::around(spot.at)).collect();
    let inside = Area {
        left: frame.left,
        top: frame.top,
        right: frame.right(),
        bottom: frame.bottom() + frame.below,
    };
    let mut places = Vec::with_capacity(spots.len());
    for spot in spots {
        let mut best: Option<(f64, Area)> = None;
        for (effort, area) in candidates(spot) {
            let covered: f64 = taken.iter().map(|other| area.overlap(other)).sum();
            let cost = effort + 10.0 * covered + 10.0 * (area.size() - area.overlap(&inside));
            if best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, area));
            }
        }
        if let Some((_, area)) = best {
            taken.push(area);
            places.push(area.place(spot.at));
        }
    }
    places
}

/// Places for a name, each with how far-fetched it is.
fn candidates(spot: &Spot<'_>) -> Vec<(f64, Area)> {
    let [x, y] = spot.at;
    let letters = u32::try_from(spot.name.chars().count()).unwrap_or(u32::MAX);
    let width = f64::from(letters) * LETTER;
    let area = |left: f64, top: f64| Area { left, top, right: left + width, bottom: top + HEIGHT };
    let mut all = vec![
        (0.0, area(x + AROUND + 2.0, y - HEIGHT / 2.0)),
        (1.0, area(x - AROUND - 2.0 - width, y - HEIGHT / 2.0)),
    ];
    for row in 0..ROWS {
        let away = AROUND + 2.0 + f64::from(row) * (HEIGHT + 1.0);
        let effort = 2.0 + 6.0 * f64::from(row);
        for (more, left) in [(0.0, x - width / 2.0), (1.0, x + 2.0), (1.5, x - 2.0 - width)] {
            all.push((effort + more, area(left, y - away - HEIGHT)));
            all.push((effort + more + 0.5, area(left, y + away)));
        }
    }
    all
}

// === impl Area ===

impl Area {
    fn around([x, y]: [f64; 2]) -> Self {
        Self { left: x - AROUND, top: y - AROUND, right: x + AROUND, bottom: y + AROUND }
    }

    fn size(&self) -> f64 {
        (self.right - self.left) * (self.bottom - self.top)
    }

    fn overlap(&self, other: &Self) -> f64 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        width.max(0.0) * height.max(0.0)
    }

    /// The place of a name that fills the area, and its tether to its point.
    fn place(&self, [x, y]: [f64; 2]) -> Place {
        let near_y = y.clamp(self.top + 2.0, self.bottom - 2.0);
        let near_x = x.clamp(self.left, self.right);
        let far = (near_y - y).abs() > HEIGHT + AROUND;
        let tether = far.then_some([near_x, near_y]);
        // Letters are not as wide as was guessed; the side towards the point is kept.
        let (edge, anchor) = if self.left >= x {
            (self.left, Anchor::Start)
        } else if self.right <= x {
            (self.right, Anchor::End)
        } else {
            (f64::midpoint(self.left, self.right), Anchor::Middle)
        };
        Place { at: [edge, self.bottom - 3.0], anchor, tether }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Frame = Frame { left: 0.0, top: 0.0, width: 400.0, height: 300.0, below: 0.0 };

    fn area(place: &Place, name: &str) -> Area {
        let letters = u32::try_from(name.len()).expect("short");
        let (width, [edge, base]) = (f64::from(letters) * LETTER, place.at);
        let left = match place.anchor {
            Anchor::Start => edge,
            Anchor::Middle => edge - width / 2.0,
            Anchor::End => edge - width,
        };
        let (right, bottom) = (left + width, base + 3.0);
        Area { left, top: bottom - HEIGHT, right, bottom }
    }

    #[test]
    fn a_lonely_name_is_right_of_its_point() {
        let spots = [Spot { at: [100.0, 100.0], name: "vpa" }];
        assert_eq!(
            places(&FRAME, &spots),
            [Place { at: [108.0, 103.0], anchor: Anchor::Start, tether: None }]
        );
    }

    #[test]
    fn names_of_a_crowd_do_not_cover_each_other() {
        let names = ["static", "weights", "koordinator", "autothrottle", "walras", "walras-api"];
        let spots: Vec<Spot<'_>> = (0..)
            .zip(names)
            .map(|(place, name)| Spot { at: [150.0 + 12.0 * f64::from(place), 290.0], name })
            .collect();
        let found = places(&FRAME, &spots);
        assert_eq!(found.len(), names.len());
        for (one, name) in found.iter().zip(names) {
            for (other, second) in found.iter().zip(names).filter(|(_, second)| *second != name) {
                let overlap = area(one, name).overlap(&area(other, second));
                assert!(overlap < 1.0, "{name} and {second}");
            }
        }
        assert!(found.iter().any(|place| place.tether.is_some()));
    }
}
