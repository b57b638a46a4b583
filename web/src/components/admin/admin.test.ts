import { describe, expect, test } from 'vitest';
import type { Context } from '../../api/types';
import { readSettings, toNumber, writeSettings } from './accountSettings';
import { dayEnd, dayStart } from './auditDays';
import { pretty, readDetail } from './auditDetail';
import {
  build,
  fromPairs,
  isConfiguration,
  MASK,
  parseData,
  readPath,
  toPairs,
  typeOf,
  writePath,
} from './contextData';
import { conditionText, ruleFields, splitEntity, whoText } from './rules';

describe('days of the audit filter', () => {
  test('a day is all of it, and nothing more', () => {
    const [from, to] = [dayStart('2026-11-16') ?? 0, dayEnd('2026-11-16') ?? 0];
    expect(new Date(from).toString()).toContain('00:00:00');
    expect(new Date(to).toString()).toContain('23:59:59');
    expect(to + 1).toBe(dayStart('2026-11-17'));
  });

  test.each([undefined, '', 'yesterday', '2026-11-31', '2026-1-1', '2026-13-01'])('%s is no day', (day) => {
    expect(dayStart(day)).toBeUndefined();
    expect(dayEnd(day)).toBeUndefined();
  });
});

describe('details of an audit record', () => {
  test('the order of names does not make a difference', () => {
    expect(pretty({ b: 1, a: [{ d: 1, c: 2 }] })).toBe(pretty({ a: [{ c: 2, d: 1 }], b: 1 }));
  });

  test('only what is there', () => {
    expect(readDetail({ after: 'research' })).toEqual({ after: 'research' });
    expect(readDetail({ before: null, reason: 'no rule' })).toEqual({ reason: 'no rule' });
    for (const nothing of [null, undefined, 'text', {}]) expect(readDetail(nothing)).toEqual({});
    // A false is something, and so is an empty list.
    expect(readDetail({ before: false, after: [] })).toEqual({ before: 'false', after: '[]' });
  });
});

describe('data of a context', () => {
  test('a masked value that nobody touched goes back masked', () => {
    const pairs = toPairs({ USER: 'robot', PASSWORD: MASK });
    expect(pairs.map(({ key, value, masked }) => [key, value, masked])).toEqual([
      ['USER', 'robot', false],
      ['PASSWORD', '', true],
    ]);
    expect(fromPairs(pairs)).toEqual({ USER: 'robot', PASSWORD: MASK });
    const touched = pairs.map((pair) => (pair.masked ? { ...pair, value: 'new' } : pair));
    expect(fromPairs(touched)).toEqual({ USER: 'robot', PASSWORD: 'new' });
  });

  test('a value that is empty on purpose stays empty', () => {
    expect(fromPairs(toPairs({ EMPTY: '' }))).toEqual({ EMPTY: '' });
  });

  test('a field is written without touching its neighbours', () => {
    const data = { auth: { type: 'basic', password: MASK }, other: 1 };
    const changed = writePath(data, 'auth.apiHost', 'git.example.com');
    expect(changed).toEqual({
      auth: { type: 'basic', password: MASK, apiHost: 'git.example.com' },
      other: 1,
    });
    expect(readPath(changed, 'auth.apiHost')).toBe('git.example.com');
    expect(writePath(changed, 'auth.apiHost', '')).toEqual(data);
    expect(readPath(data, 'auth.type.deeper')).toBe('');
    expect(writePath({}, 'a.b', 'x')).toEqual({ a: { b: 'x' } });
  });

  test('only an object is data', () => {
    expect(parseData('{"a": 1}')).toEqual({ data: { a: 1 } });
    for (const text of ['[1]', '"a"', 'null', '{a: 1}', ''])
      expect(parseData(text), text).toHaveProperty('problem');
  });

  test('what a form does not know is sent back as it came', () => {
    const before: Context = {
      metadata: { name: 'github', revision: 3, labels: { tags: ['old'] } },
      spec: { type: 'git.github', data: {}, sharingPolicy: 'AccountAdmins' },
      owner: 'admin',
    };
    const change = { name: 'github', type: 'git.github', data: { a: 1 }, tags: [], forbidDecrypt: true };
    expect(build(before, change)).toEqual({
      metadata: { name: 'github', revision: 3, labels: { tags: [] }, forbidDecrypt: true },
      spec: { type: 'git.github', data: { a: 1 }, sharingPolicy: 'AccountAdmins' },
      owner: 'admin',
    });
  });

  test('a type of a newer server is an integration, edited as JSON', () => {
    const context: Context = { metadata: { name: 'x' }, spec: { type: 'chat.slack', data: {} } };
    expect(isConfiguration(context)).toBe(false);
    expect(typeOf('chat.slack')).toEqual({ type: 'chat.slack', label: 'chat.slack', form: 'json' });
  });
});

