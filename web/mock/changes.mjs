// The change stream: just enough of WebSocket (text frames, no fragments) and of the graphql-transport-ws protocol.
import { createHash } from 'node:crypto';

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';

export class Changes {
  #clients = new Map();

  accept(request, socket) {
    handshake(request, socket, 'graphql-transport-ws');
    this.#clients.set(socket, undefined);
    let buffer = Buffer.alloc(0);
    socket.on('data', (data) => {
      buffer = Buffer.concat([buffer, data]);
      for (let frame = readFrame(buffer); frame; frame = readFrame(buffer)) {
        buffer = buffer.subarray(frame.length);
        if (frame.opcode === 8) socket.end();
        else if (frame.opcode === 1) this.#receive(socket, JSON.parse(frame.text));
      }
    });
    socket.on('error', () => this.#clients.delete(socket));
    socket.on('close', () => this.#clients.delete(socket));
  }

  push(change) {
    for (const [socket, id] of this.#clients) {
      if (id) write(socket, { type: 'next', id, payload: { data: { changes: change } } });
    }
  }

  /** How many pages listen. */
  get listeners() {
    return [...this.#clients.values()].filter(Boolean).length;
  }

  dropAll() {
    for (const socket of this.#clients.keys()) socket.destroy();
  }

  #receive(socket, message) {
    if (message.type === 'connection_init') write(socket, { type: 'connection_ack' });
    else if (message.type === 'ping') write(socket, { type: 'pong' });
    else if (message.type === 'subscribe') this.#clients.set(socket, message.id);
    else if (message.type === 'complete') this.#clients.set(socket, undefined);
  }
}

export function handshake(request, socket, protocol) {
  const key = createHash('sha1')
    .update(request.headers['sec-websocket-key'] + GUID)
    .digest('base64');
  socket.write(
    'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
      `Sec-WebSocket-Accept: ${key}\r\nSec-WebSocket-Protocol: ${protocol}\r\n\r\n`,
  );
}

const write = (socket, message) => writeFrame(socket, 1, Buffer.from(JSON.stringify(message)));

export function writeFrame(socket, opcode, bytes) {
  const header =
    bytes.length < 126
      ? Buffer.from([0x80 | opcode, bytes.length])
      : Buffer.from([0x80 | opcode, 126, bytes.length >> 8, bytes.length & 255]);
  socket.write(Buffer.concat([header, bytes]));
}

/** A client's frame is always masked; those of browsers here are short. */
export function readFrame(buffer) {
  if (buffer.length < 6) return undefined;
  const extended = (buffer[1] & 127) === 126;
  const size = extended ? buffer.readUInt16BE(2) : buffer[1] & 127;
  const start = (extended ? 4 : 2) + 4;
  if (buffer.length < start + size) return undefined;
  const mask = buffer.subarray(start - 4, start);
  const bytes = Buffer.from(
    buffer.subarray(start, start + size).map((byte, index) => byte ^ mask[index % 4]),
  );
  return { opcode: buffer[0] & 15, length: start + size, bytes, text: bytes.toString() };
}
