/**
 * A command in a container of a pod, over a WebSocket to the runtime. A page can set no header on one, so the pass is one of the
 * protocols that it names: it is in no address, and in no log of addresses. Frames are bytes, the first one says which stream.
 */
import { passFor, type ApplicationRef } from './appProxy';
import type { ExecEnded, ExecRequest } from './types';

const PROTOCOL = 'slipway.exec';
const STDIN = 0;
const STDOUT = 1;
const STDERR = 2;
const STATUS = 3;
const SIZE = 4;

export interface PodShell {
  type: (text: string) => void;
  resize: (columns: number, rows: number) => void;
  close: () => void;
}

interface Heard {
  opened: () => void;
  text: (text: string) => void;
  /** Once: how it ended. */
  ended: (why: string) => void;
}

/** Answers when there is a pass for it; whether the runtime opens it, `heard` tells. */
export async function openPodShell(
  reference: ApplicationRef,
  request: ExecRequest,
  heard: Heard,
): Promise<PodShell> {
  const pass = await passFor(reference, 'exec', { ...request });
  const { namespace, name } = reference;
  const path = `/app-proxy/api/applications/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/exec`;
  const address = new URL(pass.url.replace(/\/+$/, '') + path, globalThis.location.origin);
  address.protocol = address.protocol.replace('http', 'ws');
  address.search = new URLSearchParams({ request: JSON.stringify(request) }).toString();
  const socket = new WebSocket(address, [PROTOCOL, pass.token]);
  socket.binaryType = 'arraybuffer';
  const decoders = new Map([STDOUT, STDERR].map((channel) => [channel, new TextDecoder()]));
  let over = false;
  let opened = false;
  const end = (why: string) => {
    if (!over) heard.ended(why);
    over = true;
  };
  socket.addEventListener('open', () => {
    opened = true;
    heard.opened();
  });
  socket.addEventListener('message', ({ data }: MessageEvent<ArrayBuffer>) => {
    const bytes = new Uint8Array(data);
    const [channel] = bytes;
    const rest = bytes.subarray(1);
    const decoder = channel === undefined ? undefined : decoders.get(channel);
    if (decoder) heard.text(decoder.decode(rest, { stream: true }));
    else if (channel === STATUS) end(words(JSON.parse(new TextDecoder().decode(rest)) as ExecEnded));
  });
  socket.addEventListener('close', () =>
    end(
      opened
        ? 'the connection was closed'
        : 'the runtime did not open it: the pod may be gone, or the container has no such command',
    ),
  );
  const send = (channel: number, bytes: Uint8Array) => {
    if (socket.readyState !== WebSocket.OPEN) return;
    const frame = new Uint8Array(bytes.length + 1);
    frame[0] = channel;
    frame.set(bytes, 1);
    socket.send(frame);
  };
  const text = new TextEncoder();
  return {
    type: (typed) => send(STDIN, text.encode(typed)),
    resize: (columns, rows) => send(SIZE, text.encode(JSON.stringify({ columns, rows }))),
    close: () => {
      over = true;
      socket.close();
    },
  };
}

function words({ code, message }: ExecEnded): string {
  if (code === undefined || code === null) return message || 'it ended';
  return code === 0 ? 'it ended' : `it ended with exit code ${code}`;
}
