import { ask, client, runtimePass } from './appProxy';
import type { RuntimeLogs } from './types';

/** What the runtime's own process says, of one component or (empty) of all; Administrators may. */
export async function runtimeLog(runtime: string, component: string): Promise<RuntimeLogs> {
  const body = component ? { component } : {};
  const pass = await runtimePass(runtime, 'runtime-logs', body);
  return ask({ runtime }, pass.url, client(pass).POST('/app-proxy/api/runtime/runtime-logs', { body }));
}
