// A table of many rows. Only rows that can be seen are there; above and below them is empty space of
// the right height. A row stays while it is seen, and only cells whose text differs are touched, so
// that hundreds cost no more than a few dozen, and neither the focus nor a selection gets lost.

import { node, say } from "./page.js";

// Rows beyond the edge of the window, so that scrolling does not show gaps.
const BEYOND = 6;
// So few are all there, seen or not.
const FEW = 60;

/**
 * The table in `table`.
 *
 * - `columns`: each has a `key`, a `title`, and what it is sorted by; `text(item)` is what its cell
 *   says. `wide` ones disappear where there is little room, the higher the sooner. `up` ones begin
 *   with the smallest. Items that are equal stay in the order of their `uid`.
 * - `by`: the key of the column that it is sorted by at first.
 * - `words(item)`: the text that a filter is looked for in.
 * - `add(cells)`: puts more into the cells of a new row than text; what it returns is passed on to
 *   `fill(row, item)`, which is called whenever the item may differ. Rows are `{ element, more }`.
 * - `onPick(uid)`: somebody chose a row.
 */
export class Table {
  constructor(table, { columns, by, words, add, fill, onPick }) {
    this.columns = columns;
    this.words = words;
    this.addMore = add;
    this.fillMore = fill;
    this.onPick = onPick;
    this.body = table.tBodies[0];
    this.rows = new Map();
    this.by = columns.find((column) => column.key === by);
    this.down = !this.by.up;
    this.wanted = [];
    this.picked = null;
    this.heads = this.head(table.tHead);
    this.table = table;
    this.height = 34;
    this.above = space();
    this.below = space();
    this.body.append(this.above.row, this.below.row);
    this.items = null;
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
    const heads = this.columns.map((column) => {
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

  /** Shows only items that have every word of `text` in their own words. */
  filter(text) {
    this.wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.order();
  }

  /** Takes in new items, each with a `uid` of its own. */
  show(items) {
    this.items = items;
    this.order();
  }

  /** How many are shown after filtering. */
  get shown() {
    return this.sorted.length;
  }

  /** Marks the one that is open. */
  mark(uid) {
    this.picked = uid;
    for (const [other, row] of this.rows) row.element.classList.toggle("picked", other === uid);
  }

  /** Leads the keyboard back to a row, if it can be seen. */
  focus(uid) {
    this.rows.get(uid)?.element.focus({ preventScroll: true });
  }

  add(item) {
    const element = node("tr");
    element.tabIndex = 0;
    element.dataset.uid = item.uid;
    const cells = this.columns.map((column) => {
      const cell = node("td", kind(column));
      element.append(cell);
      return cell;
    });
    element.classList.toggle("picked", item.uid === this.picked);
    return { element, cells, more: this.addMore(cells) };
  }

  fill(row, item) {
    this.columns.forEach((column, place) => {
      if (column.text) say(row.cells[place], column.text(item));
    });
    this.fillMore(row, item);
  }

  order() {
    if (!this.items) return;
    const fits = (item) => {
      const text = this.words(item).toLowerCase();
      return this.wanted.every((word) => text.includes(word));
    };
    const key = this.by.sort;
    const turn = this.down ? -1 : 1;
    const sorted = this.items.filter(fits).map((item) => [key(item), item]);
    sorted.sort(([a, one], [b, other]) => {
      if (a !== b) return (a < b ? -1 : 1) * turn;
      return one.uid < other.uid ? -1 : 1;
    });
    this.sorted = sorted.map(([, item]) => item);
    this.heads.forEach((head, place) => {
      const active = this.columns[place] === this.by;
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
    const focused = document.activeElement;
    const rows = new Map();
    for (const item of seen.items) {
      const row = this.rows.get(item.uid) ?? this.add(item);
      this.rows.delete(item.uid);
      rows.set(item.uid, row);
      this.fill(row, item);
    }
    for (const row of this.rows.values()) row.element.remove();
    this.rows = rows;
    let next = this.above.row.nextElementSibling;
    for (const { element } of rows.values()) {
      if (element === next) next = next.nextElementSibling;
      else this.body.insertBefore(element, next);
    }
    // A row that was moved has lost the focus on its way.
    if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
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

  /** The items that can be seen, and how many there are above and below. */
  seen() {
    const { top } = this.body.getBoundingClientRect();
    const count = this.sorted.length;
    if (count <= FEW) return { items: this.sorted, above: 0, below: 0 };
    const row = (pixels) => Math.min(count, Math.max(0, Math.floor(pixels / this.height)));
    // A few are always there, for whoever comes by the keyboard.
    const from = Math.min(row(-top - BEYOND * this.height), count - BEYOND);
    const to = Math.max(from + BEYOND, row(innerHeight - top + BEYOND * this.height));
    return { items: this.sorted.slice(from, to), above: from, below: count - to };
  }

  pick(target) {
    const row = target.closest("tr[data-uid]");
    if (row) this.onPick(row.dataset.uid);
  }
}

export function style(element, property, value) {
  if (element.style[property] !== value) element.style[property] = value;
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
