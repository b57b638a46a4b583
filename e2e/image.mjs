// The program with the libraries that it asks for, as an image of a test cluster: there is no registry to pull one from.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";

const binary = resolve(process.env.SLIPWAY_BIN ?? "target/release/slipway");
const scripts = resolve(import.meta.dirname, "../scripts/kube.sh");

export function makeImage(image, cluster) {
  const folder = mkdtempSync(join(tmpdir(), "slipway-image-"));
  const root = join(folder, "root");
  mkdirSync(join(root, "bin"), { recursive: true });
  for (const name of ["data", "tmp", "token", "proc", "dev", "sys", "etc"]) mkdirSync(join(root, name));
  execFileSync("strip", ["--strip-debug", "-o", join(root, "bin/slipway"), binary]);
  const libraries = execFileSync("ldd", [binary], { encoding: "utf8" }).match(/\/\S+/g) ?? [];
  for (const library of libraries) {
    mkdirSync(join(root, dirname(library)), { recursive: true });
    cpSync(library, join(root, library), { dereference: true });
  }
  // As in every image that calls others: whom to believe.
  mkdirSync(join(root, "etc/ssl/certs"), { recursive: true });
  cpSync("/etc/ssl/certs/ca-certificates.crt", join(root, "etc/ssl/certs/ca-certificates.crt"), { dereference: true });
  execFileSync(scripts, ["image", root, image, "/bin/slipway"], { env: cluster, stdio: ["ignore", "ignore", "inherit"] });
  rmSync(folder, { recursive: true, force: true });
}
