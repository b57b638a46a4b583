// A command in a pod of the mock: a shell that knows a few words, in the frames of a runtime's app-proxy.
import { handshake, readFrame, writeFrame } from './changes.mjs';

const STDIN = 0;
const STDOUT = 1;
const STATUS = 3;
const SIZE = 4;

/** Whether it is one; then it is answered. */
export function podShell(request, socket) {
  const url = new URL(request.url, 'http://mock');
  if (!/^\/tunnels\/[^/]+\/app-proxy\/api\/applications\/[^/]+\/[^/]+\/exec$/.test(url.pathname))
    return false;
  // The pass is a protocol, and in no address.
  if (request.headers['sec-websocket-protocol'] !== 'slipway.exec, pass.mock' || /pass\./.test(request.url)) {
    socket.end('HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n');
    return true;
  }
  const asked = JSON.parse(url.searchParams.get('request'));
  if (asked.command[0] !== 'sh') {
    socket.end('HTTP/1.1 422 Unprocessable Entity\r\nContent-Length: 0\r\n\r\n');
    return true;
  }
  handshake(request, socket, 'slipway.exec');
  const say = (channel, text) =>
    writeFrame(socket, 2, Buffer.concat([Buffer.from([channel]), Buffer.from(text)]));
  let size = 'unknown';
  let line = '';
  const run = (command) => {
    if (command === 'exit 3') {
      say(STATUS, JSON.stringify({ code: 3, message: 'exit code 3' }));
      return socket.end();
    }
    if (command === 'stty size') say(STDOUT, `${size}\r\n`);
    else if (command.startsWith('echo ')) say(STDOUT, `${command.slice(5)}\r\n`);
    else say(STDOUT, `sh: ${command}: not found\r\n`);
    say(STDOUT, '/ # ');
  };
  say(STDOUT, '/ # ');
  let buffer = Buffer.alloc(0);
  socket.on('data', (data) => {
    buffer = Buffer.concat([buffer, data]);
    for (let frame = readFrame(buffer); frame; frame = readFrame(buffer)) {
      buffer = buffer.subarray(frame.length);
      if (frame.opcode === 8) return socket.end();
      const [channel] = frame.bytes;
      const text = frame.bytes.subarray(1).toString();
      if (channel === SIZE) {
        const { columns, rows } = JSON.parse(text);
        size = `${rows} ${columns}`;
      }
      if (channel !== STDIN) continue;
      for (const letter of text) {
        if (letter === '\n' || letter === '\r') {
          say(STDOUT, '\r\n');
          run(line);
          line = '';
        } else {
          say(STDOUT, letter);
          line += letter;
        }
      }
    }
  });
  socket.on('error', () => socket.destroy());
  return true;
}
