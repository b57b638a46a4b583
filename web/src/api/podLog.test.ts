import { expect, test } from 'vitest';
import { readEvents } from './podLog';

async function read(pieces: string[]) {
  const heard: [string, string][] = [];
  const bytes = pieces.map((piece) => new TextEncoder().encode(piece));
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of bytes) controller.enqueue(piece);
      controller.close();
    },
  });
  const whole = await readEvents(stream, (name, data) => heard.push([name, data]));
  return { heard, whole };
}

test('events are read wherever the bytes are cut, and an end is told from a break', async () => {
  const text = 'data: {"a":1}\n\n: still here\n\nevent: failed\ndata: {"b":2}\n\nevent: end\ndata: {}\n\n';
  const expected = [
    ['message', '{"a":1}'],
    ['failed', '{"b":2}'],
  ];
  for (const size of [1, 3, 7, 1000]) {
    const pieces = text.match(new RegExp(`[\\s\\S]{1,${size}}`, 'g')) ?? [];
    expect(await read(pieces)).toEqual({ heard: expected, whole: true });
  }
  expect(await read(['data: {"a":1}\n\n', 'data: {"c"'])).toEqual({
    heard: [['message', '{"a":1}']],
    whole: false,
  });
});
