// The table of pods. Only rows that can be seen are there; above and below them is empty space of
// the right height. A pod keeps its row while it is seen, and only cells whose text differs are
// touched, so that hundreds of pods cost no more than a few dozen.

import { node } from "./plot.js";
import { milli, moves, percent, result, span } from "./words.js";

// Each column: a heading, what it is sorted by, and what its cell says. `wide` columns disappear
// where there is little room, the higher the sooner.
const COLUMNS = [
  { key: "name", title: "Pod", text: (pod) => pod.name, sort: (pod) => pod.name.toLowerCase(), up: true },
  { key: "bar", title: "Of its limit", sort: (pod) => (pod.usage_milli ?? -1) / Math.max(1, pod.limit_milli) },
  { key: "usage", title: "Usage", number: true, text: (pod) => milli(pod.usage_milli), sort: (pod) => pod.usage_milli ?? -1 },
  { key: "need", title: "Need", number: true, wide: 1, text: (pod) => milli(pod.need_milli), sort: (pod) => pod.need_milli ?? -1 },
  { key: "grant", title: "Grant", number: true, wide: 2, help: "What the market granted", text: (pod) => milli(pod.grant_milli), sort: (pod) => pod.grant_milli ?? -1 },
  { key: "request", title: "Request", number: true, wide: 3, help: "Its guarantee", text: (pod) => milli(pod.request_milli), sort: (pod) => pod.request_milli },
  { key: "limit", title: "Limit", number: true, help: "Its cap", text: (pod) => milli(pod.limit_milli), sort: (pod) => pod.limit_milli },
  { key: "throttled", title: "Throttled", number: true, help: "Throttled periods over all periods, lately", text: (pod) => percent(pod.throttled_period_ratio), sort: (pod) => pod.throttled_period_ratio ?? -1 },
  { key: "weight", title: "Weight", number: true, wide: 3, text: (pod) => String(pod.weight), sort: (pod) => pod.weight },
  { key: "change", title: "Last change", wide: 2, text: (pod, now) => changeText(pod.last_change, now), sort: (pod) => pod.last_change?.at_ms ?? 0 },
];

// Rows beyond the edge of the window, so that scrolling does not show gaps.
const BEYOND = 6;
// So few pods are all there, seen or not.
const FEW = 60;

