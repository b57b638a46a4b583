// @vitest-environment happy-dom
import { render } from '@testing-library/react';
import { expect, test } from 'vitest';
import { lineHash, LogLine, parseLineHash } from './LogLine';

test('a link to a line reads back as the same line', () => {
  expect(parseLineHash(`#${lineHash('build image: a/b', 119)}`)).toEqual({
    section: 'build image: a/b',
    line: 119,
  });
  expect(lineHash('test', 0)).toBe('test:1');
  for (const other of ['', '#', '#test', '#test:', '#:4', '#test:x', '#%E0%A4%A:3']) {
    expect(parseLineHash(other)).toBeUndefined();
  }
});

test('what was searched for is marked also over a change of colour', () => {
  const { container } = render(
    <LogLine
      section="test"
      number={4}
      text={'all fri\u001b[31mendly\u001b[0m people'}
      carry=""
      wrap={false}
      query="friendly"
      current={false}
      target={false}
      onPick={() => undefined}
    />,
  );
  expect([...container.querySelectorAll('mark')].map((mark) => mark.textContent)).toEqual(['fri', 'endly']);
  expect(container.textContent).toBe('5all friendly people');
});
