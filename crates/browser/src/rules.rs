//! What holds of every page of Walras, whatever it shows: it fits, it can be read, and it can be
//! used without a mouse. Also where pictures of pages are left.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::Chromium;

/// The widths at which a page has to fit: a telephone, a laptop and a large screen.
pub const WIDTHS: [u32; 3] = [400, 1400, 2000];

/// How far the page sticks out of its window sideways.
const OVERFLOW: &str = "document.documentElement.scrollWidth - innerWidth";

/// Figures and words of one line that are cut off.
const CUT: &str = "[...document.querySelectorAll(\
        '.tile b, .tile span, .pill, th button, td.number')]\
    .filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1)\
    .filter((one) => getComputedStyle(one).display !== 'inline')\
    .map((one) => one.textContent)";

/// Text whose colour is too close to that of what is behind it, by the usual rule for small text.
/// Plots are left out: what they say is said in words beside them.
const FAINT: &str = r"(() => {
  const parts = (color) => color.match(/[\d.]+/g).map(Number);
  const light = ([red, green, blue]) => [red, green, blue]
    .map((byte) => byte / 255)
    .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
    .reduce((sum, one, place) => sum + one * [0.2126, 0.7152, 0.0722][place], 0);
  const back = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const color = parts(getComputedStyle(at).backgroundColor);
      if ((color[3] ?? 1) > 0) return color;
    }
    return [255, 255, 255];
  };
  const ratio = (one, part) => {
    const pair = [light(parts(getComputedStyle(one, part).color)), light(back(one))];
    return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
  };
  const isText = (child) => child.nodeType === Node.TEXT_NODE && child.data.trim();
  const all = [...document.body.querySelectorAll('*')]
    .filter((one) => one.checkVisibility() && !one.closest('svg, script, noscript'));
  const texts = all.filter((one) => [...one.childNodes].some(isText))
    .map((one) => [ratio(one), one.textContent]);
  const hints = all.filter((one) => one.placeholder)
    .map((one) => [ratio(one, '::placeholder'), one.placeholder]);
  return [...texts, ...hints].filter(([ratio]) => ratio < 4.5)
    .map(([ratio, text]) => `${ratio.toFixed(2)} ${text}`);
})()";

/// What can be reached by the keyboard and has no name that could be read out, or has a place of
/// its own in the order.
const NAMELESS: &str = "[...document.querySelectorAll('button, input, a, [tabindex]')]\
    .filter((one) => one.checkVisibility())\
    .filter((one) => one.tabIndex > 0 || !(one.ariaLabel || one.labels?.[0]?.textContent \
        || one.textContent).trim() || one.textContent.trim() === '\u{d7}' && !one.ariaLabel)\
    .map((one) => one.outerHTML)";

/// A folder for pictures of pages, to be looked at by people.
#[derive(Clone, Debug)]
pub struct Pictures {
    folder: PathBuf,
}

// === impl Pictures ===

impl Pictures {
    /// The folder `name` in `target`, which is cargo's for tests.
    #[must_use]
    pub fn new(target: &str, name: &str) -> Self {
        let folder = Path::new(target).join(name);
        fs::create_dir_all(&folder).expect("the target folder can be written");
        Self { folder }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the picture of this name is.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.png"))
    }
}

// === impl Chromium ===

impl Chromium {
    /// Fails unless the page fits its window, can be read, and can be used with the keyboard.
    pub fn assert_usable(&mut self, case: &str) {
        assert_eq!(self.value(OVERFLOW), json!(0), "what sticks out, in pixels: {case}");
        assert_eq!(self.value(CUT), json!([]), "what is cut off: {case}");
        assert_eq!(self.value(FAINT), json!([]), "what is hard to read: {case}");
        assert_eq!(self.value(NAMELESS), json!([]), "what has no name: {case}");
    }

    /// Fails if the page complained: of an exception, or of a file that is blocked or missing.
    pub fn assert_no_complaints(&mut self) {
        assert_eq!(self.complaints(), Vec::<String>::new());
    }
}
