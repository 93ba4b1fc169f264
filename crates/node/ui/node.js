// The figures of the machine: each with its number, or with the reason why there is none.

import { at, node, say } from "./page.js";
import { span } from "./words.js";

export class Figures {
  constructor(root) {
    this.root = root;
    this.list = at("figures-list");
    this.shown = new Map();
  }

  hide() {
    this.root.hidden = true;
  }

  show(told) {
    this.root.hidden = false;
    this.root.classList.toggle("stale", told.stale);
    const age = told.stale ? `from ${span(told.age_ms / 1000)} ago, which is too old to tell about now` : "";
    const place = [told.zone, told.rack].filter(Boolean).join(", ");
    say(at("figures-age"), [place, age].filter(Boolean).join(" · "));
    for (const figure of told.figures) this.fill(figure);
    const drops = at("figures-drops");
    drops.hidden = told.drops.length === 0;
    say(drops, `Packets dropped: ${told.drops.map((it) => `${it.reason} ${short(it.per_second)}/s`).join(", ")}.`);
  }

  fill(figure) {
    let value = this.shown.get(figure.name);
    if (!value) {
      const item = node("div");
      item.dataset.figure = figure.name;
      value = node("dd");
      const name = node("dt", "", figure.name.replaceAll("_", " "));
      item.append(name, value);
      this.list.append(item);
      this.shown.set(figure.name, value);
    }
    const missing = figure.value == null;
    value.classList.toggle("missing", missing);
    say(value, missing ? figure.unavailable : `${short(figure.value)}${unit(figure.unit)}`);
    const title = `${figure.about} From ${figure.source}.`;
    if (value.title !== title) value.title = title;
  }
}

/** A number with as many places as tell something. */
function short(value) {
  if (value === 0) return "0";
  return value < 10 ? value.toFixed(3) : Math.round(value).toString();
}

function unit(name) {
  return name === "ratio" || name === "0 or 1" ? "" : ` ${name}`;
}
