/**
 * Calls to a runtime's app-proxy: manifests, diffs and plans never pass through the control plane's store.
 * The proxy is on the page's own origin unless the runtime names an ingress.
 */
import createClient from 'openapi-fetch';
import { ApiError, sendCsrfToken, unwrap } from './client';
import type { paths } from './generated/app-proxy';
import type { ApplicationDiff, ApplicationPlan, Done, Runtime, SyncRequest } from './types';

export interface ApplicationRef {
  runtime: string;
  namespace: string;
  name: string;
}

const BASE = '/app-proxy/api/applications/{namespace}/{name}';

function client(runtime: Runtime | undefined) {
  const ingress = runtime?.ingressUrl.replace(/\/+$/, '');
  const made = createClient<paths>({
    baseUrl: ingress || (globalThis.location?.origin ?? ''),
    credentials: ingress ? 'include' : 'same-origin',
    fetch: (request) => globalThis.fetch(request),
  });
  made.use(sendCsrfToken);
  return made;
}

const at = ({ namespace, name }: ApplicationRef) => ({ path: { namespace, name } });

/** Without an answer it is the runtime that is away, not the server that the page came from. */
async function ask<T>(ref: ApplicationRef, call: Parameters<typeof unwrap<T>>[0]): Promise<T> {
  try {
    return await unwrap(call);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'UNREACHABLE') throw error;
    throw new ApiError(0, `cannot reach the runtime \`${ref.runtime}\`; check that it is online`, error.code);
  }
}

export const appProxy = {
  /** With a deployment of the history: what a rollback to it would change. */
  diff: (
    runtime: Runtime | undefined,
    ref: ApplicationRef,
    signal: AbortSignal,
    deployment?: number,
  ): Promise<ApplicationDiff> =>
    ask(
      ref,
      client(runtime).GET(`${BASE}/diff`, {
        params: { ...at(ref), ...(deployment === undefined ? {} : { query: { deployment } }) },
        signal,
      }),
    ),
  plan: (runtime: Runtime | undefined, ref: ApplicationRef, signal: AbortSignal): Promise<ApplicationPlan> =>
    ask(ref, client(runtime).GET(`${BASE}/plan`, { params: at(ref), signal })),
  sync: (runtime: Runtime | undefined, ref: ApplicationRef, body: SyncRequest): Promise<Done> =>
    ask(ref, client(runtime).POST(`${BASE}/sync`, { params: at(ref), body })),
  refresh: (runtime: Runtime | undefined, ref: ApplicationRef, hard = false): Promise<Done> =>
    ask(ref, client(runtime).POST(`${BASE}/refresh`, { params: at(ref), body: { hard } })),
  syncPolicy: (runtime: Runtime | undefined, ref: ApplicationRef, automated: boolean): Promise<Done> =>
    ask(ref, client(runtime).POST(`${BASE}/sync-policy`, { params: at(ref), body: { automated } })),
  terminate: (runtime: Runtime | undefined, ref: ApplicationRef): Promise<Done> =>
    ask(ref, client(runtime).POST(`${BASE}/terminate`, { params: at(ref) })),
  rollback: (runtime: Runtime | undefined, ref: ApplicationRef, id: number): Promise<Done> =>
    ask(ref, client(runtime).POST(`${BASE}/rollback`, { params: at(ref), body: { id } })),
};
