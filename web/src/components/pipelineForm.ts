/** Between a pipeline and the fields of its form. What the form does not show stays as it was. */
import type { Pipeline } from '../api/types';
import { yamlText } from './yamlText';

export type Source = 'inline' | 'git' | 'url';

export interface PipelineFields {
  name: string;
  description: string;
  tags: string[];
  source: Source;
  text: string;
  repo: string;
  path: string;
  revision: string;
  url: string;
  priority: string;
  concurrency: string;
  branchConcurrency: string;
  triggerConcurrency: string;
  endOlder: boolean;
  variables: { id: number; key: string; value: string; encrypted: boolean }[];
  triggers: {
    id: number;
    name: string;
    repo: string;
    context: string;
    events: string[];
    branchRegex: string;
    modifiedFilesGlob: string;
    disabled: boolean;
  }[];
  crons: { id: number; name: string; expression: string; timeZone: string; message: string }[];
}

export const START = `version: "1.0"
steps:
  test:
    image: alpine
    commands:
      - echo hello
`;

type Loose = Record<string, unknown>;
const text = (value: unknown): string => (typeof value === 'string' ? value : '');
const number = (value: unknown): string => (typeof value === 'number' ? String(value) : '');
const list = (value: unknown): Loose[] => (Array.isArray(value) ? (value as Loose[]) : []);

const ROOT_KEYS = [
  'stages',
  'mode',
  'hooks',
  'fail_fast',
  'strict_fail_fast',
  'success_criteria',
  'services',
];

/** The author's own text, or the steps as YAML. */
export function textOf(pipeline: Pipeline): string {
  const metadata = pipeline.metadata as Loose;
  const spec = pipeline.spec as Loose;
  if (text(metadata['originalYamlString'])) return text(metadata['originalYamlString']);
  if (!spec['steps']) return START;
  const root: Loose = { version: '1.0' };
  for (const key of ROOT_KEYS) if (spec[key] !== undefined) root[key] = spec[key];
  root['steps'] = spec['steps'];
  return yamlText(root);
}

export function fieldsOf(pipeline: Pipeline): PipelineFields {
  const metadata = pipeline.metadata as Loose;
  const spec = pipeline.spec as Loose;
  const template = pipeline.spec.specTemplate;
  const labels = (metadata['labels'] ?? {}) as Loose;
  return {
    name: pipeline.metadata.name,
    description: text(metadata['description']),
    tags: Array.isArray(labels['tags']) ? (labels['tags'] as string[]) : [],
    source: template ? (template.location === 'url' ? 'url' : 'git') : 'inline',
    text: textOf(pipeline),
    repo: template?.repo ?? '',
    path: template?.path ?? 'codefresh.yml',
    revision: template?.revision ?? '',
    url: template?.url ?? '',
    priority: number(spec['priority']),
    concurrency: number(spec['concurrency']),
    branchConcurrency: number(spec['branchConcurrency']),
    triggerConcurrency: number(spec['triggerConcurrency']),
    endOlder: list(spec['terminationPolicy']).some((policy) => policy['type'] === 'branch'),
    variables: (pipeline.spec.variables ?? []).map(({ key, value, encrypted }, id) => ({
      id,
      key,
      value: value ?? '',
      encrypted: encrypted ?? false,
    })),
    triggers: (pipeline.spec.triggers ?? []).map((trigger, id) => {
      const loose = trigger as unknown as Loose;
      return {
        id,
        name: trigger.name,
        repo: trigger.repo ?? '',
        context: text(loose['context']),
        events: trigger.events ?? [],
        branchRegex: trigger.branchRegex ?? '',
        modifiedFilesGlob: text(loose['modifiedFilesGlob']),
        disabled: trigger.disabled ?? false,
      };
    }),
    crons: list(spec['cronTriggers']).map((cron, id) => ({
      id,
      name: text(cron['name']),
      expression: text(cron['expression']),
      timeZone: text(cron['timeZone']),
      message: text(cron['message']),
    })),
  };
}