describe('access rules in words', () => {
  test.each([
    [{ tags: ['*', 'a'] }, 'whatever its tags'],
    [{ tags: ['untagged'] }, 'without tags'],
    [{ tags: ['prod'], relatedResource: 'project' }, 'with the tag prod of the project'],
    [{ tags: ['a', 'b'], tagMatch: 'all' }, 'with all of the tags a, b'],
    [{ tags: ['a', 'b'] }, 'with any of the tags a, b'],
    [
      {
        entityAttributes: [
          { name: 'RUNTIME', value: 'r' },
          { name: 'LABEL', key: 'k', value: 'v*' },
        ],
      },
      'where RUNTIME r, LABEL k=v*',
    ],
    [{}, 'all'],
  ])('%j', (rule, text) => {
    expect(conditionText(rule)).toBe(text);
  });

  test('the name of an entity may hold slashes', () => {
    expect(splitEntity('pipeline/demo/build')).toEqual({ kind: 'pipeline', name: 'demo/build' });
    expect(splitEntity('pipeline')).toEqual({ kind: 'pipeline', name: '' });
  });
});

describe('settings of an account', () => {
  test('what the form does not know stays', () => {
    const before = { inactivityMinutes: 720, sessionHours: 168, passwordLogin: true, future: 'kept' };
    const form = readSettings(before);
    expect(form).toEqual({
      inactivityMinutes: '720',
      sessionHours: '168',
      keepBuildsDays: '',
      keepLogsDays: '',
      allowedDomains: [],
      passwordLogin: true,
    });
    expect(writeSettings(before, { ...form, inactivityMinutes: '30', sessionHours: ' ' })).toEqual({
      inactivityMinutes: 30,
      allowedDomains: [],
      passwordLogin: true,
      future: 'kept',
    });
    expect(writeSettings({}, { ...form, keepBuildsDays: '90' })['keepBuildsDays']).toBe(90);
    const forEver = writeSettings({ keepBuildsDays: 90 }, { ...form, keepBuildsDays: '' });
    expect('keepBuildsDays' in forEver).toBe(false);
  });

  test('what is no number goes to the server, which says so', () => {
    expect([toNumber(' 5 '), toNumber('five'), toNumber('')]).toEqual([5, 'five', undefined]);
  });
});

describe('fields of a rule', () => {
  const repository = {
    entityType: 'gitRepository',
    actions: ['read', 'push'],
    attributes: ['REPOSITORY', 'BRANCH', 'TAG', 'PIPELINE'],
    byTags: false,
  };
  test('are tags or attributes, as the kind goes', () => {
    expect(ruleFields(repository, [])).toEqual({
      tags: false,
      attributes: repository.attributes,
      teams: true,
    });
    const pipeline = { entityType: 'pipeline', actions: ['run'], attributes: [], byTags: true };
    expect(ruleFields(pipeline, [])).toEqual({ tags: true, attributes: [], teams: true });
  });
  test('name no team where builds of a pipeline are meant', () => {
    expect(ruleFields(repository, [{ name: 'PIPELINE' }]).teams).toBe(false);
    const attributes = [{ name: 'PIPELINE', value: 'demo/app' }];
    expect(whoText({ teamNames: [], entityAttributes: attributes })).toBe('builds of demo/app');
    expect(whoText({ teamNames: ['devs', 'ops'] })).toBe('devs, ops');
  });
});