/** The table in `table`. Calls `onPick(uid)` when a pod is chosen. */
export class Pods {
  constructor(table, onPick) {
    this.body = table.tBodies[0];
    this.rows = new Map();
    this.by = COLUMNS.find((column) => column.key === "usage");
    this.down = true;
    this.words = "";
    this.picked = null;
    this.onPick = onPick;
    this.heads = this.head(table.tHead);
    this.table = table;
    this.height = 34;
    this.above = space();
    this.below = space();
    this.body.append(this.above.row, this.below.row);
    this.sorted = [];
    addEventListener("scroll", () => this.later(), { passive: true });
    new ResizeObserver(() => this.later()).observe(table);
    addEventListener("resize", () => this.later());
    this.body.addEventListener("click", (event) => this.pick(event.target));
    this.body.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      this.pick(event.target);
    });
  }

  head(thead) {
    const row = node("tr");
    const heads = COLUMNS.map((column) => {
      const cell = node("th", kind(column));
      cell.scope = "col";
      const button = node("button", "", column.title);
      button.type = "button";
      if (column.help) button.title = column.help;
      button.addEventListener("click", () => this.sortBy(column));
      cell.append(button);
      row.append(cell);
      return cell;
    });
    thead.append(row);
    return heads;
  }

  sortBy(column) {
    this.down = this.by === column ? !this.down : !column.up;
    this.by = column;
    this.order();
  }

  /** Shows only pods that have every word of `text` in their name, kind or uid. */
  filter(text) {
    this.words = text.toLowerCase();
    this.order();
  }

  /** Takes in a new state. */
  show(state) {
    this.state = state;
    this.order();
  }

  /** How many pods are shown after filtering. */
  get shown() {
    return this.sorted.length;
  }

  /** Marks the pod whose detail is open. */
  mark(uid) {
    this.picked = uid;
    for (const [other, row] of this.rows) row.element.classList.toggle("picked", other === uid);
  }

  add(pod) {
    const element = node("tr");
    element.tabIndex = 0;
    element.dataset.uid = pod.uid;
    const cells = COLUMNS.map((column) => {
      const cell = node("td", kind(column));
      element.append(cell);
      return cell;
    });
    const name = node("span", "name");
    const from = node("span", "tag");
    cells[0].append(name, from);
    const bar = node("div", "meter");
    const fill = node("i", "fill");
    const tick = node("i", "need");
    bar.append(fill, tick);
    cells[1].append(bar);
    element.classList.toggle("picked", pod.uid === this.picked);
    return { element, cells, name, from, fill, tick, bar };
  }

  fill({ element, cells, name, from, fill, tick, bar }, pod) {
    const now = this.state.at_ms;
    COLUMNS.forEach((column, place) => {
      if (column.key === "name") {
        say(name, pod.name);
        say(from, pod.kind);
      } else if (column.text) {
        say(cells[place], column.text(pod, now));
      }
    });
    const limit = Math.max(1, pod.limit_milli);
    const used = Math.min(100, (100 * (pod.usage_milli ?? 0)) / limit);
    const need = Math.min(100, (100 * (pod.need_milli ?? 0)) / limit);
    style(fill, "width", `${used.toFixed(1)}%`);
    style(tick, "left", `${need.toFixed(1)}%`);
    tick.hidden = pod.need_milli == null;
    const throttled = (pod.throttled_period_ratio ?? 0) > 0.02;
    element.classList.toggle("throttled", throttled);
    element.classList.toggle("late", pod.latency_missed);
    const failed = pod.last_change != null && typeof pod.last_change.result === "object";
    element.classList.toggle("failed", failed);
    const title = `uses ${milli(pod.usage_milli)}, needs ${milli(pod.need_milli)}, limit ${milli(pod.limit_milli)}`;
    if (bar.title !== title) bar.title = title;
  }

  order() {
    if (!this.state) return;
    const words = this.words.split(/\s+/).filter(Boolean);
    const fits = (pod) => {
      const text = `${pod.name} ${pod.kind} ${pod.uid}`.toLowerCase();
      return words.every((word) => text.includes(word));
    };
    const key = this.by.sort;
    const turn = this.down ? -1 : 1;
    const sorted = this.state.pods.filter(fits).map((pod) => [key(pod), pod]);
    sorted.sort(([a, one], [b, other]) => {
      if (a !== b) return (a < b ? -1 : 1) * turn;
      return one.uid < other.uid ? -1 : 1;
    });
    this.sorted = sorted.map(([, pod]) => pod);
    this.heads.forEach((head, place) => {
      const active = COLUMNS[place] === this.by;
      const sort = active ? (this.down ? "descending" : "ascending") : "none";
      if (head.ariaSort !== sort) head.ariaSort = sort;
    });
    this.table.setAttribute("aria-rowcount", String(this.sorted.length + 1));
    this.place();
  }

  /** Places rows before the next picture is drawn, however often it is asked for. */
  later() {
    if (this.planned) return;
    this.planned = true;
    requestAnimationFrame(() => {
      this.planned = false;
      this.place();
    });
  }

  /** Puts the rows that can be seen where they belong. */
  place() {
    const seen = this.seen();
    const rows = new Map();
    for (const pod of seen.pods) {
      const row = this.rows.get(pod.uid) ?? this.add(pod);
      this.rows.delete(pod.uid);
      rows.set(pod.uid, row);
      this.fill(row, pod);
    }
    for (const row of this.rows.values()) row.element.remove();
    this.rows = rows;
    let next = this.above.row.nextElementSibling;
    for (const { element } of rows.values()) {
      if (element === next) next = next.nextElementSibling;
      else this.body.insertBefore(element, next);
    }
    style(this.above.cell, "height", `${seen.above * this.height}px`);
    style(this.below.cell, "height", `${seen.below * this.height}px`);
    const [first] = rows.values();
    const height = first?.element.offsetHeight;
    // Rows are higher on a narrow screen.
    if (height && height !== this.height) {
      this.height = height;
      this.later();
    }
  }

  /** The pods that can be seen, and how many there are above and below. */
  seen() {
    const { top } = this.body.getBoundingClientRect();
    const count = this.sorted.length;
    if (count <= FEW) return { pods: this.sorted, above: 0, below: 0 };
    const row = (pixels) => Math.min(count, Math.max(0, Math.floor(pixels / this.height)));
    const from = row(-top - BEYOND * this.height);
    const to = Math.max(from, row(innerHeight - top + BEYOND * this.height));
    return { pods: this.sorted.slice(from, to), above: from, below: count - to };
  }

  pick(target) {
    const row = target.closest("tr[data-uid]");
    if (row) this.onPick(row.dataset.uid);
  }
}

function kind(column) {
  return [column.key, column.number ? "number" : "", column.wide ? `wide${column.wide}` : ""].join(" ").trim();
}

/** A row of nothing, as high as the rows that are not there. */
function space() {
  const row = node("tr", "space");
  row.ariaHidden = "true";
  const cell = node("td");
  row.append(cell);
  return { row, cell };
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function style(element, property, value) {
  if (element.style[property] !== value) element.style[property] = value;
}

function changeText(change, now) {
  if (!change) return "none yet";
  const ago = `${span((now - change.at_ms) / 1000)} ago`;
  const what = result(change);
  if (what) return `${ago}, ${what}`;
  return `${ago}, ${moves(change)}`;
}
