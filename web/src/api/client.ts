/**
 * One way to call the server. In: a typed call of the HTTP contract. Out: its answer, or an `ApiError` that carries
 * the server's own sentence. It knows nothing of pages, caches or retries.
 */
import createClient, { type Middleware } from 'openapi-fetch';
import type { components, paths } from './generated/slipway';

type ErrorBody = components['schemas']['ErrorBody'];
type ErrorDetail = components['schemas']['ErrorDetail'];

export class ApiError extends Error {
  /** 0 when no answer came at all. */
  readonly status: number;
  readonly code: string;
  readonly requestId: string | undefined;
  /** Which field of what was sent is meant, where the server says so. */
  readonly details: ErrorDetail[];

  constructor(
    status: number,
    message: string,
    code = String(status),
    requestId?: string | null,
    details: ErrorDetail[] = [],
  ) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.code = code;
    this.requestId = requestId ?? undefined;
    this.details = details;
  }
}

const WRONG_CREDENTIALS = '2002';

/** Nobody is signed in any more. A wrong password says less: whoever mistyped it while signed in still is. */
export function endsSession(error: unknown): boolean {
  return error instanceof ApiError && error.status === 401 && error.code !== WRONG_CREDENTIALS;
}

let csrfToken: string | undefined;

/** Signing in and `GET /api/user` hand out the token; every call that changes something sends it back. */
export function setCsrfToken(token: string | null | undefined): void {
  csrfToken = token ?? undefined;
}

/** Also on GET: restarting a build is a GET on the wire that the published CLI speaks, and it changes something. */
export const sendCsrfToken: Middleware = {
  onRequest({ request }) {
    if (csrfToken) request.headers.set('X-CSRF-Token', csrfToken);
    return request;
  },
};

// `fetch` is looked up at call time, so that tests can stand in for it.
export const http = createClient<paths>({
  baseUrl: globalThis.location?.origin ?? '',
  fetch: (request) => globalThis.fetch(request),
});
http.use(sendCsrfToken);

/** What openapi-fetch answers, reduced to the parts that `unwrap` reads. */
type Answer<T> = { data?: T; error?: unknown; response: Response };

export async function unwrap<T>(call: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await call;
  } catch (cause) {
    throw toNetworkError(cause);
  }
  if (!answer.response.ok) throw toApiError(answer.response, answer.error);
  return answer.data as T;
}

export function toNetworkError(cause: unknown): unknown {
  // An abort is the caller's own doing, and a SyntaxError means that the answer was not JSON.
  if (cause instanceof DOMException && cause.name === 'AbortError') return cause;
  if (cause instanceof SyntaxError) {
    return new ApiError(
      0,
      'the server answered with something that is not JSON; is a proxy in between?',
      'NOT_JSON',
    );
  }
  return new ApiError(0, 'cannot reach the server; check that it runs, then try again', 'UNREACHABLE');
}

export function toApiError(response: Response, body: unknown): ApiError {
  if (isErrorBody(body)) {
    return new ApiError(response.status, body.message, body.code, body.requestId, body.details);
  }
  return new ApiError(
    response.status,
    `the server answered ${response.status} ${response.statusText}`.trim(),
  );
}

function isErrorBody(body: unknown): body is ErrorBody {
  return typeof body === 'object' && body !== null && 'message' in body && typeof body.message === 'string';
}
