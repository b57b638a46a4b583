import { describe, expect, test } from 'vitest';
import { changed, fieldAt, isRead, missing, read, start, type Field } from './draft';

const fields = (text: string) => {
  const draft = read(text);
  if (!isRead(draft)) throw new Error(JSON.stringify(draft));
  return draft;
};
const after = (text: string, ...changes: [Field, string | boolean][]) =>
  changes.reduce((now, [field, value]) => changed(now, field, value), text);

describe('an Application that is being written', () => {
  test('is in the form what it is in the text, and back', () => {
    const text = after(
      start('argocd'),
      ['name', 'shop'],
      ['repoURL', 'https://git.example.com/ada/deploy.git'],
      ['path', 'shop'],
      ['targetRevision', '1.10'],
      ['namespace', 'shop'],
      ['cluster', 'name:paris'],
      ['prune', true],
    );
    const { application, fields: shown } = fields(text);
    expect(shown).toMatchObject({ name: 'shop', cluster: 'name:paris', prune: true, targetRevision: '1.10' });
    // A version is a text, whatever it looks like.
    expect(application).toMatchObject({
      metadata: { name: 'shop', namespace: 'argocd' },
      spec: {
        source: { targetRevision: '1.10', path: 'shop' },
        destination: { name: 'paris', namespace: 'shop' },
        syncPolicy: { automated: { prune: true }, syncOptions: ['CreateNamespace=true'] },
      },
    });
    expect(text).not.toContain('server:');
    expect(missing(shown)).toEqual({});
  });

  test('keeps what the form does not show, comments too', () => {
    const text = `# ours
spec:
  project: shop # theirs
  ignoreDifferences: [{kind: Secret}]
  source: {repoURL: a, path: ., helm: {values: "x: 1"}}
`;
    const edited = changed(text, 'repoURL', 'b');
    expect(edited).toContain('# ours');
    expect(edited).toContain('project: shop # theirs');
    expect(fields(edited).application).toMatchObject({
      spec: { ignoreDifferences: [{ kind: 'Secret' }], source: { repoURL: 'b', helm: { values: 'x: 1' } } },
    });
    expect(fields(edited).hasComments).toBe(true);
    expect(fields(start('argocd')).hasComments).toBe(false);
  });

  test('a chart has no path, and a folder no chart', () => {
    const chart = after(start('argocd'), ['path', 'x'], ['kind', 'chart'], ['chart', 'redis']);
    expect(fields(chart).fields).toMatchObject({ kind: 'chart', chart: 'redis', path: '' });
    expect(chart).not.toContain('path:');
    expect(missing(fields(chart).fields)).toHaveProperty('targetRevision');
    expect(fields(changed(chart, 'kind', 'folder')).fields).toMatchObject({ kind: 'folder', chart: '' });
  });

  test('what is switched off is not written, and other options stay', () => {
    const text = changed(start('argocd'), 'createNamespace', false);
    expect(fields(changed(text, 'automated', false)).application).not.toHaveProperty('spec.syncPolicy');
    const other = start('argocd').replace('- CreateNamespace=true', '- ServerSideApply=true');
    const both = changed(other, 'createNamespace', true);
    expect(fields(both).application).toMatchObject({
      spec: { syncPolicy: { syncOptions: ['ServerSideApply=true', 'CreateNamespace=true'] } },
    });
    const healing = after(start('argocd'), ['selfHeal', true], ['selfHeal', false]);
    expect(fields(healing).fields).toMatchObject({ automated: true, selfHeal: false });
    const nothing = 'spec:\n  syncPolicy:\n    automated:\n';
    expect(fields(nothing).fields.automated).toBe(false);
    expect(fields(changed(nothing, 'prune', true)).fields).toMatchObject({ automated: true, prune: true });
    expect(fields(changed(start('argocd'), 'project', '')).application).not.toHaveProperty('spec.project');
  });

  test('what cannot be read is told with its place', () => {
    const notes = read('a: 1\nb: [1\n');
    expect(isRead(notes)).toBe(false);
    expect(notes).toMatchObject([{ severity: 'error' }]);
    expect(isRead(read('- a'))).toBe(false);
    expect(isRead(read(''))).toBe(false);
  });

  test('an alias that names nothing, or itself, is told with its place', () => {
    expect(read('a: 1\nspec: *.1\n')).toMatchObject([{ line: 2, column: 7, severity: 'error' }]);
    expect(read('a: &x\n  b: *x\n')).toMatchObject([{ line: 2, column: 6, severity: 'error' }]);
    expect(fields('a: 1\nb: "*.1"\n').application).toEqual({ a: 1, b: '*.1' });
  });

  test('what is sent of it is JSON', () => {
    const { application } = fields('%YAML 1.1\n---\nmetadata: {annotations: {since: 2001-01-01}}\n');
    expect(application).toEqual({ metadata: { annotations: { since: '2001-01-01T00:00:00.000Z' } } });
  });

  test('what the form would lose it does not show', () => {
    expect(fields('spec: {sources: [{repoURL: a}]}').beyond).toContain('several sources');
    expect(fields('spec: {source: text}').beyond).toContain('spec.source');
    expect(fields('a: &x {name: b}\nspec: {destination: *x}').beyond).toContain('several places');
    expect(fields('spec: {syncPolicy: null}').beyond).toBeUndefined();
    expect(fields(start('argocd')).beyond).toBeUndefined();
  });

  test('names are names', () => {
    const name = (value: string) => missing(fields(changed(start('argocd'), 'name', value)).fields).name;
    expect(name('')).toBe('Enter a name');
    expect(name('Shop')).toMatch(/^Lowercase/);
    expect(name('shop-2')).toBeUndefined();
    expect(fieldAt('spec.destination')).toBe('cluster');
    expect(fieldAt('spec.oops')).toBeUndefined();
  });
});
