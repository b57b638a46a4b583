/**
 * Whether this browser reaches a runtime on an address of its own, and why not. The platform cannot tell: it dials nobody.
 *
 * A page may ask the addresses that its account's runtimes had when it was opened; one that was given since is blocked by the
 * browser until the page is opened again.
 */

const blocked = new Set<string>();

function originOf(url: string): string | undefined {
  try {
    return new URL(url).origin;
  } catch {
    return undefined;
  }
}

/** From the start on, so that nothing that was blocked is missed. */
export function watchBlocked(target: Pick<Document, 'addEventListener'>): void {
  target.addEventListener('securitypolicyviolation', (event) => {
    const { blockedURI, effectiveDirective } = event as SecurityPolicyViolationEvent;
    const origin = originOf(blockedURI);
    if (origin && effectiveDirective === 'connect-src') blocked.add(origin);
  });
}

/** What to look at when a runtime does not answer; `url` as a pass names it. */
export function whyUnreached(url: string): string {
  if (!/^https?:/.test(url)) return 'check that it is online';
  if (blocked.has(originOf(url) ?? ''))
    return `this page was opened before the runtime had the address ${url}: reload the page`;
  return `this browser reaches it at ${url}: check that it is online, your VPN, its certificate and blockers`;
}

export type Reached =
  { state: 'reached'; ms: number } | { state: 'unreached'; why: string } | { state: 'through-platform' };

/** Asks a runtime whether it lives. Nothing is sent that opens anything; any answer will do, whoever may read it. */
export async function tryReach(
  url: string,
  ask: (url: string, init: RequestInit) => Promise<unknown> = (to, init) => globalThis.fetch(to, init),
  now: () => number = () => performance.now(),
): Promise<Reached> {
  if (!/^https?:/.test(url)) return { state: 'through-platform' };
  const began = now();
  try {
    await ask(`${url.replace(/\/+$/, '')}/healthz`, {
      mode: 'no-cors',
      credentials: 'omit',
      cache: 'no-store',
      signal: AbortSignal.timeout(10_000),
    });
    return { state: 'reached', ms: Math.round(now() - began) };
  } catch {
    return { state: 'unreached', why: whyUnreached(url) };
  }
}
