/**
 * An Application that is being written: its text, and what the form shows of it.
 *
 * In: YAML, and a field with its new value. Out: the same YAML with that field changed and everything else, comments too, as it
 * was; or what is wrong with it, with places. Does not know whether what it names is there: the runtime looks.
 */
import { isMap, isNode, isScalar, parseDocument, visit, type Document } from 'yaml';
import type { EditorNote } from '../../ui/Editor';

export interface Fields {
  name: string;
  project: string;
  kind: 'folder' | 'chart';
  repoURL: string;
  targetRevision: string;
  path: string;
  chart: string;
  /** Its address, or `name:` and its name. */
  cluster: string;
  namespace: string;
  createNamespace: boolean;
  automated: boolean;
  prune: boolean;
  selfHeal: boolean;
}

export type Field = keyof Fields;

export const OWN_CLUSTER = 'https://kubernetes.default.svc';
const CREATE = 'CreateNamespace=true';

export const start = (namespace: string): string => `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name:
  namespace: ${namespace}
spec:
  project: default
  source:
    repoURL:
    targetRevision: HEAD
    path:
  destination:
    server: ${OWN_CLUSTER}
    namespace:
  syncPolicy:
    automated: {}
    syncOptions:
      - ${CREATE}
`;

type Loose = Record<string, unknown>;
const map = (value: unknown): Loose =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Loose) : {};
const text = (value: unknown): string =>
  typeof value === 'string' ? value : typeof value === 'number' ? String(value) : '';

export interface Read {
  application: Loose;
  fields: Fields;
  /** Why the form cannot show it, though it is right. */
  beyond: string | undefined;
  /** What is sent is no text, so they do not arrive. */
  hasComments: boolean;
}

/** What the text says, or what is wrong with it. */
export function read(source: string): Read | EditorNote[] {
  const document = parseDocument(source, { prettyErrors: true });
  const notes = document.errors.map(({ linePos, message }): EditorNote => {
    const [at] = linePos ?? [];
    const sentence = message.split('\n')[0]?.replace(/ at line \d+, column \d+:?$/, '') ?? message;
    return { line: at?.line ?? 0, column: at?.col ?? 1, message: sentence, severity: 'error' };
  });
  if (notes.length > 0) return notes;
  let application: unknown;
  try {
    // What is sent is JSON: a date is a text in it, and nothing can hold itself.
    application = JSON.parse(JSON.stringify(document.toJS({ maxAliasCount: 100 })) ?? 'null');
  } catch {
    return [{ ...placeOfAlias(document, source), severity: 'error' }];
  }
  if (typeof application !== 'object' || application === null || Array.isArray(application))
    return [{ line: 1, column: 1, message: 'this is no Application', severity: 'error' }];
  return {
    application: application as Loose,
    fields: fieldsOf(application as Loose),
    beyond:
      beyond(application as Loose) ??
      (hasAliases(document) ? 'It says things once for several places.' : undefined),
    hasComments: hasComments(document),
  };
}

function hasComments(document: Document): boolean {
  let found = Boolean(document.commentBefore || document.comment);
  visit(document, (_key, node) => {
    if (isNode(node) && (node.commentBefore || node.comment)) found = true;
    return found ? visit.BREAK : undefined;
  });
  return found;
}

/** Nothing else of a text that is YAML cannot be read: an alias of what is not named before it, or that is in what it names. */
function placeOfAlias(document: Document, source: string): Pick<EditorNote, 'line' | 'column' | 'message'> {
  let found: { at: number; name: string } | undefined;
  visit(document, {
    Alias: (_key, node) => {
      const isUnknown = !node.resolve(document);
      if (isUnknown || !found) found = { at: node.range?.[0] ?? 0, name: node.source };
      return isUnknown ? visit.BREAK : undefined;
    },
  });
  const before = source.slice(0, found?.at).split('\n');
  const message = `the alias *${found?.name ?? ''} names nothing that is whole before it; a text that begins with * needs quotes`;
  return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1, message };
}

/** A field that is changed where several places share it would be changed in all of them. */
function hasAliases(document: Document): boolean {
  let found = false;
  visit(document, {
    Alias: () => {
      found = true;
      return visit.BREAK;
    },
  });
  return found;
}

export const isRead = (value: Read | EditorNote[]): value is Read => !Array.isArray(value);

function fieldsOf(application: Loose): Fields {
  const spec = map(application['spec']);
  const [source, destination, policy] = [
    map(spec['source']),
    map(spec['destination']),
    map(spec['syncPolicy']),
  ];
  const automated = map(policy['automated']);
  const named = text(destination['name']);
  return {
    name: text(map(application['metadata'])['name']),
    project: text(spec['project']),
    kind: source['chart'] === undefined ? 'folder' : 'chart',
    repoURL: text(source['repoURL']),
    targetRevision: text(source['targetRevision']),
    path: text(source['path']),
    chart: text(source['chart']),
    cluster: named ? `name:${named}` : text(destination['server']),
    namespace: text(destination['namespace']),
    createNamespace: options(policy).includes(CREATE),
    automated: policy['automated'] === automated && automated['enabled'] !== false,
    prune: automated['prune'] === true,
    selfHeal: automated['selfHeal'] === true,
  };
}

const options = (policy: Loose): unknown[] =>
  Array.isArray(policy['syncOptions']) ? (policy['syncOptions'] as unknown[]) : [];

