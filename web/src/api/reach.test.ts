import { describe, expect, it } from 'vitest';
import { tryReach, watchBlocked, whyUnreached } from './reach';

describe('reaching a runtime', () => {
  it('says what to look at, and that a page is older than an address', () => {
    expect(whyUnreached('/tunnels/a')).toBe('check that it is online');
    expect(whyUnreached('https://r.test')).toContain('your VPN, its certificate and blockers');
    const listeners: ((event: Event) => void)[] = [];
    watchBlocked({
      addEventListener: (_: string, listener: unknown) => listeners.push(listener as (event: Event) => void),
    } as unknown as Document);
    const violation = (blockedURI: string, effectiveDirective: string) =>
      listeners.forEach((listener) => listener({ blockedURI, effectiveDirective } as unknown as Event));
    violation('https://other.test/x', 'img-src');
    violation('inline', 'connect-src');
    expect(whyUnreached('https://other.test')).toContain('VPN');
    violation('https://r.test/healthz', 'connect-src');
    expect(whyUnreached('https://r.test')).toContain('reload the page');
  });

  it('asks without anything that opens something', async () => {
    const asked: [string, RequestInit][] = [];
    const answer = async (url: string, init: RequestInit) => {
      asked.push([url, init]);
    };
    let at = 0;
    expect(await tryReach('https://r.test/', answer, () => (at += 7))).toEqual({ state: 'reached', ms: 7 });
    expect(asked[0]?.[0]).toBe('https://r.test/healthz');
    expect(asked[0]?.[1]).toMatchObject({ credentials: 'omit', mode: 'no-cors' });
    expect(await tryReach('/tunnels/a', answer)).toEqual({ state: 'through-platform' });
    const away = () => Promise.reject(new TypeError('Failed to fetch'));
    expect(await tryReach('https://away.test', away)).toMatchObject({ state: 'unreached' });
  });
});
