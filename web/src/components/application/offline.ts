import type { Runtime } from '../../api/types';

/** Manifests and actions live with the runtime, so without it they cannot be had. */
export function offlineReason(
  name: string,
  all: Runtime[] | undefined,
  runtime: Runtime | undefined,
): string | undefined {
  if (!all) return undefined;
  if (!runtime) return `The runtime ${name} has not reported; start it to act on this application.`;
  return runtime.online ? undefined : `The runtime ${name} is offline; start it to act on this application.`;
}
