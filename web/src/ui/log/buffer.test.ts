import { beforeEach, describe, expect, test, vi } from 'vitest';
import { LogBuffer, Section } from './buffer';

const ESC = '\u001b';

function lines(section: Section): string[] {
  return Array.from({ length: section.lines - section.dropped }, (_, index) =>
    section.line(section.dropped + index),
  );
}

describe('a section', () => {
  test('puts lines together from pieces cut anywhere', () => {
    const section = new Section('test');
    for (const piece of ['on', 'e\ntw', 'o\n', '\n', 'four']) section.append(piece);
    expect(lines(section)).toEqual(['one', 'two', '', 'four']);
  });

  test('a last newline starts no line', () => {
    const section = new Section('test');
    section.append('one\n');
    expect(section.lines).toBe(1);
    section.append('two');
    expect(section.lines).toBe(2);
  });

  test('gives nothing for lines that are not there', () => {
    const section = new Section('test');
    expect([section.lines, section.line(0), section.line(7)]).toEqual([0, '', '']);
  });

  test('finds every line over many blocks, however the text was cut', () => {
    const text = Array.from({ length: 20_000 }, (_, index) => `line ${index} ${'x'.repeat(index % 50)}`).join(
      '\n',
    );
    const section = new Section('test');
    for (let at = 0; at < text.length; at += 777) section.append(text.slice(at, at + 777));
    expect(lines(section)).toEqual(text.split('\n'));
  });

  test('keeps a line longer than a block whole', () => {
    const long = 'y'.repeat(200_000);
    const section = new Section('test');
    section.append(long.slice(0, 150_000));
    section.append(`${long.slice(150_000)}\nnext`);
    expect(lines(section)).toEqual([long, 'next']);
    expect(section.widest).toBe(200_000);
  });

  test('knows the colours at the start of each line, also when the sequence was cut', () => {
    const section = new Section('test');
    for (const piece of [`plain\n${ESC}[3`, `3myellow\nstill\nend${ESC}[0m\nplain`]) section.append(piece);
    expect([0, 1, 2, 3, 4].map((line) => section.carry(line))).toEqual([
      '',
      '',
      `${ESC}[33m`,
      `${ESC}[33m`,
      '',
    ]);
  });
});

describe('the buffer', () => {
  const frames: (() => void)[] = [];

  beforeEach(() => {
    frames.length = 0;
    vi.stubGlobal('requestAnimationFrame', (frame: () => void) => frames.push(frame));
    return () => vi.unstubAllGlobals();
  });

  test('tells of many pieces once per frame', () => {
    const buffer = new LogBuffer();
    const heard = vi.fn();
    buffer.subscribe(heard);
    for (let index = 0; index < 1000; index++) buffer.append('test', `${index}\n`);
    expect(heard).not.toHaveBeenCalled();
    for (const frame of frames) frame();
    expect(heard).toHaveBeenCalledTimes(1);
    expect(buffer.current()).toBe(1);
  });

  test('gives up its oldest lines beyond the limit and keeps the numbering', () => {
    const buffer = new LogBuffer(300_000);
    for (let index = 0; index < 100_000; index++) buffer.append('test', `line ${index}\n`);
    const section = buffer.sections.get('test');
    expect(buffer.chars()).toBeLessThanOrEqual(300_000);
    expect(section?.lines).toBe(100_000);
    expect(section?.dropped).toBeGreaterThan(0);
    expect(section?.line(99_999)).toBe('line 99999');
    expect(section?.line(section.dropped)).toBe(`line ${section?.dropped}`);
    expect(section?.line(0)).toBe('');
  });
});
