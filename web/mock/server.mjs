// A stand-in for the server, for looking at the pages and for browser tests. It answers the HTTP contract from
// memory, streams logs, pushes changes, and plays "a commit travels the path" when a pipeline is run.
// Sign in as admin@slipway.local with the password slipway.
//
// A cookie `mock` changes what it answers, so that every state of a page can be seen:
//   empty: nothing is there; forbidden: 403 on what is read; error: 500; slow: answers after two seconds;
//   member: signed in without a role that administers; stale: changes of people and rights ask for the password first.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Changes } from './changes.mjs';
import { streamLog } from './logs.mjs';
import { createState } from './state.mjs';
import { STATE } from './gitAccess.mjs';
import { podShell } from './podShell.mjs';

const DIST = fileURLToPath(new URL('../dist', import.meta.url));
const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};

const SIGNED_IN = { 'Set-Cookie': 'slipway_session=mock; HttpOnly; SameSite=Lax; Path=/' };

class Refusal extends Error {
  constructor(status, name, message, code = String(status)) {
    super(message);
    this.status = status;
    this.name = name;
    this.code = code;
  }
}

export function startMock({ port = 4010, speed = 1 } = {}) {
  const changes = new Changes();
  const state = createState((kind, id) => changes.push({ kind, id }), speed);
  const server = createServer((request, response) => {
    handle(state, request, response).catch((error) => {
      const status = error.status ?? 500;
      if (!error.status) console.error(error);
      send(response, status, {
        status,
        code: error.code ?? String(status),
        name: error.name,
        message: error.status ? error.message : 'the mock broke; see its output',
        requestId: 'mock-0001',
        ...(error.details ? { details: error.details } : {}),
      });
    });
  });
  server.on('upgrade', (request, socket) => {
    if (request.url === '/2.0/api/graphql' && signedIn(request)) changes.accept(request, socket);
    else if (!podShell(request, socket)) socket.destroy();
  });
  return new Promise((ready) => {
    server.listen(port, '127.0.0.1', () => {
      ready({
        url: `http://127.0.0.1:${server.address().port}`,
        state,
        listeners: () => changes.listeners,
        announce: (kind, id) => changes.push({ kind, id }),
        dropConnections: () => changes.dropAll(),
        close: () => {
          state.stop();
          changes.dropAll();
          server.closeAllConnections();
          server.close();
        },
      });
    });
  });
}

const cookies = (request) =>
  Object.fromEntries((request.headers.cookie ?? '').split(/; */).map((pair) => pair.split('=')));
const signedIn = (request) => cookies(request).slipway_session === 'mock';

function send(response, status, body, headers = {}) {
  response.writeHead(status, { 'Content-Type': 'application/json', ...headers });
  response.end(body === undefined ? undefined : JSON.stringify(body));
}

async function bodyOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return parts.length > 0 ? JSON.parse(Buffer.concat(parts).toString() || '{}') : {};
}

async function handle(state, request, response) {
  const url = new URL(request.url, 'http://mock');
  if (url.pathname === '/readyz' || url.pathname === '/metrics') {
    response.writeHead(200, { 'Content-Type': 'text/plain' });
    return response.end(url.pathname === '/readyz' ? 'ready' : 'slipway_accounts 2\n');
  }
  if (url.pathname.startsWith('/tunnels/')) return throughTunnel(state, request, response, url);
  // A provider that says yes, and a runtime that sends the browser on.
  if (url.pathname === '/mock/gitea') {
    const page = `/runtimes/local/git#provider=gitea&code=c0de&state=${STATE}`;
    response.writeHead(303, { Location: page });
    return response.end();
  }
  if (!url.pathname.startsWith('/api/')) return sendPage(url.pathname, request, response);
  const path = url.pathname.split('/').slice(2).map(decodeURIComponent);
  const route = `${request.method} /${path.slice(0, 2).join('/')}`;
  if (route === 'POST /auth/login') return login(state, request, response);
  if (path[0] === 'auth' && (path[1] === 'options' || path[1] === 'invitation')) {
    const answer = state.answer(request.method, path, url.searchParams, await bodyOf(request), false);
    if (answer.refuse) throw new Refusal(answer.refuse, 'REFUSED', answer.message);
    return send(response, 200, answer, path[2] === 'accept' ? SIGNED_IN : {});
  }
  // The identity provider, in short: it sends the browser back at once.
  if (path[0] === 'auth' && path[2] === 'login') {
    response.writeHead(302, { ...SIGNED_IN, Location: url.searchParams.get('return_to') ?? '/' });
    return response.end();
  }
  if (!signedIn(request)) throw new Refusal(401, 'UNAUTHORIZED', 'sign in first');
  if (request.method !== 'GET' && request.headers['x-csrf-token'] !== 'mock-csrf') {
    throw new Refusal(403, 'CSRF', 'the page is out of date; reload it');
  }
  const mode = cookies(request).mock ?? '';
  if (path[0] !== 'user' && path[0] !== 'auth') await misbehave(mode);
  if (mode === 'member') refuseMembers(url.pathname);
  if (path[0] === 'builds' && path[2] === 'logs') {
    return streamLog(state.build(path[1]), request, response, state);
  }
  if (path[0] === 'audit' && path[1] === 'download') {
    response.writeHead(200, { 'Content-Type': 'text/csv; charset=utf-8' });
    return response.end(state.auditCsv(url.searchParams));
  }
  const body = request.method === 'GET' ? {} : await bodyOf(request);
  if (mode === 'stale' && request.method !== 'GET' && path[0] !== 'auth') {
    throw new Refusal(403, 'CONFIRM_PASSWORD', 'confirm that it is you: sign in again', '2005');
  }
  const answer = state.answer(request.method, path, url.searchParams, body, mode === 'empty');
  if (answer === undefined)
    throw new Refusal(404, 'NOT_FOUND', `there is no ${url.pathname} here; check the id`);
  if (answer.refuse) throw new Refusal(answer.refuse, 'REFUSED', answer.message, answer.code);
  if (mode === 'member' && path[0] === 'access') {
    const reason = 'no rule of the account allows EXEC_TO_POD on this application';
    return send(response, 200, { ...answer, allowed: false, reason });
  }
  send(response, 200, mode === 'member' && path[0] === 'user' ? asMember(answer) : answer, cookieOf(path));
}