/** Where the form shows what the API calls `spec.triggers[0].repo`; nothing when it has no such field. */
export function fieldOf(path: string): string | undefined {
  const parts = path.replaceAll(/\[(\d+)\]/g, '.$1').split('.');
  const [root, ...rest] = parts;
  if (root === 'metadata') return rest[0] === 'name' || rest[0] === 'description' ? rest[0] : undefined;
  if (root !== 'spec') return undefined;
  if (rest[0] === 'cronTriggers') return ['crons', ...rest.slice(1)].join('.');
  if (rest[0] === 'specTemplate') return rest[1];
  return rest.join('.');
}

/** Absent, not empty: an empty limit is no limit, and 0 freezes. */
function put(target: Loose, key: string, value: unknown): void {
  if (value === undefined || value === '') delete target[key];
  else target[key] = value;
}

const whole = (value: string): number | undefined => (value.trim() === '' ? undefined : Number(value));

export function toPipeline(fields: PipelineFields, before: Pipeline): Pipeline {
  const metadata: Loose = { ...(before.metadata as Loose), name: fields.name.trim() };
  const spec: Loose = { ...(before.spec as Loose) };
  put(metadata, 'description', fields.description);
  metadata['labels'] = { ...((metadata['labels'] ?? {}) as Loose), tags: fields.tags };
  for (const key of ['specTemplate', 'steps']) delete spec[key];
  delete metadata['originalYamlString'];
  if (fields.source === 'inline') {
    for (const key of ROOT_KEYS) delete spec[key];
    // The server makes steps of it, in the order of the text.
    metadata['originalYamlString'] = fields.text;
  } else if (fields.source === 'git') {
    const revision = fields.revision.trim();
    spec['specTemplate'] = {
      location: 'git',
      repo: fields.repo.trim(),
      path: fields.path.trim(),
      ...(revision ? { revision } : {}),
    };
  } else {
    spec['specTemplate'] = { location: 'url', url: fields.url.trim() };
  }
  put(spec, 'priority', whole(fields.priority));
  put(spec, 'concurrency', whole(fields.concurrency));
  put(spec, 'branchConcurrency', whole(fields.branchConcurrency));
  put(spec, 'triggerConcurrency', whole(fields.triggerConcurrency));
  const others = list(spec['terminationPolicy']).filter((policy) => policy['type'] !== 'branch');
  const kept = list(spec['terminationPolicy']).filter((policy) => policy['type'] === 'branch');
  const ends = kept.length > 0 ? kept : [{ type: 'branch', event: 'onCreate' }];
  const policies = fields.endOlder ? [...others, ...ends] : others;
  put(spec, 'terminationPolicy', policies.length > 0 ? policies : undefined);
  spec['variables'] = fields.variables
    .filter((variable) => variable.key.trim())
    .map(({ key, value, encrypted }) => ({ key: key.trim(), value, encrypted }));
  const old = list(spec['triggers']);
  spec['triggers'] = fields.triggers.map((trigger) => {
    const known = old.find((one) => one['name'] === trigger.name) ?? {};
    const next: Loose = {
      ...known,
      type: 'git',
      name: trigger.name.trim(),
      repo: trigger.repo.trim(),
      events: trigger.events,
      disabled: trigger.disabled,
    };
    put(next, 'context', trigger.context.trim());
    put(next, 'branchRegex', trigger.branchRegex.trim());
    put(next, 'modifiedFilesGlob', trigger.modifiedFilesGlob.trim());
    return next;
  });
  const oldCrons = list(spec['cronTriggers']);
  const crons = fields.crons.map((cron) => {
    const known = oldCrons.find((one) => one['name'] === cron.name) ?? {};
    const next: Loose = {
      ...known,
      type: 'cron',
      name: cron.name.trim(),
      expression: cron.expression.trim(),
      message: cron.message.trim() || cron.name.trim(),
    };
    put(next, 'timeZone', cron.timeZone.trim());
    return next;
  });
  put(spec, 'cronTriggers', crons.length > 0 ? crons : undefined);
  return { ...before, metadata, spec } as unknown as Pipeline;
}
