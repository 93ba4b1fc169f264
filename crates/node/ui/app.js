// The dashboard: puts states into the page, and opens the story of a pod.

import { ask, connect, Refused } from "./link.js";
import {
  addTile, at, chooseTheme, fillList, listenToKeys, node, pickedByAddress, pill, setAddress, showProblems,
  tellGone, tellTile,
} from "./page.js";
import { Figures } from "./node.js";
import { Plot } from "./plot.js";
import { Pods } from "./pods.js";
import { UNLIMITED, clock, cores, count, milli, moves, percent, price, result, span } from "./words.js";

const HISTORY_EVERY_MS = 10000;
const STORY_EVERY_MS = 2000;
const FIGURES_EVERY_MS = 2000;

const page = { state: null, heard: 0, history: null, picked: null, link: "waiting" };

const nodePlots = [
  new Plot({
    title: "CPU",
    level: "capacity",
    least: 100,
    format: (value, tick) => (tick ? axisCores(value) : `${cores(value)}`),
    series: [
      { key: "usage_milli", label: "usage", kind: "usage", filled: true },
      { key: "need_milli", label: "need", kind: "need" },
      { key: "request_milli", label: "requests", kind: "request" },
    ],
  }),
  new Plot({
    title: "Throttled periods",
    least: 0.01,
    format: (value, tick) => (tick && value != null ? `${Number((value * 100).toFixed(1))} %` : percent(value)),
    series: [{ key: "throttled_period_ratio", label: "of all periods", kind: "throttled", filled: true }],
  }),
  new Plot({
    title: "Price",
    least: 0.1,
    format: (value) => price(value),
    series: [{ key: "price", label: "price", kind: "price", filled: true }],
  }),
];
at("plots").append(...nodePlots.map((plot) => plot.root));

const pods = new Pods(at("pods"), (uid) => pick(uid === page.picked ? null : uid));
at("filter").addEventListener("input", (event) => {
  pods.filter(event.target.value);
  tellCount();
});

// === the node ===

const tiles = ["Usage", "Need", "Requests", "Idle", "Price", "Pods", "Throttled", "Changes"]
  .map((title) => addTile(at("tiles"), title));

function showState(state) {
  if (page.state && page.state.version !== state.version) return location.reload();
  const isFirst = page.state == null;
  page.state = state;
  page.heard = performance.now();
  if (isFirst) refreshFigures();
  const { capacity_milli: capacity, idle_milli: idle } = state;
  const of = (whole) => `of ${cores(whole)} cores`;
  tellTile(tiles[0], cores(state.usage_milli), of(capacity), state.usage_milli / capacity);
  tellTile(tiles[1], cores(state.need_milli), of(capacity), state.need_milli / capacity);
  tellTile(tiles[2], cores(state.request_milli), of(capacity), state.request_milli / capacity);
  const others = state.unmanaged_milli == null ? "not measured" : `${cores(state.unmanaged_milli)} used by others, ${cores(state.lent_milli)} lent`;
  tellTile(tiles[3], cores(idle), others, idle == null ? undefined : idle / capacity);
  tellTile(tiles[4], price(state.price), state.price > 0 ? "CPU is scarce" : "enough for all");
  const held = state.pods.filter((pod) => (pod.throttled_period_ratio ?? 0) > 0.02).length;
  const hot = state.pods.filter((pod) => pod.hot).length;
  tellTile(tiles[5], String(state.pods.length), `${hot} watched closely`);
  tellTile(tiles[6], String(held), `of ${count(state.pods.length, "pod")} lately`);
  tellTile(tiles[7], String(state.changes), state.failures ? `and ${state.failures} failed` : "none failed");
  tiles[7].note.classList.toggle("bad", state.failures > 0);
  at("host").textContent = state.host;
  document.title = `${state.host} · Walras`;
  at("about").textContent = `${state.version} · profile ${state.profile} · up ${span(state.uptime_s)}`;
  pill(at("mode"), state.mode, state.mode);
  pill(at("acting"), state.acting ? "acting" : "only watching", state.acting ? "acting" : "watching");
  showProblems(state.problems);
  pods.show(state);
  tellCount();
  showPlots();
}

