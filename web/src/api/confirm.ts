/**
 * Some changes need a recent sign-in: the server refuses them with a code of their own, asks for the password, and
 * takes them then. In: a call. Out: its answer, after the person confirmed if they had to. How the person is asked is
 * told by whoever draws (`askWith`); without anybody to ask, the refusal stays one.
 */
import { ApiError, http, setCsrfToken, unwrap } from './client';
import type { User } from './types';

const CONFIRM_PASSWORD = '2005';

/** Answers whether the person confirmed; false when they would rather not. */
type Ask = () => Promise<boolean>;

let ask: Ask | undefined;

/** The answer takes it back. */
export function askWith(how: Ask): () => void {
  ask = how;
  return () => {
    if (ask === how) ask = undefined;
  };
}

export function needsConfirmation(error: unknown): boolean {
  return error instanceof ApiError && error.status === 403 && error.code === CONFIRM_PASSWORD;
}

/** The call is made anew after the confirmation, because that changed the session and its token. */
export async function confirmed<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!needsConfirmation(error) || !ask || !(await ask())) throw error;
    return call();
  }
}

/** The session has a new id and token afterwards. */
export async function confirmPassword(password: string): Promise<User> {
  const user = await unwrap(http.POST('/api/auth/confirm', { body: { password } }));
  setCsrfToken(user.csrfToken);
  return user;
}
