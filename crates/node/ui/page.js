// What every page of Walras has: its pills and tiles, what it says of problems, its keys, and its
// choice of light or dark.

import { span } from "./words.js";

const THEMES = ["auto", "light", "dark"];

export const at = (id) => document.getElementById(id);

/** An element of HTML with its class and its text. */
export function node(name, kind = "", text = "") {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  if (text !== "") made.textContent = text;
  return made;
}

/** Changes a text only where it differs: a selection in it stays. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function pill(element, text, kind) {
  element.hidden = false;
  say(element, text);
  element.dataset.kind = kind;
}

/** Fills a list with a row for each of `items`, unless they are the same as before. */
export function fillList(list, items, parts) {
  const text = JSON.stringify(items);
  if (list.dataset.text === text) return;
  list.dataset.text = text;
  list.replaceChildren(...items.map((item) => {
    const row = node("li");
    row.append(...parts(item));
    return row;
  }));
}

export function showProblems(problems) {
  at("problems").hidden = problems.length === 0;
  fillList(at("problems"), problems, (problem) => [problem]);
}

/** Says that `who` does not answer; `heard` is when it last did, if it ever did. */
export function tellGone(isGone, heard, who, hint) {
  const gone = at("gone");
  gone.hidden = !isGone;
  document.body.style.setProperty("--banner", isGone ? `${gone.offsetHeight}px` : "0px");
  if (!isGone) return;
  gone.textContent = heard == null
    ? `${who} does not answer. ${hint} Trying again.`
    : `${who} does not answer. It was last heard ${span((performance.now() - heard) / 1000)} ago; everything below is from then. Trying again.`;
}

/** Adds a tile with a figure: what it is, its value, a note, and a bar where there is a whole. */
export function addTile(place, title) {
  const tile = node("div", "card tile");
  const parts = { title: node("span", "faint", title), value: node("b"), note: node("span", "faint note"), meter: node("div", "meter") };
  parts.fill = node("i", "fill");
  parts.meter.append(parts.fill);
  parts.meter.hidden = true;
  tile.append(parts.title, parts.value, parts.meter, parts.note);
  place.append(tile);
  return parts;
}

/** Says a tile's figure; `share` is its part of the whole, where there is one. */
export function tellTile(tile, value, note, share) {
  say(tile.value, value);
  say(tile.note, note);
  tile.meter.hidden = share == null;
  tile.meter.classList.toggle("over", share > 1);
  if (share != null) tile.fill.style.width = `${Math.min(100, Math.max(0, share * 100)).toFixed(1)}%`;
}

/** What is open by the address of the page, if anything. */
export function pickedByAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1)) || null;
  } catch {
    return null;
  }
}

export function setAddress(picked) {
  const hash = picked == null ? "" : `#${encodeURIComponent(picked)}`;
  if (location.hash !== hash) history.replaceState(null, "", hash || location.pathname);
}

/** Keys that work anywhere: Escape calls `onEscape`, and a slash leads to the filter. */
export function listenToKeys(onEscape) {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") onEscape();
    if (event.key === "/" && event.target.tagName !== "INPUT") {
      event.preventDefault();
      at("filter").focus();
    }
  });
}

// === light and dark ===

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  at("theme").textContent = theme;
  try {
    localStorage.setItem("walras-theme", theme);
  } catch {
    // A browser that keeps nothing starts with its own choice next time.
  }
}

function storedTheme() {
  try {
    return localStorage.getItem("walras-theme");
  } catch {
    return null;
  }
}

/** Lets the button of that name choose. */
export function chooseTheme() {
  at("theme").addEventListener("click", () => {
    const now = document.documentElement.dataset.theme;
    setTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
  });
  setTheme(THEMES.includes(storedTheme()) ? storedTheme() : "auto");
}
