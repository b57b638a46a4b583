/**
 * Calls to a runtime's app-proxy: manifests, diffs and plans never pass through the control plane's store.
 *
 * The control plane gives a pass for each operation and says where the runtime is: on an address of its own, or through
 * its tunnel. Nothing but the pass is sent there: no cookie, no token of the page.
 */
import createClient from 'openapi-fetch';
import { ApiError, http, unwrap } from './client';
import type { paths } from './generated/app-proxy';
import { readEvents } from './podLog';
import { whyUnreached } from './reach';
import type {
  ActionRequest,
  ApplicationDiff,
  ApplicationEvents,
  ApplicationPlan,
  DeleteResourceRequest,
  Done,
  LogsRequest,
  Pass,
  PodLog,
  PodLogFailed,
  ResourceActions,
  ResourceManifest,
  ResourceRef,
  RolloutRequest,
  SyncRequest,
} from './types';

export interface ApplicationRef {
  runtime: string;
  namespace: string;
  name: string;
}

/** What can be asked of a Rollout. */
export const ROLLOUT_OPERATIONS = [
  'rollout-resume',
  'rollout-skip-current-step',
  'rollout-promote-full',
  'rollout-pause',
  'rollout-abort',
  'rollout-retry',
  'rollout-restart',
] as const;
export type RolloutOperation = (typeof ROLLOUT_OPERATIONS)[number];

const BASE = '/app-proxy/api/applications/{namespace}/{name}';

/** `detail` is the body that the runtime will get: the pass is good for no other. */
export function passFor(
  { runtime, namespace, name }: ApplicationRef,
  operation: string,
  detail?: Record<string, unknown>,
  signal?: AbortSignal,
): Promise<Pass> {
  const body = { operation, namespace, name, ...(detail ? { detail } : {}) };
  return unwrap(
    http.POST('/api/runtimes/{runtime}/pass', {
      params: { path: { runtime } },
      body,
      ...(signal ? { signal } : {}),
    }),
  );
}

/** The same for what is about no Application. */
export function runtimePass(
  runtime: string,
  operation: string,
  detail?: Record<string, unknown>,
  signal?: AbortSignal,
): Promise<Pass> {
  const body = { operation, ...(detail ? { detail } : {}) };
  return unwrap(
    http.POST('/api/runtimes/{runtime}/pass', {
      params: { path: { runtime } },
      body,
      ...(signal ? { signal } : {}),
    }),
  );
}

export function client(pass: Pass) {
  return createClient<paths>({
    baseUrl: new URL(pass.url, globalThis.location?.origin ?? 'http://localhost').href.replace(/\/+$/, ''),
    credentials: 'omit',
    headers: { Authorization: `Bearer ${pass.token}` },
    fetch: (request) => globalThis.fetch(request),
  });
}

const at = ({ namespace, name }: ApplicationRef) => ({ path: { namespace, name } });

const about = (ref: ApplicationRef, { group = '', kind, namespace = '', resourceName }: ResourceRef) => ({
  ...at(ref),
  query: { group, kind, namespace, resourceName },
});

/** Without an answer it is the runtime that is away, or the way there, not the server that the page came from. */
export async function ask<T>(
  ref: { runtime: string },
  url: string,
  call: Parameters<typeof unwrap<T>>[0],
): Promise<T> {
  try {
    return await unwrap(call);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== 'UNREACHABLE') throw error;
    throw new ApiError(0, `cannot reach the runtime \`${ref.runtime}\`; ${whyUnreached(url)}`, error.code);
  }
}

