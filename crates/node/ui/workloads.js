// The workloads that the host runs: their state, what was done about them lately, and what they write.
// A host that runs none has no such section.

import { at, fillList, node, say } from "./page.js";

const EVERY_MS = 2000;
const KINDS = { RUNNING: "good", PENDING: "busy", FAILED: "bad", UNKNOWN: "bad", STOPPED: "quiet" };

let picked = null;

async function tell() {
  const answer = await fetch("/api/v1/workloads").catch(() => null);
  if (answer?.status === 204) return false;
  if (!answer?.ok) return true;
  const told = await answer.json();
  at("workloads").hidden = false;
  say(at("workload-count"), `${told.workloads.length}${told.drained ? ", drained" : ""}`);
  fillRows(told.workloads);
  const lately = told.actions.filter((action) => picked == null || action.workload === picked).slice(0, 10);
  fillList(at("workload-actions"), lately, (action) => [
    node("b", "", action.workload || "host"), ` ${action.kind} `, node("span", `state ${action.state}`, action.state), ` ${action.words}`,
  ]);
  await tellLines();
  return true;
}

function fillRows(workloads) {
  const text = JSON.stringify([workloads, picked]);
  const body = at("workload-rows");
  if (body.dataset.text === text) return;
  body.dataset.text = text;
  body.replaceChildren(...workloads.map((one) => {
    const row = node("tr");
    row.tabIndex = 0;
    row.setAttribute("aria-selected", String(one.id === picked));
    const state = node("td");
    const mark = node("span", "pill", one.state);
    mark.dataset.kind = KINDS[one.state] ?? "quiet";
    state.append(mark);
    row.append(node("td", "name", one.id), node("td", "", one.kind), state, node("td", "", one.revision), node("td", "", one.message));
    const pick = () => {
      picked = picked === one.id ? null : one.id;
      tell();
    };
    row.addEventListener("click", pick);
    row.addEventListener("keydown", (event) => event.key === "Enter" && pick());
    return row;
  }));
}

async function tellLines() {
  const lines = at("workload-lines");
  lines.hidden = picked == null;
  if (picked == null) return;
  const asked = picked;
  const answer = await fetch(`/api/v1/workloads/${encodeURIComponent(asked)}/logs`).catch(() => null);
  if (asked !== picked || !answer) return;
  say(lines, answer.ok ? (await answer.text()) || "It wrote nothing." : "Its lines cannot be told.");
}

async function again() {
  const goes = document.hidden || (await tell());
  if (goes) setTimeout(again, EVERY_MS);
}
again();
