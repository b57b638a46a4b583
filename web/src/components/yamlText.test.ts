import { describe, expect, it } from 'vitest';
import { yamlText } from './yamlText';

describe('yamlText', () => {
  it('writes a pipeline as people do', () => {
    const steps = {
      test: {
        image: 'golang:1.22',
        commands: ['go test ./...', 'echo "done"'],
        fail_fast: false,
        retry: { maxAttempts: 3 },
      },
      both: { type: 'parallel', steps: {}, when: { steps: [{ name: 'test', on: ['success'] }] } },
    };
    expect(yamlText({ version: '1.0', steps })).toBe(`version: "1.0"
steps:
  test:
    image: "golang:1.22"
    commands:
      - go test ./...
      - "echo \\"done\\""
    fail_fast: false
    retry:
      maxAttempts: 3
  both:
    type: parallel
    steps: {}
    when:
      steps:
        - name: test
          on:
            - success
`);
  });

  it('quotes what could be read as something else', () => {
    expect(yamlText(['yes', 'on', '1', '', ' x', 'a: b', '- a', '# no', '*x', null])).toBe(
      `- "yes"\n- "on"\n- "1"\n- ""\n- " x"\n- "a: b"\n- "- a"\n- "# no"\n- "*x"\n- null\n`,
    );
    expect(yamlText({ on: 1, 'a b': 2, true: 3 })).toBe(`on: 1\n"a b": 2\n"true": 3\n`);
  });

  it('keeps text of several lines in a block where nothing is lost by that', () => {
    expect(yamlText({ a: 'one\ntwo\n', b: 'one\ntwo', c: 'one\n  two' })).toBe(
      `a: |\n  one\n  two\nb: |-\n  one\n  two\nc: "one\\n  two"\n`,
    );
  });
});
