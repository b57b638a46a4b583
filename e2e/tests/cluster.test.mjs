// The embedded cluster as a person uses it: kubectl and helm, every command and answer in one transcript.
// SLIPWAY_TRANSCRIPT=FILE keeps the transcript.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { execFile, execFileSync, spawn } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { until } from "../platform.mjs";

const run = promisify(execFile);
const binary = resolve(process.env.SLIPWAY_BIN ?? "target/release/slipway");
const folder = mkdtempSync(join(tmpdir(), "slipway-e2e-"));
const kubeconfig = join(folder, "kubeconfig");
const image = "localhost/slipway-e2e-web:1";
const environment = { ...process.env, KUBECONFIG: kubeconfig, HOME: folder };
const transcript = [];
let cluster, helm;

function makeImage() {
  const tree = join(folder, "tree");
  mkdirSync(join(tree, "bin"), { recursive: true });
  mkdirSync(join(tree, "www"));
  mkdirSync(join(tree, "tmp"));
  copyFileSync(execFileSync("sh", ["-c", "command -v busybox"], { encoding: "utf8" }).trim(), join(tree, "bin/busybox"));
  for (const name of execFileSync("busybox", ["--list"], { encoding: "utf8" }).split("\n")) {
    if (name && name !== "busybox") symlinkSync("busybox", join(tree, "bin", name));
  }
  execFileSync("sh", ["-c", `tar -C ${tree} -c . | podman import -q --change 'CMD ["/bin/sh"]' - ${image}`]);
}

// As typed: the words of a line, with single quotes around what holds spaces.
async function shell(line, { input, fails = false } = {}) {
  const child = run("bash", ["-c", line], { env: environment, maxBuffer: 16 << 20, timeout: 180_000 });
  child.child.stdin.end(input ?? "");
  const { stdout, stderr, failed } = await child.catch((error) => ({ ...error, failed: true }));
  transcript.push(`$ ${line.replaceAll(folder, "~").replaceAll(/^\S*\/helm /g, "helm ")}`, stdout + stderr);
  assert.equal(Boolean(failed), fails, `${line}\n${stdout}${stderr}`);
  return stdout + stderr;
}

const file = (name, text) => writeFileSync(join(folder, name), text) ?? join(folder, name);

const manifests = (text, replicas = 2) => `
apiVersion: v1
kind: ConfigMap
metadata: {name: page}
data: {index.html: "${text}"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: ${replicas}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {text: "${text}"}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
        - name: web
          image: ${image}
          imagePullPolicy: IfNotPresent
          command: [sh, -c, "echo serving; trap 'exit 0' TERM; httpd -f -p 8080 -h /www & wait"]
          ports: [{containerPort: 8080}]
          readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
          volumeMounts: [{name: page, mountPath: /www}]
      volumes: [{name: page, configMap: {name: page}}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`;

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.harbour.example.com}
spec:
  group: harbour.example.com
  scope: Namespaced
  names: {plural: boats, singular: boat, kind: Boat, shortNames: [bt]}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              required: [length]
              properties: {length: {type: integer, minimum: 1, description: "In metres."}}
      additionalPrinterColumns: [{name: Length, type: integer, jsonPath: .spec.length}]
