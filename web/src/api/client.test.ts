// @vitest-environment happy-dom
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { appProxy } from './appProxy';
import { ApiError, http, setCsrfToken, unwrap } from './client';
import { restartBuild, runPipeline } from './mutations';

const fetched = vi.fn<(request: Request) => Promise<Response>>();

beforeEach(() => {
  fetched.mockReset();
  vi.stubGlobal('fetch', fetched);
});
afterEach(() => {
  vi.unstubAllGlobals();
  setCsrfToken(undefined);
});

const json = (body: unknown, status = 200) => Response.json(body, { status });
const asked = () => {
  const request = fetched.mock.calls[0]?.[0];
  if (!request) throw new Error('nothing was fetched');
  return request;
};

describe('the control plane', () => {
  test('a name with a slash is one part of the path', async () => {
    fetched.mockResolvedValue(json('64b0'));
    await expect(runPipeline('demo/app', { branch: 'main', variables: [] })).resolves.toBe('64b0');
    expect(new URL(asked().url).pathname).toBe('/api/pipelines/run/demo%2Fapp');
    expect(await asked().json()).toEqual({ branch: 'main', variables: [] });
  });

  test('the token goes with what changes something, also when that is a GET', async () => {
    setCsrfToken('secret');
    fetched.mockResolvedValue(json('64b0'));
    await restartBuild('64af');
    expect(asked().method).toBe('GET');
    expect(asked().headers.get('X-CSRF-Token')).toBe('secret');
  });

  test('an error is the sentence of the server', async () => {
    const body = {
      status: 409,
      code: 'TAKEN',
      name: 'Conflict',
      message: 'the name is taken; choose another',
      requestId: 'r1',
    };
    fetched.mockResolvedValue(json(body, 409));
    const error = await unwrap(http.GET('/api/repos')).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 409, code: 'TAKEN', message: body.message, requestId: 'r1' });
  });

  test('an error page of a proxy still says the status', async () => {
    fetched.mockResolvedValue(new Response('<html>', { status: 502, statusText: 'Bad Gateway' }));
    await expect(unwrap(http.GET('/api/repos'))).rejects.toMatchObject({
      status: 502,
      message: 'the server answered 502 Bad Gateway',
    });
  });

  test('no answer at all says what to check', async () => {
    fetched.mockRejectedValue(new TypeError('Failed to fetch'));
    await expect(unwrap(http.GET('/api/repos'))).rejects.toMatchObject({ status: 0, code: 'UNREACHABLE' });
  });

  test('an abort stays an abort', async () => {
    fetched.mockRejectedValue(new DOMException('gone', 'AbortError'));
    await expect(unwrap(http.GET('/api/repos'))).rejects.toMatchObject({ name: 'AbortError' });
  });
});

describe('the app-proxy', () => {
  const ref = { runtime: 'local', namespace: 'argocd', name: 'my.app' };
  const answers = (url: string) => (request: Request) =>
    Promise.resolve(
      json(request.url.endsWith('/pass') ? { token: 'pass.x', url, expires: '' } : { message: 'asked for' }),
    );

  test('is where the control plane says, and gets a pass and nothing else', async () => {
    for (const [url, expected] of [
      ['/tunnels/a-local', `${location.origin}/tunnels/a-local`],
      ['https://runtime.example/', 'https://runtime.example'],
    ] as const) {
      fetched.mockReset();
      fetched.mockImplementation(answers(url));
      await appProxy.refresh(ref);
      const [asked, shown] = fetched.mock.calls.map(([request]) => request);
      expect(asked?.url).toBe(`${location.origin}/api/runtimes/local/pass`);
      expect(shown?.url).toBe(`${expected}/app-proxy/api/applications/argocd/my.app/refresh`);
      expect(shown?.credentials).toBe('omit');
      expect(shown?.headers.get('Authorization')).toBe('Bearer pass.x');
      expect(shown?.headers.get('X-CSRF-Token')).toBeNull();
    }
  });

  test('its absence is told as the runtime’s, not the server’s', async () => {
    fetched.mockImplementation((request: Request) =>
      request.url.endsWith('/pass')
        ? answers('/tunnels/a-local')(request)
        : Promise.reject(new TypeError('Failed to fetch')),
    );
    await expect(appProxy.rollback(ref, 3)).rejects.toMatchObject({
      status: 0,
      message: 'cannot reach the runtime `local`; check that it is online',
    });
  });
});
