// The status of an Application as facts that two engines can be compared by.
// In: an Application and the prefix of its engine. Out: path → value, where lists have the keys of their things instead of places.
// Does not know: times, identifiers and generated names, which differ between any two runs; that one is there is kept.

const TIMES = new Set(["startedAt", "finishedAt", "deployedAt", "deployStartedAt", "lastTransitionTime"]);
const DROPPED = new Set(["reconciledAt", "observedAt", "controllerNamespace"]);

const keyOf = {
  resources: (one) => [one.group ?? "", one.kind, one.namespace ?? "", one.name, one.syncPhase ?? ""].join("/"),
  conditions: (one) => one.type,
  history: (one) => `#${one.id}`,
};

function flatten(value, path, name, out) {
  if (value === null || value === undefined || value === "") return;
  if (DROPPED.has(name)) return;
  if (TIMES.has(name)) out.set(path, "(a time)");
  else if (name === "uid") out.set(path, "(an identifier)");
  else if (Array.isArray(value)) {
    const key = keyOf[name];
    if (key && value.every((one) => typeof one === "object")) for (const one of value) flatten(one, `${path}[${key(one)}]`, "", out);
    else value.forEach((one, index) => flatten(one, `${path}[${index}]`, "", out));
  } else if (typeof value === "object") for (const [field, inner] of Object.entries(value)) flatten(inner, path ? `${path}.${field}` : field, field, out);
  // A field that is false is as good as one that is not there.
  else if (value !== false) out.set(path, value);
}

/** What an Application says of itself, with the engine's prefix taken out of every text. */
export function facts(app, prefix) {
  const { status = {}, operation } = JSON.parse(JSON.stringify(app).replaceAll(`${prefix}-`, "X-"));
  const out = new Map();
  flatten(status, "", "", out);
  if (operation) out.set("operation", "(asked for)");
  // Where the order is the meaning: which result came first is told by compare.mjs from the cluster itself.
  return out;
}

/** Places where two engines say different things. */
export function differences(peer, ours) {
  return [...new Set([...peer.keys(), ...ours.keys()])]
    .filter((path) => peer.get(path) !== ours.get(path))
    .sort()
    .map((path) => ({ path, peer: peer.get(path), ours: ours.get(path) }));
}
