// Numbers and times as people read them. Nothing here touches the page.

/** What stands for no limit at all: more than any node has. */
export const UNLIMITED = 1024000;

/** Thousandths of a core: `850m`. */
export function milli(amount) {
  if (amount == null) return "–";
  return amount >= UNLIMITED ? "none" : `${amount}m`;
}

/** Cores with two decimals: `1.25`. */
export function cores(amount) {
  return amount == null ? "–" : (amount / 1000).toFixed(amount >= 100000 ? 1 : 2);
}

/** A ratio in percent: `12 %`, `0.4 %`, `0`. */
export function percent(ratio) {
  if (ratio == null) return "–";
  if (ratio === 0) return "0 %";
  if (ratio < 0.001) return "<0.1 %";
  return `${(ratio * 100).toFixed(ratio < 0.1 ? 1 : 0)} %`;
}

/** A price: three significant digits. */
export function price(value) {
  if (value == null) return "–";
  if (value === 0) return "0";
  return Number(value.toPrecision(3)).toString();
}

/** A length of time: `42 s`, `3 min`, `2 h`, `5 d`. */
export function span(seconds) {
  if (seconds < 120) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** A moment on the clock: `14:05`, or with seconds. */
export function clock(ms, withSeconds = false) {
  const options = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  if (withSeconds) options.second = "2-digit";
  return new Date(ms).toLocaleTimeString([], options);
}

/** What became of a change, in a word or a sentence; nothing where it was done. */
export function result(change) {
  if (change.result === "done") return "";
  if (change.result === "asked") return "asked for";
  if (change.result === "only_watching") return "only watching: nothing was written";
  return `failed: ${change.result.failed}`;
}

/** What a change moves: the limit if that, else the request, else what hangs on them. */
export function moves(change) {
  const { limit_from_milli: from, limit_to_milli: to } = change;
  if (from !== to) return `${milli(from)} → ${milli(to)}`;
  const { request_from_milli: before, request_to_milli: after } = change;
  if (before !== after) return `request ${milli(before)} → ${milli(after)}`;
  return "weight or burst";
}

/** A count with a noun: `1 pod`, `3 pods`. */
export function count(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
