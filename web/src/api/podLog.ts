/**
 * Server-sent events that come as the answer to a POST, which an EventSource cannot make: with a body, and a pass in a
 * header. In: bytes, cut anywhere. Out: events by name, and whether the last one said that this was all.
 */
export async function readEvents(
  stream: ReadableStream<Uint8Array>,
  event: (name: string, data: string) => void,
): Promise<boolean> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return false;
    rest += decoder.decode(value, { stream: true });
    const events = rest.split('\n\n');
    rest = events.pop() ?? '';
    for (const text of events) {
      const lines = text.split('\n');
      const part = (name: string) =>
        lines.filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2));
      const name = part('event')[0] ?? 'message';
      if (name === 'end') return true;
      const data = part('data').join('\n');
      if (data) event(name, data);
    }
  }
}