`;

before(async () => {
  makeImage();
  helm = execFileSync(resolve("scripts/kube.sh"), ["tools", "helm"], { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }).trim();
  const began = Date.now();
  cluster = spawn(binary, ["devcluster", "--data", join(folder, "cluster"), "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig], { stdio: "ignore" });
  await until("the first answer to kubectl get ns", () => run("kubectl", ["get", "ns"], { env: environment }), 30);
  transcript.push(`(the first kubectl get ns succeeded ${Date.now() - began} ms after the start)`);
});

after(async () => {
  cluster.kill("SIGTERM");
  await new Promise((done) => (cluster.exitCode === null ? cluster.once("exit", done) : done()));
  execFileSync(binary, ["down", "--data", folder]);
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  if (process.env.SLIPWAY_TRANSCRIPT) writeFileSync(process.env.SLIPWAY_TRANSCRIPT, transcript.join("\n"));
});

test("apply, get -w, rollout, describe, logs, exec", async () => {
  const all = file("all.yaml", manifests("one"));
  const watching = shell("timeout 25 kubectl get pods -w -l app=web -o custom-columns=NAME:.metadata.name,PHASE:.status.phase || true");
  assert.match(await shell(`kubectl apply -f ${all}`), /deployment.apps\/web created/);
  assert.match(await shell("kubectl rollout status deployment/web --timeout=90s"), /successfully rolled out/);
  assert.match(await shell("kubectl get deployment,service,configmap"), /deployment.apps\/web +2\/2 +2 +2/);
  assert.match(await shell("kubectl describe deployment web"), /2 desired \| 2 updated \| 2 total \| 2 available/);
  const pod = (await shell("kubectl get pods -l app=web -o jsonpath='{.items[0].metadata.name}'")).trim();
  assert.match(await shell(`kubectl describe pod ${pod}`), /Started container web/);
  assert.match(await shell(`timeout 3 kubectl logs -f ${pod} || true`), /serving/);
  assert.equal(await shell(`kubectl exec ${pod} -- cat /www/index.html`), "one");
  assert.match(await watching, /Running/);
});

test("a change: diff, apply, undo, scale", async () => {
  const all = file("all.yaml", manifests("two"));
  assert.match(await shell(`kubectl diff -f ${all}`, { fails: true }), /\+.*text: two/);
  await shell(`kubectl apply -f ${all}`);
  assert.match(await shell("kubectl rollout status deployment/web --timeout=90s"), /successfully rolled out/);
  assert.match(await shell("kubectl rollout history deployment/web"), /2 +<none>/);
  assert.match(await shell("kubectl rollout undo deployment/web"), /rolled back/);
  await shell("kubectl rollout status deployment/web --timeout=90s");
  assert.equal(await shell("kubectl get deployment web -o jsonpath='{.spec.template.metadata.annotations.text}'"), "one");
  assert.match(await shell("kubectl scale deployment web --replicas=3"), /scaled/);
  await shell("kubectl rollout status deployment/web --timeout=90s");
  assert.match(await shell("kubectl get deployment web"), /3\/3/);
});

test("server-side apply tells who owns what", async () => {
  const patch = JSON.stringify({ apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web" }, spec: { replicas: 1 } });
  const answer = await shell(`echo '${patch}' | kubectl apply --server-side --field-manager=other -f -`, { fails: true });
  assert.match(answer, /conflict with "kubectl"/);
  assert.match(await shell(`echo '${patch}' | kubectl apply --server-side --field-manager=other --force-conflicts -f -`), /serverside-applied/);
});

test("a kind of one's own is explained, checked and listed", async () => {
  await shell(`kubectl apply -f ${file("definition.yaml", definition)}`);
  await shell("kubectl wait --for=condition=Established crd/boats.harbour.example.com --timeout=30s");
  assert.match(await shell("kubectl explain deployment.spec.replicas"), /integer/);
  await until("the schema of the new kind", async () => /In metres/.test((await run("kubectl", ["explain", "boat.spec"], { env: environment })).stdout), 30);
  assert.match(await shell("kubectl explain boat.spec"), /length/);
  const boat = (length) => JSON.stringify({ apiVersion: "harbour.example.com/v1", kind: "Boat", metadata: { name: "ada" }, spec: { length } });
  assert.match(await shell(`echo '${boat(0)}' | kubectl apply -f -`, { fails: true }), /should be greater than or equal to 1/);
  await shell(`echo '${boat(12)}' | kubectl apply -f -`);
  assert.match(await shell("kubectl get bt"), /NAME +LENGTH\s+ada +12/);
});

test("helm installs, upgrades, rolls back and uninstalls", async () => {
  mkdirSync(join(folder, "chart/templates"), { recursive: true });
  file("chart/Chart.yaml", "apiVersion: v2\nname: boat\nversion: 0.1.0\n");
  file("chart/values.yaml", "text: first\n");
  file("chart/templates/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}'}\ndata: {text: '{{ .Values.text }}'}\n");
  const text = () => shell("kubectl get configmap ada -o jsonpath='{.data.text}'");
  assert.match(await shell(`${helm} install ada ${folder}/chart --wait`), /STATUS: deployed/);
  assert.equal(await text(), "first");
  assert.match(await shell(`${helm} upgrade ada ${folder}/chart --set text=second --wait`), /REVISION: 2/);
  assert.equal(await text(), "second");
  assert.match(await shell(`${helm} rollback ada 1 --wait`), /Rollback was a success/);
  assert.equal(await text(), "first");
  assert.match(await shell(`${helm} history ada`), /3\s.*deployed\s.*Rollback to 1/);
  assert.match(await shell(`${helm} uninstall ada --wait`), /uninstalled/);
  assert.match(await shell("kubectl get configmap ada", { fails: true }), /not found/);
});

test("what is deleted goes away, with what it owns", async () => {
  assert.match(await shell(`kubectl delete -f ${file("all.yaml", manifests("two"))}`), /deployment.apps "web" deleted/);
  await until("the pods are gone", async () => !(await run("kubectl", ["get", "pods", "-o", "name"], { env: environment })).stdout.trim(), 60);
  assert.match(await shell("kubectl get all -l app=web"), /No resources found/);
});
