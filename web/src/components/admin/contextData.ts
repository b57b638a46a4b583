/**
 * A context's data between the wire and a form. Secrets come masked; one that is not touched goes back masked, and
 * the server keeps what it was.
 */
import type { Context } from '../../api/types';

export const MASK = '*****';

type Data = Record<string, unknown>;

export interface Pair {
  id: number;
  key: string;
  value: string;
  /** It came masked: left empty, it stays what it was. */
  masked: boolean;
}

export interface Field {
  /** Where it is in the data: `auth.password`. */
  path: string;
  label: string;
  description?: string;
  placeholder?: string;
  secret?: boolean;
}

interface TypeOfContext {
  type: string;
  label: string;
  /** Names with one value each, named fields, or any JSON. */
  form: 'pairs' | 'json' | Field[];
  secret?: boolean;
  /** What the data starts with, where a form does not ask for it. */
  start?: Data;
}

const BEHIND_FIREWALL: Field = {
  path: 'behindFirewall',
  label: 'Behind a firewall',
  description: 'true: the platform does not dial it; a runner inside makes the calls',
};

const git = (type: string, label: string, host: string): TypeOfContext => ({
  type,
  label,
  start: { auth: { type: 'basic' } },
  form: [
    { path: 'auth.apiHost', label: 'Host', placeholder: host },
    {
      path: 'auth.username',
      label: 'User name',
      description: 'If the host needs one with the token',
    },
    { path: 'auth.password', label: 'Access token', secret: true },
    BEHIND_FIREWALL,
  ],
});

export const CONFIGURATION: TypeOfContext[] = [
  { type: 'config', label: 'Variables', form: 'pairs' },
  { type: 'secret', label: 'Secret variables', form: 'pairs', secret: true },
  { type: 'yaml', label: 'YAML', form: 'json' },
  { type: 'secret-yaml', label: 'Secret YAML', form: 'json', secret: true },
];

export const INTEGRATIONS: TypeOfContext[] = [
  git('git.github', 'GitHub', 'github.com'),
  git('git.gitlab', 'GitLab', 'gitlab.com'),
  git('git.gitea', 'Gitea', 'git.example.com'),
  git('git.bitbucket', 'Bitbucket', 'bitbucket.org'),
  git('git.stash', 'Bitbucket Server', 'bitbucket.example.com'),
  {
    type: 'registry',
    label: 'Image registry',
    start: { provider: 'other' },
    form: [
      { path: 'domain', label: 'Host', placeholder: 'registry.example.com' },
      { path: 'username', label: 'User name' },
      { path: 'password', label: 'Password', secret: true },
      {
        path: 'repositoryPrefix',
        label: 'Prefix',
        description: 'Inserted between the host and image names',
      },
      {
        path: 'default',
        label: 'Default',
        description: 'true: use it for steps that name no registry',
      },
      BEHIND_FIREWALL,
    ],
  },
];

const ALL = [...CONFIGURATION, ...INTEGRATIONS];

/** A type of a newer server is edited as JSON. */
export const typeOf = (type: string): TypeOfContext =>
  ALL.find((each) => each.type === type) ?? { type, label: type, form: 'json' };

export const isConfiguration = ({ spec }: Context): boolean =>
  CONFIGURATION.some(({ type }) => type === spec.type);

let nextId = 0;

export const newPair = (): Pair => ({ id: nextId++, key: '', value: '', masked: false });

export function toPairs(data: Data): Pair[] {
  return Object.entries(data).map(([key, value]) => {
    const masked = value === MASK;
    return { id: nextId++, key, value: masked ? '' : String(value ?? ''), masked };
  });
}

export function fromPairs(pairs: Pair[]): Data {
  return Object.fromEntries(
    pairs.map(({ key, value, masked }) => [key.trim(), masked && !value ? MASK : value]),
  );
}

export function readPath(data: Data, path: string): string {
  let at: unknown = data;
  for (const part of path.split('.')) {
    at = typeof at === 'object' && at !== null ? (at as Data)[part] : undefined;
  }
  return at === undefined || at === null ? '' : String(at);
}

/** A copy with the value there; an empty one is taken out. The rest stays as it came. */
export function writePath(data: Data, path: string, value: string): Data {
  const [first = '', ...rest] = path.split('.');
  const copy = { ...data };
  if (rest.length > 0) {
    const inner = copy[first];
    const child = typeof inner === 'object' && inner !== null ? (inner as Data) : {};
    copy[first] = writePath(child, rest.join('.'), value);
  } else if (value === '') delete copy[first];
  else copy[first] = value;
  return copy;
}

/** The object that a text says, or why it is none. */
export function parseData(text: string): { data: Data } | { problem: string } {
  try {
    const data: unknown = JSON.parse(text);
    if (typeof data === 'object' && data !== null && !Array.isArray(data)) return { data: data as Data };
    return { problem: 'Enter a JSON object: { "name": "value" }' };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

/** The names that builds get, for the list. */
export function namesOf({ spec }: Context): string[] {
  return Object.keys(spec.data ?? {});
}

/** What is sent: the rest of the context as it came. */
export function build(
  before: Context | undefined,
  change: { name: string; type: string; data: Data; tags: string[]; forbidDecrypt: boolean },
): Context {
  const { name, type, data, tags, forbidDecrypt } = change;
  return {
    ...before,
    metadata: { ...before?.metadata, name, labels: { ...before?.metadata.labels, tags }, forbidDecrypt },
    spec: { ...before?.spec, type, data },
  };
}
