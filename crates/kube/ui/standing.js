// How a cluster stands, in words: who acts, who is held back, what is refused and why. Nothing here
// touches the page.

import { count, milli, price } from "/ui/words.js";

// Refusals that are tried again, so that their phase is Pending.
const TRIED_AGAIN = ["ActuatorError", "Forbidden", "LimitRangeViolated", "QuotaExceeded"];
// What passes by itself within seconds.
const PASSING = ["Applying", "Conflict", "RateLimited"];
const UNANSWERED = "Unanswered";

// How urgent it is, and the kind of pill that says so.
const RANKS = ["settled", "plain", "watching", "gone"];

/** The name of a controller, without the part that only tells two of its lives apart. */
export function shortName(identity) {
  return identity.replace(/_[0-9a-f]{16}$/, "");
}

/** Whether anything is changed, and by whom: a word, its kind, and a sentence. */
export function acting(state) {
  const me = shortName(state.me);
  if (state.dry_run) {
    return { word: "only watching", kind: "watching", text: `${me} was started with --dry-run: its log says what it would do, and nothing is changed.` };
  }
  if (!state.leader) return standing(state, me);
  if (!state.synced) {
    return { word: "reading", kind: "watching", text: `${me} leads, and is still reading the objects of the cluster; nothing is changed before it has all of them.` };
  }
  if (!state.configured) {
    return { word: "only watching", kind: "watching", text: `${me} leads, and has read no settings yet: nothing is changed, whatever a pod says. Is there a ConfigMap mbcas-agent-config?` };
  }
  if (state.mode === "off") {
    return { word: "only watching", kind: "watching", text: `${me} leads. The mode is off: what pods should have is told, and nothing is changed unless a pod or its namespace says another mode.` };
  }
  if (state.mode === "restore") {
    return { word: "giving back", kind: "watching", text: `${me} leads. The mode is restore: pods get back what they came with, and are left alone from then on.` };
  }
  const what = state.mode === "limits-only" ? "limits, and leaves requests alone" : "requests and limits";
  return { word: "acting", kind: "live", text: `${me} leads, and changes ${what}.` };
}

function standing({ holder, me: identity }, me) {
  if (holder == null) {
    return { word: "nobody acts", kind: "gone", text: `${me} does not lead, and knows of no controller that does. If this lasts, look at the Lease and at the logs of the controllers.` };
  }
  if (holder === identity) {
    return { word: "stopped acting", kind: "gone", text: `${me} could not renew its lease, and has stopped acting. Can it reach the API server?` };
  }
  return { word: "standing by", kind: "watching", text: `${shortName(holder)} leads. This is told by ${me}, which takes over if that one stops.` };
}

/** How an allocation stands, in a word. */
export function status(one) {
  return one.answered && one.phase ? one.phase : UNANSWERED;
}

/** Why it stands so: a code, if there is one that says more than the word. */
export function reason(one) {
  return status(one) === UNANSWERED || ["Applied", "AlreadyApplied"].includes(one.reason) ? "" : one.reason;
}

/** Why it stands so, in a sentence. */
export function why(one) {
  if (status(one) !== UNANSWERED) return one.message;
  if (!one.phase) return "No controller has looked at it yet.";
  return `No controller has looked at what it asks for now. Before that it was ${one.phase}: ${one.message}`;
}

export function isRefused(one) {
  return status(one) === "Failed" || TRIED_AGAIN.includes(reason(one));
}

/** Whether it has less than it should have, and that does not pass by itself. */
export function isHeld(one) {
  if (status(one) === "Applied" || PASSING.includes(reason(one))) return false;
  const lacks = (what) => (one[`${what}_milli`] ?? Infinity) < (one[`desired_${what}_milli`] ?? 0);
  return lacks("limit") || lacks("request");
}

/** How urgent it is: refused before held back before what passes before what is settled. */
export function rank(one) {
  if (isRefused(one)) return 3;
  if (isHeld(one)) return 2;
  return status(one) === "Applied" ? 0 : 1;
}

/** The kind of pill for a rank. */
export function kindOf(rank) {
  return RANKS[rank];
}

/** What a pod has, and what it should have if that differs and is wanted. */
export function moves(one, what) {
  const has = one[`${what}_milli`];
  const should = one[`desired_${what}_milli`];
  if (should == null || has === should || status(one) === "Applied") return milli(has);
  return `${milli(has)} → ${milli(should)}`;
}

/** All that do not have what they should have, by why: the most urgent first. */
export function groups(allocations) {
  const found = new Map();
  for (const one of allocations) {
    if (rank(one) === 0) continue;
    const key = `${status(one)} ${reason(one)}`.trim();
    const group = found.get(key) ?? { key, title: reason(one) || status(one), rank: 0, members: [] };
    group.rank = Math.max(group.rank, rank(one));
    group.members.push(one);
    found.set(key, group);
  }
  return [...found.values()].sort((one, other) =>
    other.rank - one.rank || other.members.length - one.members.length || (one.key < other.key ? -1 : 1));
}

/** What is said of a group: its sentence, or that of one of its members. */
export function example({ members }) {
  const [first] = members;
  if (members.every((one) => why(one) === why(first))) return why(first);
  return `For instance ${first.namespace}/${first.pod}: ${why(first)}`;
}

/** Everything about one allocation, in sentences. */
export function story(one) {
  const sentences = [];
  const say = (name, verb, has, should) => {
    if (has === should) sentences.push(`${name} is ${milli(has)}, as it should be.`);
    else sentences.push(`${name} is ${milli(has)}, and ${verb} ${milli(should)}.`);
  };
  if (one.node == null) sentences.push("Nothing is known of the pod, or it has no node.");
  else {
    say("Its limit", "should be", one.limit_milli, one.desired_limit_milli);
    say("Its request", "should be", one.request_milli, one.desired_request_milli);
  }
  if (status(one) === "Failed") sentences.push("This is refused.");
  else if (isRefused(one)) sentences.push("This was refused, and is tried again.");
  else if (isHeld(one)) sentences.push("It is held back: it has less than it should have.");
  sentences.push(why(one));
  if (one.price != null && one.node != null) {
    sentences.push(one.price > 0 ? `CPU is scarce on its node: the price is ${price(one.price)}.` : "There is enough CPU on its node.");
  }
  return sentences.filter(Boolean);
}

/** The figures about all of them, each with a note. */
export function figures(state) {
  const { allocations: all } = state;
  const number = (fits) => all.filter(fits).length;
  const sum = (what) => all.reduce((sum, one) => sum + (one[what] ?? 0), 0);
  const nodes = new Set(all.map((one) => one.node).filter(Boolean));
  const scarce = new Set(all.filter((one) => one.price > 0 && one.node).map((one) => one.node));
  const refused = all.filter(isRefused);
  return {
    pods: [all.length, `on ${count(nodes.size, "node")}`],
    refused: [refused.length, refused.length ? `for ${count(new Set(refused.map(reason)).size, "reason")}` : "nothing is refused"],
    held: [number(isHeld), "have too little"],
    applied: [number((one) => status(one) === "Applied"), "as they should be"],
    requests: [sum("request_milli"), sum("desired_request_milli")],
    limits: [sum("limit_milli"), sum("desired_limit_milli")],
    price: [all.reduce((most, one) => Math.max(most, one.price ?? 0), 0), scarce.size ? `scarce on ${count(scarce.size, "node")}` : "enough for all"],
    resizes: [state.resizes, state.leader ? `${state.verified} seen in force` : "of this controller"],
  };
}
