// Pipelines that nobody wrote: known ones, changed in one to three places.
// In: models of pipelines, a seed. Out: as many changed models as asked for. Knows nothing of what is valid.

/** Numbers in [0, 1) that are the same for the same seed (mulberry32). */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

const ODD = [null, true, false, 0, 1, -1, 1.5, "", " ", "x", "a b", "${{X}}", "1.0", "5m", [], {}, ["x"], [1], { a: "b" }, [{ a: "b" }], [["x"]]];

/** Every place of a value: its holder and its key there. */
export function places(value, found = []) {
  if (value === null || typeof value !== "object") return found;
  for (const key of Object.keys(value)) {
    found.push({ holder: value, key });
    places(value[key], found);
  }
  return found;
}

/** What stands under each key, anywhere in the models: a key gets values that others gave it. */
function vocabulary(models) {
  const words = new Map();
  for (const model of models) {
    for (const { holder, key } of places(model)) {
      if (Array.isArray(holder)) continue;
      if (!words.has(key)) words.set(key, new Map());
      words.get(key).set(JSON.stringify(holder[key]), holder[key]);
    }
  }
  return new Map([...words].map(([key, values]) => [key, [...values.values()]]));
}

export function* mutants(models, seed, count) {
  const next = random(seed);
  const one = (items) => items[Math.floor(next() * items.length)];
  const words = vocabulary(models);
  const keys = [...words.keys()];
  const typo = (key) => {
    const at = Math.floor(next() * key.length);
    return one([key.slice(0, at) + key.slice(at + 1), key.slice(0, at) + "e" + key.slice(at), key + "s", key.toUpperCase()]);
  };
  const rename = (holder, key, other) => {
    const members = Object.entries(holder);
    for (const [name] of members) delete holder[name];
    for (const [name, value] of members) holder[name === key ? other : name] = value;
  };
  const change = (model) => {
    const all = places(model);
    const { holder, key } = one(all);
    const list = Array.isArray(holder);
    const kind = Math.floor(next() * 6);
    if (kind === 0) list ? holder.splice(Number(key), 1) : delete holder[key];
    else if (kind === 1) holder[key] = structuredClone(one(ODD));
    else if (kind === 2 && !list) rename(holder, key, next() < 0.5 ? typo(key) : one(keys));
    else if (kind === 3 && words.has(key)) holder[key] = structuredClone(one(words.get(key)));
    else {
      // Something that others have is put beside it, or into it.
      const into = holder[key] !== null && typeof holder[key] === "object" && !Array.isArray(holder[key]) ? holder[key] : holder;
      if (Array.isArray(into)) return into.push(structuredClone(one(ODD)));
      const name = one(keys);
      into[name] = structuredClone(one(words.get(name)));
    }
  };
  while (count-- > 0) {
    const model = structuredClone(one(models));
    for (let changes = 1 + Math.floor(next() * 3); changes > 0 && places(model).length > 0; changes--) change(model);
    yield model;
  }
}
