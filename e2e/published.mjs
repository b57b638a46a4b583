// The published command line: where it is, and how it is started.
import { mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";

export const codefresh = resolve(import.meta.dirname, "node_modules/codefresh/lib/interface/cli/codefresh");

// It is started a hundred times, and compiling its thousand modules is half of what a start costs: the bytecode is kept.
const cache = join(process.env.SLIPWAY_CACHE ?? join(homedir(), ".cache/slipway"), "node-bytecode");
mkdirSync(cache, { recursive: true });

/** The environment for a command in a home of its own, without anything that says which platform is meant. */
export function codefreshEnvironment(inherited, home) {
  const { CF_URL: _, CF_API_KEY: __, ...rest } = inherited;
  const quick = { NODE_OPTIONS: `--require=${resolve(import.meta.dirname, "node_modules/v8-compile-cache")}`, V8_COMPILE_CACHE_CACHE_DIR: cache };
  return { ...rest, ...quick, HOME: home, DISABLE_VERSION_CHECK: "true", NO_COLOR: "1" };
}
