// An agent that speaks the published runner's protocol (pipelines.md §3) and does what it is sent with `kubectl`: it
// polls, groups tasks by workflow, makes claims before pods and deletes pods before claims, and reports each status.
// It knows nothing of what is in the objects. The published program itself is not to be had where these tests run: the
// module proxy has none of its versions.
import { spawnSync } from "node:child_process";

const ORDER = ["CreatePvc", "CreatePod", "DeletePod", "DeletePvc"];
// Errors after which the published agent does not ask to be sent the task again.
const FINAL = /\((BadRequest|Forbidden|MethodNotAllowed|Invalid|RequestEntityTooLarge|NotAcceptable|UnsupportedMediaType|Unauthorized|AlreadyExists|NotFound|Gone|Expired)\)/;

export class Venona {
  constructor({ url, name, token, kubeconfig, runtimes }) {
    Object.assign(this, { url, name, token, kubeconfig, runtimes });
    // What it did, for tests: [type, object, how it went].
    this.did = [];
  }

  async call(method, path, body) {
    const headers = { authorization: this.token, "content-type": "application/json", "user-agent": "cf-classic-runner/test cf-classic-runtime/test" };
    const answer = await fetch(`${this.url()}/api/agent/${encodeURIComponent(this.name)}${path}`, { method, headers, body: body && JSON.stringify(body) });
    if (answer.status >= 400) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  }

  // `reports: false` dies between the work and what is said about it.
  start({ reports = true } = {}) {
    this.stopped = false;
    this.running = this.loop(reports);
  }

  async stop() {
    this.stopped = true;
    await this.running;
  }

  async loop(reports) {
    let beat = 0;
    while (!this.stopped) {
      try {
        if (beat++ % 10 === 0) await this.call("PUT", "/status", { message: "All good" });
        await this.work(await this.call("GET", "/tasks?waitForStatusReport=true"), reports);
      } catch (error) {
        // Tried again at the next tick; kept for whoever wonders.
        this.trouble = error;
      }
      await new Promise((done) => setTimeout(done, 300));
    }
  }

  async work(tasks, reports) {
    const workflows = new Map();
    for (const task of tasks) workflows.set(task.metadata.workflowId, [...(workflows.get(task.metadata.workflowId) ?? []), task]);
    for (const group of workflows.values()) {
      if (!this.runtimes.includes(group[0].metadata.reName)) continue;
      group.sort((one, other) => ORDER.indexOf(one.type) - ORDER.indexOf(other.type));
      for (const task of group) {
        const problem = this.handle(task);
        this.did.push([task.type, task.spec.metadata?.name ?? task.spec.name, problem ?? "done"]);
        if (!reports || !task.metadata.shouldReportStatus) continue;
        const status = { status: problem ? "Error" : "Success", occurredAt: new Date().toISOString(), statusRevision: task.metadata.currentStatusRevision + 1, isRetriable: Boolean(problem) && !FINAL.test(problem), reason: problem };
        await this.call("POST", `/tasks/${task._id}/statuses`, status);
      }
    }
  }

  handle({ type, spec }) {
    const kind = type.endsWith("Pod") ? "pod" : "persistentvolumeclaim";
    const words = type.startsWith("Create") ? ["create", "--filename", "-"] : ["delete", kind, spec.name, "--namespace", spec.namespace, "--wait=false"];
    const done = spawnSync("kubectl", ["--kubeconfig", this.kubeconfig, ...words], { input: JSON.stringify(spec), encoding: "utf8" });
    return done.status === 0 ? undefined : done.stderr.trim();
  }
}
