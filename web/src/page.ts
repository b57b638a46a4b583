/**
 * A page that is loaded when somebody goes there. In: how to import it. Out: a component for the router. While the server
 * is away the import waits for it instead of failing: a reload at that moment would leave the browser on its own error
 * page. A server that answers but has no such part any more is a newer one: then, once, the whole app is loaded anew.
 */
import { lazyRouteComponent } from '@tanstack/react-router';

const RETRY_MS = 1000;
const RELOADED = 'slipway-reloaded';
const RELOAD_PAUSE_MS = 10_000;

interface Surroundings {
  /** Whether the server answers now. */
  answers: () => Promise<boolean>;
  wait: (ms: number) => Promise<void>;
  reload: () => void;
}

const browser: Surroundings = {
  answers: () =>
    fetch('/healthz', { cache: 'no-store' }).then(
      (answer) => answer.ok,
      () => false,
    ),
  wait: (ms) => new Promise((done) => setTimeout(done, ms)),
  reload: () => {
    const last = Number(sessionStorage.getItem(RELOADED) ?? 0);
    if (Date.now() - last < RELOAD_PAUSE_MS) return;
    sessionStorage.setItem(RELOADED, String(Date.now()));
    location.reload();
  },
};

export async function load<T>(
  importer: () => Promise<T>,
  { answers, wait, reload }: Surroundings = browser,
): Promise<T> {
  for (;;) {
    try {
      return await importer();
    } catch (error) {
      if (await answers()) {
        // It came back between the two calls, or the part is gone for good.
        return await importer().catch(() => {
          reload();
          throw error;
        });
      }
      await wait(RETRY_MS);
    }
  }
}

export const page: typeof lazyRouteComponent = (importer, name) =>
  lazyRouteComponent(() => load(importer), name);
