/** Debugging a build: letting a paused step go on, and a shell in it. Bytes come and go in base64. */
import { http, unwrap } from './client';

export function continueStep(id: string, step: string) {
  const body = { action: 'continue', step, breakpoints: {} };
  return unwrap(http.POST('/api/builds/{id}/debug', { params: { path: { id } }, body }));
}

/** Answers the new build's id. */
export function debugAgain(id: string): Promise<string> {
  const body = { debug: true, breakpoints: {}, fromFailed: false, fromStep: null };
  return unwrap(http.POST('/api/builds/{id}/restart', { params: { path: { id } }, body }));
}

export function openShell(id: string, step: string, columns: number, rows: number) {
  return unwrap(
    http.POST('/api/builds/{id}/debug/shells', { params: { path: { id } }, body: { step, columns, rows } }),
  );
}

export function typeIntoShell(id: string, shell: string, text: string) {
  return unwrap(
    http.POST('/api/builds/{id}/debug/shells/{shell}/input', {
      params: { path: { id, shell } },
      body: { bytes: toBase64(text) },
    }),
  );
}

export function closeShell(id: string, shell: string) {
  return unwrap(http.DELETE('/api/builds/{id}/debug/shells/{shell}', { params: { path: { id, shell } } }));
}

/** Held by the server until there is something. */
export async function shellOutput(id: string, shell: string, after: number, signal: AbortSignal) {
  const answer = await unwrap(
    http.GET('/api/builds/{id}/debug/shells/{shell}/output', {
      params: { path: { id, shell }, query: { after } },
      cache: 'no-store',
      signal,
    }),
  );
  return { ...answer, bytes: Uint8Array.from(atob(answer.bytes ?? ''), (letter) => letter.charCodeAt(0)) };
}

function toBase64(text: string): string {
  const bytes = new TextEncoder().encode(text);
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
}
