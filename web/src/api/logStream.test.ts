import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openLogStream, type LogStreamState } from './logStream';

/** Stands in for the browser's own; a test says what comes. */
class Source extends EventTarget {
  static readonly CLOSED = 2;
  static all: Source[] = [];
  readyState = 0;

  constructor(readonly url: string) {
    super();
    Source.all.push(this);
  }

  close() {
    this.readyState = Source.CLOSED;
  }

  piece(seq: number, text: string) {
    const data = JSON.stringify({ seq, step: 'test', offset: 0, text });
    this.dispatchEvent(new MessageEvent('message', { data }));
  }

  say(type: string) {
    this.dispatchEvent(new Event(type));
  }
}

let texts: string[];
let states: LogStreamState[];
const open = () => {
  const close = openLogStream('64af', {
    chunk: (chunk) => texts.push(chunk.text),
    state: (state) => states.push(state),
  });
  const [source] = Source.all;
  if (!source) throw new Error('no stream was opened');
  return { close, source };
};

beforeEach(() => {
  [texts, states, Source.all] = [[], [], []];
  vi.useFakeTimers();
  vi.stubGlobal('EventSource', Source);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test('pieces come in order until the end closes the stream', () => {
  const { source } = open();
  source.say('open');
  source.piece(1, 'a');
  source.piece(2, 'b');
  source.say('end');
  expect([texts, states, source.readyState]).toEqual([
    ['a', 'b'],
    ['connecting', 'live', 'ended'],
    Source.CLOSED,
  ]);
});

test('when the browser gives up, the stream is opened again and nothing comes twice', () => {
  const { source } = open();
  source.piece(1, 'a');
  source.close();
  source.say('error');
  expect(states.at(-1)).toBe('reconnecting');
  vi.advanceTimersByTime(600);
  const again = Source.all[1];
  again?.piece(1, 'a');
  again?.piece(2, 'b');
  expect(texts).toEqual(['a', 'b']);
});

test('a short break is left to the browser', () => {
  const { source } = open();
  source.say('error');
  vi.advanceTimersByTime(60_000);
  expect(Source.all).toHaveLength(1);
});

test('a closed stream stays closed', () => {
  const { source, close } = open();
  source.close();
  source.say('error');
  close();
  vi.advanceTimersByTime(60_000);
  expect(Source.all).toHaveLength(1);
});
