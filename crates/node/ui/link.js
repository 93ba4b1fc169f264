// The connection to a daemon: a stream of states, or the same question again and again; and the
// certainty of noticing when there is no answer.
//
// A tab nobody looks at asks nothing, so that it costs the daemon nothing.

const SILENT_AFTER_MS = 4000;
const RETRY_MS = 2000;
// A question is given up after this long: who never answers must not be waited for forever.
const PATIENCE_MS = 10000;

/**
 * Calls `onState(state)` for every state, and `onLink(kind)` with "live", "waiting" or "gone"
 * whenever that changes.
 */
export function connect(onState, onLink) {
  let source = null;
  let heard = performance.now();
  let kind = "waiting";
  let retry = 0;

  function say(next) {
    if (next === kind) return;
    kind = next;
    onLink(kind);
  }

  function open() {
    clearTimeout(retry);
    if (document.hidden) return;
    source = new EventSource("/api/v1/stream");
    source.onmessage = (event) => {
      heard = performance.now();
      say("live");
      onState(JSON.parse(event.data));
    };
    source.onerror = () => {
      close();
      retry = setTimeout(open, RETRY_MS);
    };
  }

  function close() {
    if (source) source.close();
    source = null;
  }

  setInterval(() => {
    if (!document.hidden && performance.now() - heard > SILENT_AFTER_MS) say("gone");
  }, 500);

  document.addEventListener("visibilitychange", () => {
    close();
    heard = performance.now();
    if (!document.hidden) open();
  });
  open();
}

/**
 * Asks for `path` every `everyMs`, and calls `onState(state)` and `onLink(kind)` like `connect`.
 */
export function poll(path, everyMs, onState, onLink) {
  let heard = performance.now();
  let kind = "waiting";
  let asking = false;

  function say(next) {
    if (next === kind) return;
    kind = next;
    onLink(kind);
  }

  async function turn() {
    if (document.hidden || asking) return;
    asking = true;
    let state = null;
    try {
      state = await ask(path);
      heard = performance.now();
    } catch {
      // Whether that matters is seen below, by how long nothing was heard.
    }
    asking = false;
    if (state == null) return;
    say("live");
    onState(state);
  }

  setInterval(() => {
    if (!document.hidden && performance.now() - heard > SILENT_AFTER_MS) say("gone");
  }, 500);
  document.addEventListener("visibilitychange", () => {
    heard = performance.now();
    turn();
  });
  setInterval(turn, everyMs);
  turn();
}

/** The daemon answered, and refused. */
export class Refused extends Error {}

/** Asks once; throws `Refused` with the daemon's own words, or anything else if it is not there. */
export async function ask(path) {
  const answer = await fetch(path, {
    headers: { accept: "application/json" },
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  const body = await answer.json();
  if (!answer.ok) throw new Refused(body.error ?? `the daemon answered ${answer.status}`);
  return body;
}