function tellCount() {
  const all = page.state?.pods.length ?? 0;
  at("count").textContent = pods.shown === all ? `${all}` : `${pods.shown} of ${all}`;
  const empty = at("empty");
  empty.hidden = !page.state || pods.shown > 0;
  empty.textContent = all > 0
    ? "No pod fits the filter."
    : "No pods yet. Which cgroups are adopted is set in the configuration of walras host.";
}

/** The last hour, with what is so right now as its newest point. */
function showPlots() {
  const { history, state } = page;
  if (!history || !state) return;
  const now = { ...history, level: state.capacity_milli };
  nodePlots[0].show(withNow(now, state.at_ms, {
    usage_milli: state.usage_milli, need_milli: state.need_milli, request_milli: state.request_milli,
  }));
  nodePlots[1].show({ at_ms: history.at_ms, throttled_period_ratio: history.throttled_period_ratio });
  nodePlots[2].show(withNow({ at_ms: history.at_ms, price: history.price }, state.at_ms, { price: state.price }));
}

function withNow(history, atMs, values) {
  if (history.at_ms.length && history.at_ms.at(-1) >= atMs) return history;
  const longer = { ...history, at_ms: [...history.at_ms, atMs] };
  for (const [key, value] of Object.entries(values)) longer[key] = [...history[key], value];
  return longer;
}

function axisCores(value) {
  return Number((value / 1000).toFixed(2)).toString();
}

async function refreshHistory() {
  if (document.hidden || page.link === "gone") return;
  try {
    page.history = await ask("/api/v1/history");
    showPlots();
  } catch {
    // The stream notices a daemon that is gone, and says so.
  }
}

// === the machine ===

const figures = new Figures(at("figures"));

async function refreshFigures() {
  if (document.hidden || page.link === "gone") return;
  if (!page.state?.telemetry) return figures.hide();
  try {
    figures.show(await ask("/api/v1/telemetry"));
  } catch (error) {
    // Who is refused has a daemon that does not look; one that is gone leaves the last figures.
    if (error instanceof Refused) figures.hide();
  }
}

// === one pod ===

const detail = at("detail");
let story = null;

function pick(uid) {
  const before = page.picked;
  page.picked = uid;
  pods.mark(uid);
  story = null;
  detail.hidden = uid == null;
  detail.replaceChildren();
  document.body.classList.toggle("picked", uid != null);
  setAddress(uid);
  if (uid != null) refreshStory();
  else pods.focus(before);
}

async function refreshStory() {
  const uid = page.picked;
  if (uid == null || document.hidden || page.link === "gone") return;
  const name = encodeURIComponent(uid);
  try {
    const [told, past] = await Promise.all([
      ask(`/api/v1/pods/${name}`),
      ask(`/api/v1/history?uid=${name}`),
    ]);
    if (page.picked === uid) showStory(told, past);
  } catch (error) {
    // A daemon that is gone leaves the last story standing; the stream says that it is gone.
    if (page.picked === uid && error instanceof Refused) showNoStory(error);
  }
}

function showStory(told, past) {
  story ??= makeStory(told.pod);
  const { pod } = told;
  story.name.textContent = pod.name;
  story.uid.textContent = `${pod.kind} · ${pod.uid}`;
  fillList(story.sentences, told.sentences, (text) => [node("span", "", text)]);
  fillFacts(story.facts, pod);
  const values = { usage_milli: pod.usage_milli, need_milli: pod.need_milli, request_milli: pod.request_milli, limit_milli: pod.limit_milli >= UNLIMITED ? null : pod.limit_milli };
  story.plot.show(withNow(past, page.state?.at_ms ?? 0, values));
  fillList(story.changes, told.changes, changeRow);
  story.noChanges.hidden = told.changes.length > 0;
  fillList(story.notes, told.notes, (noticed) => [node("time", "", clock(noticed.at_ms, true)), node("span", "", noticed.text)]);
  story.noNotes.hidden = told.notes.length > 0;
}

