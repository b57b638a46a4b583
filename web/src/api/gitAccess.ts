/**
 * One's own Git access at a runtime: tokens that it keeps, and signing in at a provider instead of giving one.
 *
 * The platform hears neither a token nor a code: the pass is for the rest of what is sent. A sign-in is begun with the digest
 * of a word that this tab keeps, so that it can be ended nowhere else.
 */
import { ask, client, runtimePass } from './appProxy';
import { hex, sha256 } from './digest';
import type { GitAccount, GitAccounts } from './types';

export interface GitPlace {
  provider: string;
  host: string;
}

const KEPT = 'slipway.git-sign-in';

interface Begun {
  runtime: string;
  state: string;
  word: string;
}

/** What the provider sent the browser back with, behind the `#` of the address. */
export interface Brought {
  provider: string;
  code: string;
  state: string;
  error: string;
}

export function readBrought(hash: string): Brought | undefined {
  const fields = new URLSearchParams(hash.replace(/^#/, ''));
  const text = (name: string) => fields.get(name) ?? '';
  const brought = {
    provider: text('provider'),
    code: text('code'),
    state: text('state'),
    error: text('error'),
  };
  return brought.state && (brought.code || brought.error) ? brought : undefined;
}

/** A runtime is a stranger: it may send a browser to a page, and have nothing done in this one. */
export function page(url: string, from: string): string {
  const { protocol, href } = new URL(url, from);
  if (protocol === 'https:' || protocol === 'http:') return href;
  throw new Error('the runtime names no page to sign in at: look at the Secret that describes the sign-in');
}

export const gitAccess = {
  accounts: async (runtime: string, signal: AbortSignal): Promise<GitAccounts> => {
    const pass = await runtimePass(runtime, 'git-tokens', undefined, signal);
    return ask({ runtime }, pass.url, client(pass).GET('/app-proxy/api/git/git-tokens', { signal }));
  },
  register: async (runtime: string, { provider, host }: GitPlace, token: string): Promise<GitAccount> => {
    const place = { provider, ...(host ? { host } : {}) };
    const pass = await runtimePass(runtime, 'git-register', place);
    const body = { ...place, token };
    return ask({ runtime }, pass.url, client(pass).POST('/app-proxy/api/git/git-register', { body }));
  },
  forget: async (runtime: string, { provider, host }: GitPlace): Promise<unknown> => {
    const body = { provider, ...(host ? { host } : {}) };
    const pass = await runtimePass(runtime, 'git-forget', body);
    return ask({ runtime }, pass.url, client(pass).POST('/app-proxy/api/git/git-forget', { body }));
  },
  /** Where to go to say yes; this tab remembers what it began. */
  begin: async (runtime: string, { provider, host }: GitPlace): Promise<string> => {
    const word = hex(crypto.getRandomValues(new Uint8Array(32)));
    const challenge = await sha256(word);
    const body = { provider, ...(host ? { host } : {}), challenge };
    const pass = await runtimePass(runtime, 'git-authorize', body);
    const begun = await ask(
      { runtime },
      pass.url,
      client(pass).POST('/app-proxy/api/git/git-authorize', { body }),
    );
    const url = page(begun.url, globalThis.location.origin);
    const kept: Begun = { runtime, state: begun.state, word };
    sessionStorage.setItem(KEPT, JSON.stringify(kept));
    return url;
  },
  /** Whether this tab began it. */
  isOurs: (runtime: string, state: string): boolean => {
    const kept = begun();
    return kept?.runtime === runtime && kept.state === state;
  },
  /** The state of what this tab began at a runtime: for a code that a person carries over. */
  underWay: (runtime: string): string | undefined => {
    const kept = begun();
    return kept?.runtime === runtime ? kept.state : undefined;
  },
  end: async (runtime: string, state: string, code: string): Promise<GitAccount> => {
    const word = begun()?.word ?? '';
    const pass = await runtimePass(runtime, 'git-connect', { state });
    const body = { state, code, word };
    const account = await ask(
      { runtime },
      pass.url,
      client(pass).POST('/app-proxy/api/git/git-connect', { body }),
    );
    sessionStorage.removeItem(KEPT);
    return account;
  },
};

function begun(): Begun | undefined {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT) ?? 'null') ?? undefined;
  } catch {
    return undefined;
  }
}
