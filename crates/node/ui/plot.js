// A plot of the last hour as SVG: lines over time, drawn to the size of its box, with a line that
// follows the pointer and tells what was so at that moment.

import { node } from "./page.js";
import { clock } from "./words.js";

const NS = "http://www.w3.org/2000/svg";
const HOUR_MS = 3600000;
const SHORTEST_MS = 300000;
const PAD = { left: 44, right: 10, top: 8, bottom: 20 };

/** One plot. `series` are `{ key, label, kind }`, where kind is a class: a colour and a style. */
export class Plot {
  constructor({ title, series, format, least, level }) {
    this.series = series;
    this.format = format;
    this.least = least ?? 1;
    this.level = level;
    this.data = null;
    this.hovered = null;
    this.root = node("figure", "card plot");
    const head = node("figcaption", "plot-head");
    head.append(node("h2", "", title));
    this.legend = node("div", "legend");
    this.values = series.map((one) => {
      const item = node("span", "key");
      item.append(node("i", `swatch ${one.kind}`), node("span", "", one.label));
      const value = node("b", "value");
      item.append(value);
      this.legend.append(item);
      return value;
    });
    this.when = node("span", "faint when");
    head.append(this.when);
    this.box = node("div", "plot-box");
    this.svg = shape("svg", { role: "img", "aria-label": title });
    this.box.append(this.svg);
    this.root.append(head, this.legend, this.box);
    this.svg.addEventListener("pointermove", (event) => this.hover(event));
    this.svg.addEventListener("pointerleave", () => this.hover(null));
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  /** Shows `data`: `{ at_ms, KEY: [...], level }`, columns of one length. */
  show(data) {
    this.data = data;
    this.draw();
  }

  draw() {
    const width = this.box.clientWidth;
    const height = this.box.clientHeight;
    const data = this.data;
    if (!data || width < 40 || height < 40) return;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.frame = this.scale(data, width, height);
    const parts = [...this.axes(width, height)];
    for (const one of this.series) parts.push(...this.line(one));
    if (this.level && data.level != null) {
      const at = this.frame.y(data.level);
      parts.push(label(width - PAD.right - 2, at < 24 ? at + 12 : at - 4, "end", this.level));
    }
    this.cursor = shape("line", { class: "cursor", y1: PAD.top, y2: height - PAD.bottom });
    parts.push(this.cursor);
    this.svg.replaceChildren(...parts);
    this.tell();
  }

  scale(data, width, height) {
    const last = data.at_ms.at(-1) ?? Date.now();
    const first = Math.max(data.at_ms[0] ?? last, last - HOUR_MS);
    const from = Math.min(first, last - SHORTEST_MS);
    let top = data.level ?? 0;
    for (const one of this.series) {
      for (const value of data[one.key]) if (value != null && value > top) top = value;
    }
    const step = niceStep(Math.max(top, this.least) / 3);
    const ceiling = Math.max(step, Math.ceil((Math.max(top, this.least) * 1.04) / step) * step);
    const x = (at) => PAD.left + ((at - from) / (last - from)) * (width - PAD.left - PAD.right);
    const y = (value) => height - PAD.bottom - (value / ceiling) * (height - PAD.top - PAD.bottom);
    return { from, last, step, ceiling, x, y };
  }

  *axes(width, height) {
    const { from, last, step, ceiling, x, y } = this.frame;
    for (let value = 0; value <= ceiling + step / 2; value += step) {
      const at = y(value);
      yield shape("line", { class: "grid", x1: PAD.left, x2: width - PAD.right, y1: at, y2: at });
      yield label(PAD.left - 6, at + 3.5, "end", this.format(value, true));
    }
    const minutes = tickMinutes((last - from) / 60000, width);
    const gap = minutes * 60000;
    for (let at = Math.ceil(from / gap) * gap; at <= last; at += gap) {
      const place = x(at);
      if (place > width - 24 || place < PAD.left + 8) continue;
      yield shape("line", { class: "grid", x1: place, x2: place, y1: PAD.top, y2: height - PAD.bottom });
      yield label(place, height - 5, "middle", clock(at));
    }
    if (this.data.level != null) {
      const at = y(this.data.level);
      yield shape("line", { class: "level", x1: PAD.left, x2: width - PAD.right, y1: at, y2: at });
    }
  }

  *line(one) {
    const { from, x, y } = this.frame;
    const column = this.data[one.key];
    let path = "";
    let area = "";
    let begun = null;
    let before = null;
    const floor = y(0).toFixed(1);
    const end = () => {
      if (begun != null) area += `L${before} ${floor}L${begun} ${floor}Z`;
      begun = null;
    };
    this.data.at_ms.forEach((at, place) => {
      const value = column[place];
      if (value == null || at < from) return end();
      const px = x(at).toFixed(1);
      const py = y(value).toFixed(1);
      path += `${begun == null ? "M" : "L"}${px} ${py}`;
      area += `${begun == null ? "M" : "L"}${px} ${py}`;
      begun ??= px;
      before = px;
    });
    end();
    if (one.filled) yield shape("path", { class: `area ${one.kind}`, d: area });
    yield shape("path", { class: `line ${one.kind}`, d: path });
  }

  hover(event) {
    this.hovered = event ? event.clientX - this.svg.getBoundingClientRect().left : null;
    this.tell();
  }

  /** Writes what is under the pointer into the legend, or what is now. */
  tell() {
    const { data, frame } = this;
    if (!data || !frame) return;
    let place = data.at_ms.length - 1;
    if (this.hovered != null) {
      let nearest = Infinity;
      data.at_ms.forEach((at, index) => {
        const distance = Math.abs(frame.x(at) - this.hovered);
        if (distance < nearest) [nearest, place] = [distance, index];
      });
    }
    const shown = this.hovered != null && place >= 0;
    this.cursor.setAttribute("visibility", shown ? "visible" : "hidden");
    if (shown) {
      const at = frame.x(data.at_ms[place]);
      this.cursor.setAttribute("x1", at);
      this.cursor.setAttribute("x2", at);
    }
    this.when.textContent = shown ? `at ${clock(data.at_ms[place], true)}` : "last hour";
    this.series.forEach((one, index) => {
      this.values[index].textContent = this.format(data[one.key][place], false);
    });
  }
}

function niceStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  const lead = rough / power;
  return (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10) * power;
}

function tickMinutes(span, width) {
  const most = Math.max(2, Math.floor(width / 80));
  return [1, 2, 5, 10, 15, 20, 30].find((minutes) => span / minutes <= most) ?? 30;
}

function label(x, y, anchor, text) {
  const made = shape("text", { class: "tick", x, y, "text-anchor": anchor });
  made.textContent = text;
  return made;
}

function shape(name, attributes) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
