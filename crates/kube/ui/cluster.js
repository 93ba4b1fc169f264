// The page of a whole cluster: asks the controller every two seconds, and shows what it says.
//
// Rows beyond the first few hundred are counted and not drawn: whoever looks for one filters.

import { ask } from "/ui/link.js";
import { milli, price, count, clock } from "/ui/words.js";

const EVERY_MS = 2000;
const ROWS_MAX = 300;

const COLUMNS = [
  { key: "pod", name: "Pod", cell: (one) => one.pod, kind: "name" },
  { key: "namespace", name: "Namespace", cell: (one) => one.namespace, kind: "wide1" },
  { key: "node", name: "Node", cell: (one) => one.node ?? "–", kind: "wide2" },
  { key: "request_milli", name: "Request", cell: (one) => moves(one, "request"), kind: "number wide1" },
  { key: "limit_milli", name: "Limit", cell: (one) => moves(one, "limit"), kind: "number" },
  { key: "price", name: "Price", cell: (one) => price(one.price), kind: "number wide2" },
  { key: "phase", name: "Status", cell: (one) => one.phase, kind: "number" },
  { key: "message", name: "Why", cell: (one) => one.message || one.reason, kind: "change wide1" },
];

let state = null;
let sort = { key: "phase", down: true };
let picked = null;
const at = (id) => document.getElementById(id);

/** What a pod has, and what it should have if that differs. */
function moves(one, what) {
  const has = one[`${what}_milli`];
  const should = one[`desired_${what}_milli`];
  if (should == null || has === should) return milli(has);
  return `${milli(has)} → ${milli(should)}`;
}

function element(tag, text, kind) {
  const made = document.createElement(tag);
  if (text != null) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function pill(id, text, kind) {
  at(id).hidden = false;
  at(id).textContent = text;
  at(id).dataset.kind = kind;
}

function link(kind, since) {
  document.body.dataset.link = kind;
  pill("link", kind === "live" ? "live" : kind, kind);
  at("gone").hidden = kind !== "gone";
  at("gone").textContent = `The controller does not answer since ${since}. What is below is what it said last.`;
}

function tiles() {
  const by = (phase) => state.allocations.filter((one) => one.phase === phase).length;
  const has = (what) => state.allocations.reduce((sum, one) => sum + (one[what] ?? 0), 0);
  const all = [
    ["allocations", state.allocations.length],
    ["applied", by("Applied")],
    ["pending", by("Pending")],
    ["failed", by("Failed")],
    ["requested together", milli(has("request_milli"))],
    ["limits together", milli(has("limit_milli"))],
    ["resizes asked for", state.resizes],
    ["seen in force", state.verified],
  ];
  at("tiles").replaceChildren(...all.map(([name, value]) => {
    const tile = element("div", null, "card tile");
    tile.append(element("span", name, "faint"), element("b", value));
    return tile;
  }));
}

function head() {
  const row = element("tr");
  for (const column of COLUMNS) {
    const cell = element("th", null, column.kind);
    const button = element("button", column.name);
    button.type = "button";
    button.onclick = () => {
      sort = { key: column.key, down: sort.key === column.key ? !sort.down : false };
      draw();
    };
    if (sort.key === column.key) cell.ariaSort = sort.down ? "descending" : "ascending";
    cell.append(button);
    row.append(cell);
  }
  at("pods").tHead.replaceChildren(row);
}

function shown() {
  const words = at("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (one) => `${one.namespace} ${one.pod} ${one.node ?? ""} ${one.phase} ${one.reason}`.toLowerCase();
  const found = state.allocations.filter((one) => words.every((word) => text(one).includes(word)));
  const value = (one) => one[sort.key] ?? "";
  const order = (one, other) => {
    const [a, b] = [value(one), value(other)];
    const by = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
    return sort.down ? -by : by;
  };
  return found.sort(order);
}

function draw() {
  if (!state) return;
  head();
  const all = shown();
  at("count").textContent = `${all.length}`;
  at("pods").tBodies[0].replaceChildren(...all.slice(0, ROWS_MAX).map((one) => {
    const row = element("tr", null, one.phase === "Failed" ? "failed" : "");
    const id = `${one.namespace}/${one.pod}`;
    if (id === picked) row.classList.add("picked");
    row.tabIndex = 0;
    row.append(...COLUMNS.map((column) => element("td", column.cell(one), column.kind)));
    row.onclick = () => { picked = picked === id ? null : id; draw(); };
    row.onkeydown = (event) => { if (event.key === "Enter") row.onclick(); };
    return row;
  }));
  const more = all.length - ROWS_MAX;
  at("empty").hidden = all.length > 0 && more <= 0;
  at("empty").textContent = all.length === 0
    ? "No allocations. The agent of a node writes one for each pod it manages."
    : `And ${more} more: filter to find them.`;
  detail();
}

function detail() {
  const one = state.allocations.find((other) => `${other.namespace}/${other.pod}` === picked);
  document.body.classList.toggle("picked", one != null);
  at("detail").hidden = one == null;
  if (!one) return;
  const top = element("div", null, "detail-head");
  const who = element("div");
  who.append(element("h2", one.pod), element("div", `${one.namespace} on ${one.node ?? "no node"}`, "faint"));
  const close = element("button", "×", "quiet close");
  close.onclick = () => { picked = null; draw(); };
  top.append(who, close);
  const story = element("ul", null, "story");
  const sentences = [
    `It requests ${milli(one.request_milli)} and should request ${milli(one.desired_request_milli)}.`,
    `Its limit is ${milli(one.limit_milli)} and should be ${milli(one.desired_limit_milli)}.`,
    `${one.phase}${one.reason ? ` (${one.reason})` : ""}. ${one.message}`,
  ];
  story.append(...sentences.map((sentence) => element("li", sentence)));
  at("detail").replaceChildren(top, element("h3", "How it stands"), story);
}

async function turn() {
  try {
    state = await ask("/api/v1/cluster");
    link("live");
    pill("leader", state.leader ? "acts" : "stands by", state.leader ? "live" : "watching");
    pill("acting", state.mode, state.mode === "off" || state.mode === "restore" ? "watching" : "uncongested");
    at("about").textContent = `${state.version}, ${count(state.waiting, "allocation")} waiting`;
    at("problems").hidden = state.problems.length === 0;
    at("problems").replaceChildren(...state.problems.map((text) => element("li", text)));
    tiles();
    draw();
  } catch {
    link("gone", clock(state?.at_ms ?? Date.now(), true));
  }
  setTimeout(turn, EVERY_MS);
}

at("filter").oninput = draw;
turn();
