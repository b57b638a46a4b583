// The repository of bench/gitops.mjs: N folders of M ConfigMaps, plain, by kustomize or by Helm; the objects are the same each time.
// In: numbers and a value. Out: commits. Does not know: the cluster.
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export const map = (app, index, value) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: `a${app}-m${index}`, labels: { app: `a${app}` } },
  data: { value, text: "x".repeat(200) },
});

const TEMPLATE = `{{- range until (int .Values.objects) }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: a{{ $.Values.app }}-m{{ . }}
  labels: {app: a{{ $.Values.app }}}
data:
  value: {{ $.Values.value | quote }}
  text: ${"x".repeat(200)}
{{- end }}
`;

const written = {
  plain(at, app, each, value) {
    for (let index = 0; index < each; index++) writeFileSync(join(at, `${index}.json`), JSON.stringify(map(app, index, value)));
  },
  kustomize(at, app, each, value) {
    written.plain(at, app, each, value);
    const resources = Array.from({ length: each }, (_, index) => `${index}.json`);
    writeFileSync(join(at, "kustomization.yaml"), JSON.stringify({ resources }));
  },
  helm(at, app, each, value) {
    mkdirSync(join(at, "templates"), { recursive: true });
    writeFileSync(join(at, "Chart.yaml"), "apiVersion: v2\nname: maps\nversion: 0.1.0\n");
    writeFileSync(join(at, "values.yaml"), JSON.stringify({ app: String(app), objects: each, value }));
    writeFileSync(join(at, "templates/maps.yaml"), TEMPLATE);
  },
};

export const kinds = Object.keys(written);

export class Repository {
  constructor(folder, kind, applications, each) {
    Object.assign(this, { folder, kind, applications, each });
    mkdirSync(folder, { recursive: true });
    this.git("init", "--quiet", "--initial-branch=main");
  }
  git(...words) {
    const named = ["-c", "user.name=bench", "-c", "user.email=bench@example.org", ...words];
    return execFileSync("git", named, { cwd: this.folder, encoding: "utf8", env: { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null" } }).trim();
  }
  /** Sets the value of all Applications, or of one. */
  commit(value, only = null) {
    for (let app = 0; app < this.applications; app++) {
      if (only !== null && app !== only) continue;
      const at = join(this.folder, "apps", String(app));
      mkdirSync(at, { recursive: true });
      written[this.kind](at, app, this.each, value);
    }
    this.git("add", "--all");
    this.git("commit", "--quiet", "--allow-empty", "--message", `value ${value}`);
    return this.git("rev-parse", "HEAD");
  }
}
