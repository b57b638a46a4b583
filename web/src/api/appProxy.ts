/**
 * Calls to a runtime's app-proxy: manifests, diffs and plans never pass through the control plane's store.
 * The proxy is on the page's own origin, under `/app-proxy`, unless the runtime names an ingress.
 */
import { ApiError, csrfHeaders, toApiError, toNetworkError } from './client';
import type { ApplicationDiff, ApplicationPlan, Runtime, SyncRequest } from './types';

export interface ApplicationRef {
  runtime: string;
  namespace: string;
  name: string;
}

export function proxyUrl(ingressUrl: string | undefined, ref: ApplicationRef, verb: string): string {
  const base = (ingressUrl ?? '').replace(/\/+$/, '');
  const path = [ref.namespace, ref.name].map(encodeURIComponent).join('/');
  return `${base}/app-proxy/api/applications/${path}/${verb}`;
}

async function call(runtime: Runtime | undefined, ref: ApplicationRef, verb: string, init: RequestInit) {
  const ingress = runtime?.ingressUrl;
  let response: Response;
  try {
    response = await fetch(proxyUrl(ingress, ref, verb), {
      ...init,
      credentials: ingress ? 'include' : 'same-origin',
      headers: { ...csrfHeaders(), ...(init.body ? { 'Content-Type': 'application/json' } : {}) },
    });
  } catch (cause) {
    const error = toNetworkError(cause);
    throw error instanceof ApiError
      ? new ApiError(0, `cannot reach the runtime \`${ref.runtime}\`; check that it is online`, error.code)
      : error;
  }
  const text = await response.text();
  const body = parse(text);
  if (!response.ok) throw toApiError(response, body);
  return body;
}

function parse(text: string): unknown {
  try {
    return text ? JSON.parse(text) : undefined;
  } catch {
    return undefined;
  }
}

const post = (body?: unknown): RequestInit =>
  body === undefined ? { method: 'POST' } : { method: 'POST', body: JSON.stringify(body) };

export const appProxy = {
  diff: (runtime: Runtime | undefined, ref: ApplicationRef, signal?: AbortSignal) =>
    call(runtime, ref, 'diff', signal ? { signal } : {}) as Promise<ApplicationDiff>,
  plan: (runtime: Runtime | undefined, ref: ApplicationRef, signal?: AbortSignal) =>
    call(runtime, ref, 'plan', signal ? { signal } : {}) as Promise<ApplicationPlan>,
  sync: (runtime: Runtime | undefined, ref: ApplicationRef, request: Partial<SyncRequest>) =>
    call(runtime, ref, 'sync', post(request)),
  refresh: (runtime: Runtime | undefined, ref: ApplicationRef) => call(runtime, ref, 'refresh', post()),
  terminate: (runtime: Runtime | undefined, ref: ApplicationRef) => call(runtime, ref, 'terminate', post()),
  rollback: (runtime: Runtime | undefined, ref: ApplicationRef, id: number) =>
    call(runtime, ref, 'rollback', post({ id })),
};