/** A runtime: it gets a pass and nothing else of whoever asks. */
async function throughTunnel(state, request, response, url) {
  if (
    request.headers.cookie ||
    request.headers['x-csrf-token'] ||
    request.headers.authorization !== 'Bearer pass.mock'
  )
    throw new Refusal(401, 'UNAUTHORIZED', 'a runtime gets a pass and nothing else');
  const path = url.pathname.split('/').slice(5).map(decodeURIComponent);
  const body = request.method === 'GET' ? {} : await bodyOf(request);
  const answer =
    path[0] === 'runtime' && path[1] === 'runtime-logs'
      ? ownLog(body)
      : path[0] === 'git'
        ? state.gitAccess(request.method, path[1], body, url.searchParams)
        : state.appProxy(request.method, path.slice(1), body, url.searchParams);
  if (answer === undefined) throw new Refusal(404, 'NOT_FOUND', `there is no ${url.pathname} here`);
  if (answer.refuse)
    throw Object.assign(new Refusal(answer.refuse, 'REFUSED', answer.message, answer.code), {
      details: answer.details,
    });
  send(response, 200, answer);
}

const line = (component, message) => ({ at: '2026-01-01T00:00:00Z', level: 'INFO', component, message });

/** What a runtime's process says of its work. */
function ownLog({ component = '' }) {
  const lines = [line('tunnel', 'The tunnel to the platform is open.'), line('applications', 'Synced.')];
  return {
    process: 'mock-1',
    components: ['applications', 'tunnel'],
    dropped: 3,
    lines: lines.filter((one) => !component || one.component === component),
  };
}

/** Signing out takes the session; a confirmation makes it fresh again. */
function cookieOf([noun, verb]) {
  if (noun !== 'auth') return {};
  if (verb === 'logout') return { 'Set-Cookie': 'slipway_session=; Max-Age=0; Path=/' };
  return verb === 'confirm' ? { 'Set-Cookie': 'mock=; Max-Age=0; Path=/' } : {};
}

const asMember = (user) => ({ ...user, roles: ['User'], platformAdmin: false, teams: ['users'] });

/** What only administrators are let into. */
const ADMINISTERED = /^\/api\/(users|invitations|service-users|abac|audit|idp|admin)\b/;

function refuseMembers(pathname) {
  if (!ADMINISTERED.test(pathname)) return;
  throw new Refusal(403, 'FORBIDDEN', 'admin needs the Administrator role to do this', '2004');
}

async function misbehave(mode) {
  if (mode === 'forbidden')
    throw new Refusal(403, 'FORBIDDEN', 'you may not see this; ask an administrator for the role `viewer`');
  if (mode === 'error') throw new Refusal(500, 'INTERNAL', 'the database is locked; try again in a moment');
  if (mode === 'slow') await new Promise((done) => setTimeout(done, 2000));
}

async function login(state, request, response) {
  const { email, password } = await bodyOf(request);
  if (email !== 'admin@slipway.local' || password !== 'slipway') {
    throw new Refusal(
      401,
      'UNAUTHORIZED',
      'e-mail or password is wrong; `slipway up` printed the first ones',
      '2002',
    );
  }
  send(response, 200, state.user, SIGNED_IN);
}

/** The built pages; an address that is no file is the app's own and gets its one page. */
async function sendPage(pathname, request, response) {
  const wanted = normalize(join(DIST, pathname));
  const brotli = /\bbr\b/.test(request.headers['accept-encoding'] ?? '');
  const read = async (file) => {
    const squeezed = brotli && (await readFile(`${file}.br`).catch(() => undefined));
    if (squeezed) return { file, bytes: squeezed, headers: { 'Content-Encoding': 'br' } };
    return { file, bytes: await readFile(file), headers: {} };
  };
  // Names of applications may hold dots, so only a file that is there is a file; assets have no page to fall back to.
  const isFile = pathname !== '/' && wanted.startsWith(DIST);
  const found =
    (isFile && (await read(wanted).catch(() => undefined))) ||
    (pathname.startsWith('/assets/')
      ? undefined
      : await read(join(DIST, 'index.html')).catch(() => undefined));
  if (!found) {
    response.writeHead(404, { 'Content-Type': 'text/plain' });
    response.end('not found; has `npm run build` run?');
    return;
  }
  response.writeHead(200, {
    'Content-Type': TYPES[extname(found.file)] ?? 'application/octet-stream',
    'Content-Security-Policy': "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:",
    ...found.headers,
  });
  response.end(found.bytes);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const mock = await startMock({
    port: Number(process.env.PORT ?? 4010),
    speed: Number(process.env.SPEED ?? 1),
  });
  console.log(`${mock.url}  admin@slipway.local / slipway`);
}
