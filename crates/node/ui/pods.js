// The pods of a node, as rows of a table.

import { node, say } from "./page.js";
import { Table, style } from "./table.js";
import { milli, moves, percent, result, span } from "./words.js";

// When what is shown was so.
let now = 0;

const COLUMNS = [
  { key: "name", title: "Pod", sort: (pod) => pod.name.toLowerCase(), up: true },
  { key: "bar", title: "Of its limit", sort: (pod) => (pod.usage_milli ?? -1) / Math.max(1, Math.min(pod.limit_milli, pod.max_milli)) },
  { key: "usage", title: "Usage", number: true, text: (pod) => milli(pod.usage_milli), sort: (pod) => pod.usage_milli ?? -1 },
  { key: "need", title: "Need", number: true, wide: 1, text: (pod) => milli(pod.need_milli), sort: (pod) => pod.need_milli ?? -1 },
  { key: "grant", title: "Grant", number: true, wide: 2, help: "What the market granted", text: (pod) => milli(pod.grant_milli), sort: (pod) => pod.grant_milli ?? -1 },
  { key: "request", title: "Request", number: true, wide: 3, help: "Its guarantee", text: (pod) => milli(pod.request_milli), sort: (pod) => pod.request_milli },
  { key: "limit", title: "Limit", number: true, help: "Its cap", text: (pod) => milli(pod.limit_milli), sort: (pod) => pod.limit_milli },
  { key: "throttled", title: "Throttled", number: true, help: "Throttled periods over all periods, lately", text: (pod) => percent(pod.throttled_period_ratio), sort: (pod) => pod.throttled_period_ratio ?? -1 },
  { key: "weight", title: "Weight", number: true, wide: 3, text: (pod) => String(pod.weight), sort: (pod) => pod.weight },
  { key: "change", title: "Last change", wide: 2, text: (pod) => changeText(pod.last_change), sort: (pod) => pod.last_change?.at_ms ?? 0 },
];

/** The table in `table`. Calls `onPick(uid)` when a pod is chosen. */
export class Pods extends Table {
  constructor(table, onPick) {
    const words = (pod) => `${pod.name} ${pod.kind} ${pod.uid}`;
    super(table, { columns: COLUMNS, by: "usage", words, add, fill, onPick });
  }

  /** Takes in a new state. */
  show(state) {
    now = state.at_ms;
    super.show(state.pods);
  }
}

function add(cells) {
  const name = node("span", "name");
  const from = node("span", "tag");
  cells[0].append(name, from);
  const bar = node("div", "meter");
  const used = node("i", "fill");
  const tick = node("i", "need");
  bar.append(used, tick);
  cells[1].append(bar);
  return { name, from, used, tick, bar };
}

function fill({ element, more: { name, from, used, tick, bar } }, pod) {
  say(name, pod.name);
  say(from, pod.kind);
  const limit = Math.max(1, Math.min(pod.limit_milli, pod.max_milli));
  const share = (amount) => `${Math.min(100, (100 * (amount ?? 0)) / limit).toFixed(1)}%`;
  style(used, "width", share(pod.usage_milli));
  style(tick, "left", share(pod.need_milli));
  tick.hidden = pod.need_milli == null;
  const throttled = (pod.throttled_period_ratio ?? 0) > 0.02;
  element.classList.toggle("throttled", throttled);
  element.classList.toggle("late", pod.latency_missed);
  const failed = pod.last_change != null && typeof pod.last_change.result === "object";
  element.classList.toggle("failed", failed);
  const title = `uses ${milli(pod.usage_milli)}, needs ${milli(pod.need_milli)}, limit ${milli(pod.limit_milli)}`;
  if (bar.title !== title) bar.title = title;
}

function changeText(change) {
  if (!change) return "none yet";
  const ago = `${span((now - change.at_ms) / 1000)} ago`;
  const what = result(change);
  if (what) return `${ago}, ${what}`;
  return `${ago}, ${moves(change)}`;
}
