// What an engine made of the cluster: the objects it tracks, and the order in which they came to be, told by the cluster itself.
// In: watches and lists of the kinds that the examples use. Out: facts, and an order by phase and wave.
// Does not know: the Applications. Objects that other objects made (pods, replica sets) are nobody's work here.

const KINDS = [
  ["/api/v1", "configmaps"],
  ["/api/v1", "secrets"],
  ["/api/v1", "services"],
  ["/apis/apps/v1", "deployments"],
  ["/apis/batch/v1", "jobs"],
];
const TRACKING = "argocd.argoproj.io/tracking-id";
const HELM_HOOKS = { "pre-install": "PreSync", "pre-upgrade": "PreSync", "post-install": "PostSync", "post-upgrade": "PostSync" };

const tracked = (object) => Boolean(object.metadata.annotations?.[TRACKING]);

/** Notes every object when it appears. Revisions of one etcd are one clock. */
export class Creations {
  seen = new Map();
  async start(cluster) {
    const watches = KINDS.map(([group, kind]) =>
      cluster.watch(`${group}/${kind}?watch=true`, (line) => {
        const { type, object } = JSON.parse(line);
        if (type !== "ADDED" || !tracked(object)) return;
        const list = this.seen.get(object.metadata.namespace) ?? [];
        list.push({ at: Number(object.metadata.resourceVersion), label: `${object.kind}/${object.metadata.name}`, group: phaseAndWave(object) });
        this.seen.set(object.metadata.namespace, list);
      }),
    );
    this.ends = await Promise.all(watches);
  }
  stop() {
    for (const end of this.ends ?? []) end();
  }
  /** The groups in the order of their objects; a group that is interrupted appears twice. */
  order(namespace, prefix) {
    const groups = [];
    for (const { label, group } of (this.seen.get(namespace) ?? []).sort((a, b) => a.at - b.at)) {
      if (groups.at(-1)?.group !== group) groups.push({ group, labels: [] });
      groups.at(-1).labels.push(label.replaceAll(`${prefix}-`, "X-"));
    }
    return groups.map(({ group, labels }) => `${group}: ${labels.sort().join(", ")}`).join(" → ");
  }
}

function phaseAndWave({ metadata: { annotations } }) {
  const helm = annotations["helm.sh/hook"]?.split(",")[0];
  const phase = annotations["argocd.argoproj.io/hook"] ?? HELM_HOOKS[helm] ?? "Sync";
  return `${phase} ${annotations["argocd.argoproj.io/sync-wave"] ?? annotations["helm.sh/hook-weight"] ?? 0}`;
}

// What the cluster itself chooses or adds.
const CHOSEN = ["clusterIP", "clusterIPs", "controller-uid", "batch.kubernetes.io/controller-uid", "resourceVersion", "uid"];
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

function flatten(value, path, out) {
  if (value === null || value === undefined) return;
  if (typeof value === "string") out.set(path, value.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "(a time)"));
  else if (typeof value !== "object") out.set(path, value);
  else for (const [field, inner] of Object.entries(value)) if (!CHOSEN.includes(field)) flatten(inner, `${path}.${field}`, out);
}

/** Spec, data, labels and annotations of every tracked object of a namespace. */
export async function objects(cluster, namespace, prefix) {
  const out = new Map();
  for (const [group, kind] of KINDS) {
    const { items } = JSON.parse(await cluster.call("GET", `${group}/namespaces/${namespace}/${kind}`));
    for (const object of items.filter(tracked)) {
      const { metadata, spec, data } = JSON.parse(JSON.stringify(object).replaceAll(`${prefix}-`, "X-"));
      const place = `${kind}/${metadata.name}`;
      const { [LAST_APPLIED]: lastApplied, ...annotations } = metadata.annotations;
      flatten({ labels: metadata.labels, annotations, spec, data }, place, out);
      // Its text is the manifest, whose order of fields is nobody's promise.
      if (lastApplied) flatten(JSON.parse(lastApplied), `${place} last applied`, out);
    }
  }
  return out;
}
