/**
 * Applications as Git declares them: written by a commit of whoever asks, through a runtime.
 *
 * The platform hears where and under which name, what access rules look at, and of the rest a digest; the runtime gets the whole.
 */
import { ask, client, passFor, runtimePass, type ApplicationRef } from './appProxy';
import { sha256 } from './digest';
import type { GitPlace } from './gitAccess';
import type { Declaration, Declared } from './types';

type Loose = Record<string, unknown>;
const map = (value: unknown): Loose | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Loose) : undefined;

/** Compact JSON with the names of all mappings in order: two programs have to make one text of a value. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  const fields = map(value);
  if (!fields) return JSON.stringify(value ?? null);
  const names = Object.keys(fields).toSorted((a, b) => (a < b ? -1 : 1));
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(fields[name])}`).join(',')}}`;
}

/** What the platform is told of it: the pass is good for exactly this. */
export async function told({ application, ...rest }: Declaration): Promise<Loose> {
  const declares: Loose = {};
  const destination = map(map(application)?.['spec'])?.['destination'];
  if (destination !== undefined) {
    const known = Object.entries(map(destination) ?? {}).filter(([name]) =>
      ['name', 'server', 'namespace'].includes(name),
    );
    declares['destination'] = map(destination) ? Object.fromEntries(known) : null;
  }
  const labels = map(map(application)?.['metadata'])?.['labels'];
  if (labels !== undefined) declares['labels'] = labels;
  return { ...rest, sha256: await sha256(canonical(application)), declares };
}

const query = ({ provider, host }: GitPlace) => ({ provider, ...(host ? { host } : {}) });

const given = (name: string, value: string) => (value.trim() ? { [name]: value.trim() } : {});

export const declare = {
  /** The file, and whose access opens it. What is empty is left to the runtime. */
  at: (
    { provider, host }: GitPlace,
    place: { repository: string; branch: string; file: string; message: string },
  ): Declaration => ({
    provider,
    ...given('host', host),
    repository: place.repository.trim(),
    ...given('branch', place.branch),
    file: place.file.trim(),
    ...given('message', place.message),
  }),
  /** With `dryRun` everything is looked at and nothing is committed. */
  create: async (ref: ApplicationRef, body: Declaration): Promise<Declared> => {
    const pass = await passFor(ref, 'create', await told(body));
    const params = { path: { namespace: ref.namespace, name: ref.name } };
    const path = '/app-proxy/api/applications/{namespace}/{name}/create';
    return ask(ref, pass.url, client(pass).POST(path, { params, body }));
  },
  /** The same; it says what goes with it. */
  delete: async (ref: ApplicationRef, body: Declaration): Promise<Declared> => {
    const pass = await passFor(ref, 'delete', { ...body });
    const params = { path: { namespace: ref.namespace, name: ref.name } };
    const path = '/app-proxy/api/applications/{namespace}/{name}/delete';
    return ask(ref, pass.url, client(pass).POST(path, { params, body }));
  },
  /** Those that the asker's own token sees. */
  repositories: async (runtime: string, place: GitPlace, signal: AbortSignal): Promise<string[]> => {
    const pass = await runtimePass(runtime, 'git-repositories', undefined, signal);
    const params = { query: query(place) };
    const call = client(pass).GET('/app-proxy/api/git/git-repositories', { params, signal });
    return (await ask({ runtime }, pass.url, call)).names;
  },
  branches: async (
    runtime: string,
    place: GitPlace,
    repository: string,
    signal: AbortSignal,
  ): Promise<string[]> => {
    const pass = await runtimePass(runtime, 'git-branches', undefined, signal);
    const params = { query: { ...query(place), repository } };
    const call = client(pass).GET('/app-proxy/api/git/git-branches', { params, signal });
    return (await ask({ runtime }, pass.url, call)).branches.map(({ name }) => name);
  },
};