export const appProxy = {
  /** With a deployment of the history: what a rollback to it would change. */
  diff: async (ref: ApplicationRef, signal: AbortSignal, deployment?: number): Promise<ApplicationDiff> => {
    const pass = await passFor(ref, 'diff', undefined, signal);
    const params = { ...at(ref), ...(deployment === undefined ? {} : { query: { deployment } }) };
    return ask(ref, pass.url, client(pass).GET(`${BASE}/diff`, { params, signal }));
  },
  /** Without `prune` as the Application's automation has it. */
  plan: async (ref: ApplicationRef, signal: AbortSignal, prune?: boolean): Promise<ApplicationPlan> => {
    const pass = await passFor(ref, 'plan', undefined, signal);
    const params = { ...at(ref), ...(prune === undefined ? {} : { query: { prune } }) };
    return ask(ref, pass.url, client(pass).GET(`${BASE}/plan`, { params, signal }));
  },
  sync: async (ref: ApplicationRef, body: SyncRequest): Promise<Done> => {
    const pass = await passFor(ref, 'sync', { ...body });
    return ask(ref, pass.url, client(pass).POST(`${BASE}/sync`, { params: at(ref), body }));
  },
  refresh: async (ref: ApplicationRef, hard = false): Promise<Done> => {
    const pass = await passFor(ref, 'refresh', { hard });
    return ask(ref, pass.url, client(pass).POST(`${BASE}/refresh`, { params: at(ref), body: { hard } }));
  },
  syncPolicy: async (ref: ApplicationRef, automated: boolean): Promise<Done> => {
    const pass = await passFor(ref, 'sync-policy', { automated });
    const body = { automated };
    return ask(ref, pass.url, client(pass).POST(`${BASE}/sync-policy`, { params: at(ref), body }));
  },
  terminate: async (ref: ApplicationRef): Promise<Done> => {
    const pass = await passFor(ref, 'terminate');
    return ask(ref, pass.url, client(pass).POST(`${BASE}/terminate`, { params: at(ref) }));
  },
  rollback: async (ref: ApplicationRef, id: number): Promise<Done> => {
    const pass = await passFor(ref, 'rollback', { id });
    return ask(ref, pass.url, client(pass).POST(`${BASE}/rollback`, { params: at(ref), body: { id } }));
  },
  /** One of its live objects as it is now, secrets masked. */
  resource: async (ref: ApplicationRef, of: ResourceRef, signal: AbortSignal): Promise<ResourceManifest> => {
    const pass = await passFor(ref, 'resource', undefined, signal);
    return ask(ref, pass.url, client(pass).GET(`${BASE}/resource`, { params: about(ref, of), signal }));
  },
  /** What was noted about one of its live objects. */
  events: async (ref: ApplicationRef, of: ResourceRef, signal: AbortSignal): Promise<ApplicationEvents> => {
    const pass = await passFor(ref, 'events', undefined, signal);
    return ask(ref, pass.url, client(pass).GET(`${BASE}/events`, { params: about(ref, of), signal }));
  },
  /** What can be done to one of its live objects. */
  actions: async (ref: ApplicationRef, of: ResourceRef, signal: AbortSignal): Promise<ResourceActions> => {
    const pass = await passFor(ref, 'actions', undefined, signal);
    return ask(ref, pass.url, client(pass).GET(`${BASE}/actions`, { params: about(ref, of), signal }));
  },
  action: async (ref: ApplicationRef, body: ActionRequest): Promise<Done> => {
    const pass = await passFor(ref, 'action', { ...body });
    return ask(ref, pass.url, client(pass).POST(`${BASE}/action`, { params: at(ref), body }));
  },
  deleteResource: async (ref: ApplicationRef, body: DeleteResourceRequest): Promise<Done> => {
    const pass = await passFor(ref, 'delete-resource', { ...body });
    return ask(ref, pass.url, client(pass).POST(`${BASE}/delete-resource`, { params: at(ref), body }));
  },
  rollout: async (ref: ApplicationRef, operation: RolloutOperation, body: RolloutRequest): Promise<Done> => {
    const pass = await passFor(ref, operation, { ...body });
    return ask(ref, pass.url, client(pass).POST(`${BASE}/${operation}`, { params: at(ref), body }));
  },
  /** Until the log ends; `false` when it broke off before. */
  logs: async (
    ref: ApplicationRef,
    body: LogsRequest,
    heard: { text: (log: PodLog) => void; failed: (failure: PodLogFailed) => void; open: () => void },
    signal: AbortSignal,
  ): Promise<boolean> => {
    const pass = await passFor(ref, 'logs', { ...body }, signal);
    const stream = await ask(
      ref,
      pass.url,
      client(pass).POST(`${BASE}/logs`, { params: at(ref), body, signal, parseAs: 'stream' }),
    );
    heard.open();
    return readEvents(stream as unknown as ReadableStream<Uint8Array>, (name, data) => {
      if (name === 'failed') heard.failed(JSON.parse(data) as PodLogFailed);
      else if (name === 'message') heard.text(JSON.parse(data) as PodLog);
    });
  },
};
