// The page of a whole cluster: asks the controller every two seconds, and shows what it says.

import { poll } from "/ui/link.js";
import {
  addTile, at, chooseTheme, listenToKeys, node, pickedByAddress, pill, say, setAddress, showProblems, tellGone,
  tellTile,
} from "/ui/page.js";
import { acting, example, figures, groups, isHeld, kindOf, moves, rank, reason, shortName, status, story, why } from "/ui/standing.js";
import { Table } from "/ui/table.js";
import { cores, price } from "/ui/words.js";

const EVERY_MS = 2000;
// So many letters at the end of a name are always seen.
const TAIL = 7;

const page = { state: null, heard: 0, link: "waiting", picked: null };

// === the cluster ===

// How many, and how much. On a narrow screen, what is wrong comes between the two.
const many = ["Pods", "Refused", "Held back", "In force"].map((title) => addTile(at("tiles"), title));
const much = ["Requests", "Limits", "Highest price", "Resizes"].map((title) => addTile(at("more"), title));

function showFigures(state) {
  const { pods: all, refused, held, applied, requests, limits, price: dearest, resizes } = figures(state);
  [all, refused, held, applied].forEach(([value, note], place) => tellTile(many[place], String(value), note));
  many[1].value.classList.toggle("bad", refused[0] > 0);
  many[2].value.classList.toggle("warn", held[0] > 0);
  [requests, limits].forEach(([has, should], place) => tellTile(much[place], cores(has), `${cores(should)} cores wanted`));
  tellTile(much[2], price(dearest[0]), dearest[1]);
  tellTile(much[3], String(resizes[0]), resizes[1]);
}

function showGroups(state) {
  const all = groups(state.allocations);
  const list = at("groups");
  const lines = all.map((group) => [group.key, group.members.length, example(group)]);
  const text = JSON.stringify(lines);
  at("why").hidden = state.allocations.length === 0;
  say(at("fine"), all.length ? "" : "Every pod has what it should have.");
  if (list.dataset.text === text) return;
  list.dataset.text = text;
  const focused = document.activeElement?.dataset?.group;
  list.replaceChildren(...all.map((group) => {
    const line = node("li");
    const button = node("button", "group");
    button.type = "button";
    button.title = "Show only these";
    button.dataset.group = group.key;
    const name = node("span", "pill", group.title);
    name.dataset.kind = kindOf(group.rank);
    button.append(node("b", "", String(group.members.length)), name, node("span", "sentence", example(group)));
    button.addEventListener("click", () => setFilter(group.key));
    line.append(button);
    return line;
  }));
  if (focused) [...list.querySelectorAll("button")].find((one) => one.dataset.group === focused)?.focus();
}

function showState(state) {
  if (page.state && page.state.version !== state.version) return location.reload();
  page.state = state;
  page.heard = performance.now();
  const { word, kind, text } = acting(state);
  pill(at("acting"), word, kind);
  pill(at("mode"), `mode ${state.mode}`, "plain");
  say(at("standing"), text);
  at("standing").dataset.kind = kind;
  say(at("about"), `told by ${shortName(state.me)} · ${state.version} · ${state.waiting} to be looked at`);
  showProblems(state.problems);
  for (const one of state.allocations) one.uid = one.allocation;
  showFigures(state);
  showGroups(state);
  pods.show(state.allocations);
  tellCount();
  showStory();
}

// === every pod ===

const COLUMNS = [
  { key: "name", title: "Pod", sort: (one) => `${one.pod} ${one.namespace}`.toLowerCase(), up: true },
  { key: "request", title: "Request", number: true, wide: 1, help: "What it requests, and should request", text: (one) => moves(one, "request"), sort: (one) => one.request_milli ?? -1 },
  { key: "limit", title: "Limit", number: true, help: "What its limit is, and should be", text: (one) => moves(one, "limit"), sort: (one) => one.limit_milli ?? -1 },
  { key: "price", title: "Price", number: true, wide: 3, help: "What CPU costs on its node", text: (one) => price(one.price), sort: (one) => one.price ?? -1 },
  { key: "status", title: "Status", help: "The most urgent first", sort: rank },
  { key: "why", title: "Why", wide: 1, sort: why, up: true },
];