function makeStory() {
  const made = { name: node("h2"), uid: node("p", "faint uid"), sentences: node("ul", "story"), facts: node("dl", "facts"), changes: node("ol", "log"), notes: node("ol", "log") };
  made.noChanges = node("p", "empty", "None since it was adopted.");
  made.noNotes = node("p", "empty", "Nothing was noticed about it.");
  made.plot = new Plot({
    title: "CPU of this pod",
    least: 20,
    format: (value) => milli(value == null ? null : Math.round(value)),
    series: [
      { key: "usage_milli", label: "usage", kind: "usage", filled: true },
      { key: "need_milli", label: "need", kind: "need" },
      { key: "request_milli", label: "request", kind: "request" },
      { key: "limit_milli", label: "limit", kind: "limit" },
    ],
  });
  const close = node("button", "quiet close", "×");
  close.type = "button";
  close.setAttribute("aria-label", "Close");
  close.addEventListener("click", () => pick(null));
  const head = node("div", "detail-head");
  const who = node("div");
  who.append(made.name, made.uid);
  head.append(who, close);
  const title = (text) => node("h3", "", text);
  detail.replaceChildren(head, title("Why it has what it has"), made.sentences, made.plot.root, made.facts,
    title("Last changes"), made.changes, made.noChanges, title("Noticed"), made.notes, made.noNotes);
  return made;
}

function changeRow(change) {
  const { limit_from_milli: from, limit_to_milli: to } = change;
  const moved = node("b", to > from ? "raised" : to < from ? "lowered" : "", moves(change));
  const why = node("span", "", change.why);
  const became = result(change);
  const parts = [node("time", "", clock(change.at_ms, true)), moved, node("span", "tag", change.loop), why];
  if (became) parts.push(node("span", "bad", became));
  return parts;
}

function fillFacts(list, pod) {
  const facts = [
    ["min", milli(pod.min_milli)], ["max", milli(pod.max_milli)],
    ["came with", pod.original_limit_milli == null ? "no limit" : milli(pod.original_limit_milli)],
    ["weight", String(pod.weight)], ["kernel weight", pod.kernel_weight ?? "–"], ["burst", milli(pod.burst_milli)],
    ["throttled", percent(pod.throttled_period_ratio)],
    ["latency target", pod.target_latency_ms == null ? "none" : `${pod.target_latency_ms} ms${pod.latency_missed ? ", missed" : ""}`],
    ["looked at", pod.hot ? "every fast tick" : "once a second"],
  ];
  list.replaceChildren(...facts.map(([key, value]) => {
    const item = node("div");
    item.append(node("dt", "", key), node("dd", "", String(value)));
    return item;
  }));
}

function showNoStory(error) {
  story = null;
  const close = node("button", "quiet", "Close");
  close.type = "button";
  close.addEventListener("click", () => pick(null));
  detail.replaceChildren(node("h2", "", "This pod is gone"), node("p", "empty", `${error.message}.`), close);
}

// === whether the daemon is there ===

function showLink(kind) {
  page.link = kind;
  document.body.dataset.link = kind;
  pill(at("link"), { live: "live", waiting: "connecting", gone: "no answer" }[kind], kind);
  if (kind === "live") {
    refreshHistory();
    refreshStory();
    refreshFigures();
  }
  tellLink();
}

function tellLink() {
  tellGone(page.link === "gone", page.state ? page.heard : null, "The daemon", "Is walras host running?");
}

chooseTheme();
listenToKeys(() => {
  if (page.picked != null) pick(null);
});
addEventListener("hashchange", () => pick(pickedByAddress()));

connect(showState, showLink);
setInterval(refreshHistory, HISTORY_EVERY_MS);
setInterval(refreshStory, STORY_EVERY_MS);
setInterval(refreshFigures, FIGURES_EVERY_MS);
setInterval(tellLink, 1000);
refreshHistory();
if (pickedByAddress()) pick(pickedByAddress());
