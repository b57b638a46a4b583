// What both engines are given: an example from examples/ (or what goes wrong with one), and what happens to it after the first sync.
// In: nothing. Out: values that compare.mjs plays. Does not know: which engine plays them, nor what either answers.
// A name `X` below stands for the prefix of an engine's Applications and namespaces.

const synced = (app) => app.status?.sync?.status === "Synced" && app.status?.health?.status === "Healthy" && ended(app);
const ended = (app) => ["Succeeded", "Failed", "Error"].includes(app.status?.operationState?.phase) && !app.operation;
const failed = (app) => ["Failed", "Error"].includes(app.status?.operationState?.phase) && !app.operation;
const condition = (type) => (app) => app.status?.conditions?.some((one) => one.type === type);
const outOfSync = (app) => app.status?.sync?.status === "OutOfSync" && !app.operation;

const automated = { automated: { prune: true, selfHeal: true }, syncOptions: ["CreateNamespace=true"] };
const unhealed = { automated: { prune: true }, syncOptions: ["CreateNamespace=true"] };
// What cannot succeed is tried twice; without a limit both engines try five times, for minutes.
const retry = { limit: 1, backoff: { duration: "1s", factor: 1, maxDuration: "1s" } };
const failing = { automated: {}, syncOptions: ["CreateNamespace=true"], retry };
const byHand = { syncOptions: ["CreateNamespace=true"] };
const edit = (file, from, to) => ({ edit: { file, from, to } });
const operation = (sync) => ({ operation: { initiatedBy: { username: "somebody" }, sync } });

export const scenarios = [
  {
    name: "guestbook",
    until: synced,
    then: [
      {
        what: "a commit changes, adds and removes",
        ...edit("guestbook/guestbook-ui-deployment.yaml", "replicas: 1", "replicas: 2"),
        write: { "guestbook/settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: '1'}\n" },
        remove: ["guestbook/guestbook-ui-svc.yaml"],
        until: synced,
        atHead: true,
      },
    ],
  },
  {
    name: "helm-guestbook",
    source: { helm: { valueFiles: ["values-production.yaml"], parameters: [{ name: "replicaCount", value: "1" }] } },
    until: synced,
    then: [{ what: "a parameter changes", patch: { spec: { source: { helm: { parameters: [{ name: "replicaCount", value: "2" }] } } } }, until: (app) => synced(app) && app.status.history.length === 2 }],
  },
  {
    name: "kustomize-guestbook",
    source: { kustomize: { nameSuffix: "-x", commonLabels: { team: "shop" }, commonAnnotations: { from: "example" } } },
    until: synced,
  },
  { name: "jsonnet-guestbook", until: synced },
  {
    name: "apps",
    folders: ["guestbook", "kustomize-guestbook"],
    // The children are Applications of the engine itself, so the parent goes where they are looked for.
    destination: "control",
    source: { helm: { parameters: [{ name: "control", value: "X-control" }, { name: "prefix", value: "X-" }, { name: "repository", value: "REPOSITORY" }] } },
    also: ["child-guestbook", "child-kustomize-guestbook"],
    until: synced,
  },
  // Not healed: upstream compares before it has heard of the last objects that its own sync made, and where the machine is quick
  // it then syncs those again at once, which hides the operation that is meant here. Healing has scenarios of its own.
  { name: "sync-waves", policy: unhealed, until: synced, then: [{ what: "a commit changes the last wave", ...edit("sync-waves/last.yaml", '"last"', '"still last"'), until: synced, atHead: true }] },
  { name: "pre-post-sync", until: synced },
  { name: "hook-fails", policy: failing, until: failed },
  {
    name: "blue-green",
    until: synced,
    then: [{ what: "the services change places", swap: "blue-green/manifests.yaml", until: synced, atHead: true }],
  },
  { name: "sock-shop", until: synced },
  {
    name: "by-hand",
    path: "guestbook",
    policy: byHand,
    until: outOfSync,
    then: [
      { what: "one object is asked for", patch: operation({ resources: [{ group: "", kind: "Service", name: "guestbook-ui" }], syncOptions: ["CreateNamespace=true"] }), until: ended },
      { what: "a dry run", patch: operation({ dryRun: true, syncOptions: ["CreateNamespace=true"] }), until: ended },
      { what: "all of it is asked for", patch: operation({ prune: true, syncOptions: ["CreateNamespace=true"] }), until: synced },
      { what: "a commit is not synced by itself", ...edit("guestbook/guestbook-ui-deployment.yaml", "replicas: 1", "replicas: 2"), remove: ["guestbook/guestbook-ui-svc.yaml"], until: outOfSync, atHead: true },
      { what: "without prune", patch: operation({ prune: false }), until: (app) => ended(app) && app.status.history?.length === 2 },
      { what: "back to the first revision", rollback: 0, until: (app) => ended(app) && app.status.history?.length === 3 },
    ],
  },
  {
    name: "drift",
    path: "guestbook",
    policy: { automated: {}, syncOptions: ["CreateNamespace=true"] },
    until: synced,
    then: [{ what: "somebody scales by hand, and nobody repairs", live: { path: "/apis/apps/v1/namespaces/X-drift/deployments/guestbook-ui", patch: { spec: { replicas: 0 } } }, until: outOfSync }],
  },
  {
    name: "drift-ignored",
    path: "guestbook",
    policy: { automated: {}, syncOptions: ["CreateNamespace=true", "RespectIgnoreDifferences=true"] },
    spec: { ignoreDifferences: [{ group: "apps", kind: "Deployment", jsonPointers: ["/spec/replicas"] }] },
    until: synced,
    then: [{ what: "somebody scales by hand, and that is ignored", live: { path: "/apis/apps/v1/namespaces/X-drift-ignored/deployments/guestbook-ui", patch: { spec: { replicas: 2 } } }, until: synced }],
  },
  { name: "server-side", path: "guestbook", policy: { automated: {}, syncOptions: ["CreateNamespace=true", "ServerSideApply=true"] }, until: synced },
  { name: "replace", path: "guestbook", policy: { automated: {}, syncOptions: ["CreateNamespace=true", "Replace=true"] }, until: synced },
  {
    name: "out-of-sync-only",
    path: "blue-green",
    policy: { automated: {}, syncOptions: ["CreateNamespace=true", "ApplyOutOfSyncOnly=true"] },
    until: synced,
    then: [{ what: "one of four objects changes", ...edit("blue-green/manifests.yaml", "replicas: 1", "replicas: 2"), until: synced, atHead: true }],
  },
  {
    name: "two-sources",
    sources: [{ path: "guestbook" }, { path: "blue-green" }],
    folders: ["guestbook", "blue-green"],
    until: synced,
  },
  { name: "no-namespace", path: "guestbook", policy: { automated: {}, retry }, until: failed },
  { name: "broken", until: condition("ComparisonError") },
  { name: "missing-path", path: "guestbook-that-is-not-there", folders: ["guestbook"], until: condition("ComparisonError") },
  { name: "missing-revision", path: "guestbook", revision: "no-such-branch", until: condition("ComparisonError") },
  { name: "missing-project", path: "guestbook", spec: { project: "nobodys" }, until: condition("InvalidSpecError") },
  { name: "refused", policy: failing, until: failed },
  { name: "unknown-kind", policy: failing, until: failed },
  { name: "twice", until: synced },
];

export const defaults = { automated };