const pods = new Table(at("pods"), {
  columns: COLUMNS,
  by: "status",
  words: (one) => `${one.namespace}/${one.pod} ${one.node ?? ""} ${status(one)} ${reason(one)} ${isHeld(one) ? "held back" : ""}`,
  add(cells) {
    const name = node("span", "name");
    name.append(node("span", "head"), node("span", "tail"));
    const where = node("span", "second");
    cells[0].append(name, where);
    const word = node("span", "pill");
    const code = node("span", "second");
    cells[4].append(word, code);
    const sentence = node("span", "sentence");
    cells[5].append(sentence);
    return { name, where, word, code, sentence };
  },
  fill({ more: { name, where, word, code, sentence } }, one) {
    // Replicas differ at the end, so what is cut off is in the middle.
    say(name.firstChild, one.pod.slice(0, -TAIL));
    say(name.lastChild, one.pod.slice(-TAIL));
    if (name.title !== one.pod) name.title = one.pod;
    sayAll(where, `${one.namespace} · ${one.node ?? "no node"}`);
    pill(word, status(one), kindOf(rank(one)));
    sayAll(code, reason(one));
    sayAll(sentence, why(one));
  },
  onPick: (uid) => pick(uid === page.picked ? null : uid),
});

/** Says a text that may be cut off; the pointer shows all of it. */
function sayAll(element, text) {
  say(element, text);
  if (element.title !== text) element.title = text;
}

function setFilter(text) {
  at("filter").value = text;
  pods.filter(text);
  tellCount();
  at("filter").focus();
}

function tellCount() {
  const { state } = page;
  if (!state) return;
  const all = state.allocations.length;
  const more = state.left_out ? `, and ${state.left_out} more that are not shown` : "";
  say(at("count"), (pods.shown === all ? `${all}` : `${pods.shown} of ${all}`) + more);
  at("empty").hidden = pods.shown > 0;
  say(at("empty"), nothing(state));
}

function nothing(state) {
  if (state.allocations.length > 0) return "No pod fits the filter.";
  if (!state.synced) return "The objects of the cluster have not all been read yet.";
  return "No pods yet. The agent of each node writes a PodAllocation for every pod that it sizes: are the agents running and ready, and is there a pod that may be sized?";
}

at("filter").addEventListener("input", () => {
  pods.filter(at("filter").value);
  tellCount();
});

// === one pod ===

const detail = makeDetail();

function makeDetail() {
  const made = { name: node("h2"), where: node("p", "faint uid"), story: node("ul", "story"), command: node("code", "command") };
  made.close = node("button", "quiet close", "×");
  made.close.type = "button";
  made.close.setAttribute("aria-label", "Close");
  made.close.addEventListener("click", () => pick(null));
  const head = node("div", "detail-head");
  const who = node("div");
  who.append(made.name, made.where);
  head.append(who, made.close);
  at("detail").append(head, node("h3", "", "How it stands"), made.story, node("h3", "", "To see more"), made.command);
  return made;
}

function pick(uid) {
  const before = page.picked;
  page.picked = uid;
  pods.mark(uid);
  setAddress(uid);
  showStory();
  if (uid == null) pods.focus(before);
  else detail.close.focus({ preventScroll: true });
}

function showStory() {
  const open = page.picked != null && page.state != null;
  document.body.classList.toggle("picked", open);
  at("detail").hidden = !open;
  if (!open) return;
  const one = page.state.allocations.find((other) => other.uid === page.picked);
  const [namespace, name] = page.picked.split("/");
  say(detail.name, one?.pod ?? name ?? page.picked);
  say(detail.where, one ? `${one.namespace} · ${one.node ?? "no node"}` : namespace);
  const sentences = one ? story(one) : [page.state.synced ? "This allocation is gone." : "It has not been read yet."];
  const code = one && reason(one) ? `${status(one)}: ${reason(one)}` : "";
  const lines = [code, ...sentences].filter(Boolean);
  while (detail.story.children.length > lines.length) detail.story.lastChild.remove();
  while (detail.story.children.length < lines.length) detail.story.append(node("li"));
  lines.forEach((line, place) => say(detail.story.children[place], line));
  // What is not there is only a name from the address, and nothing to be copied into a shell.
  detail.command.hidden = !one;
  say(detail.command, one ? `kubectl -n ${namespace} describe podallocation ${name}` : "");
}

// === whether the controller is there ===

function showLink(kind) {
  page.link = kind;
  document.body.dataset.link = kind;
  pill(at("link"), { live: "live", waiting: "connecting", gone: "no answer" }[kind], kind);
  tellLink();
}

function tellLink() {
  const heard = page.state ? page.heard : null;
  tellGone(page.link === "gone", heard, "The controller", "Does walras controller run, and does the port-forward still stand?");
}

chooseTheme();
listenToKeys(() => {
  if (page.picked != null) pick(null);
});
addEventListener("hashchange", () => pick(pickedByAddress()));
poll("/api/v1/cluster", EVERY_MS, showState, showLink);
setInterval(tellLink, 1000);
if (pickedByAddress()) pick(pickedByAddress());
