import { expect, test } from 'vitest';
import { told } from './declare';
import { sha256 } from './digest';

test('the platform hears where it goes and a digest, and nothing else of it', async () => {
  const application = {
    spec: {
      source: { helm: { values: 'password: canary' } },
      destination: { server: 'https://a', other: 'canary' },
    },
    metadata: { labels: { team: 'a' }, annotations: { x: 'canary', '10': 'b', '9': 'a' } },
  };
  const said = await told({ provider: 'gitea', repository: 'ada/deploy', file: 'apps/a.yaml', application });
  expect(JSON.stringify(said)).not.toContain('canary');
  expect(said).toMatchObject({
    file: 'apps/a.yaml',
    declares: { destination: { server: 'https://a' }, labels: { team: 'a' } },
  });
  // As the runtime writes it: names in the order of their letters, numbers among them.
  const text =
    '{"metadata":{"annotations":{"10":"b","9":"a","x":"canary"},"labels":{"team":"a"}},' +
    '"spec":{"destination":{"other":"canary","server":"https://a"},"source":{"helm":{"values":"password: canary"}}}}';
  expect(said['sha256']).toBe(await sha256(text));
});

test('what it does not say of its destination is not said', async () => {
  const application = { spec: { destination: null } };
  const said = await told({ provider: 'gitea', repository: 'ada/deploy', file: 'a.yaml', application });
  expect(said['declares']).toEqual({ destination: null });
});
