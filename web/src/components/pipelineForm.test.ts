import { describe, expect, it } from 'vitest';
import type { Pipeline } from '../api/types';
import { fieldOf, fieldsOf, toPipeline } from './pipelineForm';

const pipeline = {
  version: '1.0',
  kind: 'pipeline',
  metadata: { name: 'a/b', revision: 3, labels: { tags: ['x'], other: 1 } },
  spec: {
    steps: { z: { image: 'i' }, a: { image: 'j' } },
    stages: ['s'],
    concurrency: 0,
    packId: 'large',
    triggers: [{ name: 't', repo: 'o/r', events: ['push'], commitStatusTitle: 'kept' }],
    terminationPolicy: [{ type: 'annotation', event: 'onTerminate' }],
  },
} as unknown as Pipeline;

describe('the form of a pipeline', () => {
  it('keeps what it does not show', () => {
    const back = toPipeline(fieldsOf(pipeline), pipeline) as unknown as {
      metadata: Record<string, unknown>;
      spec: Record<string, unknown>;
    };
    expect(back.spec['packId']).toBe('large');
    expect(back.spec['concurrency']).toBe(0);
    expect(back.spec['terminationPolicy']).toEqual([{ type: 'annotation', event: 'onTerminate' }]);
    expect((back.spec['triggers'] as Record<string, unknown>[])[0]?.['commitStatusTitle']).toBe('kept');
    expect(back.metadata['labels']).toEqual({ tags: ['x'], other: 1 });
    expect(back.metadata['revision']).toBe(3);
  });

  it('sends text for the server to make steps of, in their order', () => {
    const back = toPipeline(fieldsOf(pipeline), pipeline) as unknown as {
      metadata: Record<string, string>;
      spec: Record<string, unknown>;
    };
    expect(back.spec['steps']).toBeUndefined();
    const text = back.metadata['originalYamlString'] ?? '';
    expect(text.match(/^ {2}\w+:/gm)).toEqual(['  z:', '  a:']);
  });

  it('leaves a limit that is empty away', () => {
    const back = toPipeline({ ...fieldsOf(pipeline), concurrency: '' }, pipeline);
    expect('concurrency' in (back.spec as object)).toBe(false);
  });
});

it('a refusal of the server is shown at its field', () => {
  expect(fieldOf('spec.triggers[0].repo')).toBe('triggers.0.repo');
  expect(fieldOf('spec.cronTriggers[1].expression')).toBe('crons.1.expression');
  expect(fieldOf('metadata.name')).toBe('name');
  expect(fieldOf('spec.specTemplate.path')).toBe('path');
  expect(fieldOf('elsewhere')).toBeUndefined();
});