/** A form with one source in it would lose the others, and one over a text would lose that. */
function beyond(application: Loose): string | undefined {
  const spec = map(application['spec']);
  if (spec['sources'] !== undefined) return 'It has several sources.';
  const nested: [string, unknown][] = [
    ['metadata', application['metadata']],
    ['spec', application['spec']],
    ['spec.source', spec['source']],
    ['spec.destination', spec['destination']],
    ['spec.syncPolicy', spec['syncPolicy']],
    ['spec.syncPolicy.automated', map(spec['syncPolicy'])['automated']],
  ];
  const wrong = nested.find(([, value]) => (value ?? undefined) !== undefined && map(value) !== value);
  return wrong && `\`${wrong[0]}\` is no mapping.`;
}

/** The text with one field changed. Nothing is written for what is empty, so that defaults stay defaults. */
export function changed(source: string, field: Field, value: string | boolean): string {
  const document = parseDocument(source);
  const put = (path: string[], next: unknown) => {
    if (next === '' || next === undefined || next === false) remove(document, path);
    else set(document, path, next);
  };
  const at = ['spec', 'source'];
  switch (field) {
    case 'name':
      set(document, ['metadata', 'name'], value);
      break;
    case 'project':
      put(['spec', 'project'], value);
      break;
    case 'kind':
      if (value === 'chart') {
        document.deleteIn([...at, 'path']);
        set(document, [...at, 'chart'], '');
        set(document, [...at, 'targetRevision'], '');
      } else {
        document.deleteIn([...at, 'chart']);
        set(document, [...at, 'path'], '');
        set(document, [...at, 'targetRevision'], 'HEAD');
      }
      break;
    case 'repoURL':
    case 'path':
    case 'chart':
      set(document, [...at, field], value);
      break;
    case 'targetRevision':
      put([...at, field], value);
      break;
    case 'cluster': {
      const name = String(value).startsWith('name:') ? String(value).slice(5) : '';
      put(['spec', 'destination', 'name'], name);
      put(['spec', 'destination', 'server'], name ? '' : value);
      break;
    }
    case 'namespace':
      put(['spec', 'destination', 'namespace'], value);
      break;
    case 'createNamespace': {
      const rest = options(map(map(map(document.toJS())['spec'])['syncPolicy'])).filter(
        (one) => one !== CREATE,
      );
      const next = value ? [...rest, CREATE] : rest;
      put(['spec', 'syncPolicy', 'syncOptions'], next.length > 0 ? next : '');
      break;
    }
    case 'automated':
      if (value) set(document, ['spec', 'syncPolicy', 'automated'], document.createNode({}));
      else put(['spec', 'syncPolicy', 'automated'], '');
      break;
    case 'prune':
    case 'selfHeal':
      // Switched off, automation itself stays: `{}` means something.
      if (value) set(document, ['spec', 'syncPolicy', 'automated', field], true);
      else document.deleteIn(['spec', 'syncPolicy', 'automated', field]);
      break;
  }
  return document.toString({ lineWidth: 0 });
}

/** In the quotes that it needs, not in those that stood there before. */
function set(document: Document, path: string[], value: unknown): void {
  // `spec:` with nothing behind it is read as nothing, in which nothing can be set.
  for (let length = 1; length < path.length; length += 1)
    if (document.getIn(path.slice(0, length)) === null) document.deleteIn(path.slice(0, length));
  document.setIn(path, value);
  const node = document.getIn(path, true);
  if (isScalar(node)) delete node.type;
}

/** With the mapping that has nothing left in it. */
function remove(document: Document, path: string[]): void {
  if (!document.hasIn(path)) return;
  document.deleteIn(path);
  const above = path.slice(0, -1);
  const left = document.getIn(above);
  if (above.length > 1 && isMap(left) && left.items.length === 0) document.deleteIn(above);
}

/** Which field a finding of the runtime is about; the rest is shown above the form. */
export function fieldAt(path: string): Field | undefined {
  const fields: Record<string, Field> = {
    'metadata.name': 'name',
    'spec.project': 'project',
    'spec.source.repoURL': 'repoURL',
    'spec.source.targetRevision': 'targetRevision',
    'spec.source.path': 'path',
    'spec.source.chart': 'chart',
    'spec.destination': 'cluster',
    'spec.destination.server': 'cluster',
    'spec.destination.name': 'cluster',
    'spec.destination.namespace': 'namespace',
  };
  return fields[path];
}

const NAME = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/;

/** What can be said without asking anybody. */
export function missing(fields: Fields): Partial<Record<Field, string>> {
  const wrong: Partial<Record<Field, string>> = {};
  if (!NAME.test(fields.name))
    wrong.name = fields.name
      ? 'Lowercase letters, digits, `-` and `.`, with a letter or digit at both ends'
      : 'Enter a name';
  if (!fields.repoURL) wrong.repoURL = 'Enter where the manifests are';
  if (fields.kind === 'folder' && !fields.path) wrong.path = 'Enter a folder; `.` is the whole repository';
  if (fields.kind === 'chart' && !fields.chart) wrong.chart = 'Enter the name of a chart';
  if (fields.kind === 'chart' && !fields.targetRevision)
    wrong.targetRevision = 'Enter a version, or a range such as `1.*`';
  if (!fields.cluster) wrong.cluster = 'Choose where it is deployed';
  if (!fields.namespace) wrong.namespace = 'Enter a namespace';
  return wrong;
}
