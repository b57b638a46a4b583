import { useQuery } from '@tanstack/react-query';
import { releasesQuery } from '../api/queries';
import type { Runtime } from '../api/types';
import { Status, type Tone } from '../ui/Status';
import { updateOf } from './runtimeView';

const STATES: Record<string, [Tone, string]> = {
  online: ['ok', 'Online'],
  offline: ['bad', 'Offline'],
  'never-connected': ['wait', 'Never connected'],
  revoked: ['off', 'Token revoked'],
};

export function RuntimeState({ runtime }: { runtime: Runtime }) {
  const [tone, text] =
    STATES[runtime.state ?? ''] ?? (runtime.online ? ['ok', 'Online'] : ['bad', 'Offline']);
  return <Status tone={tone}>{text}</Status>;
}

/** Its version, and what the release feed says of it. */
export function VersionText({ runtime }: { runtime: Runtime }) {
  const releases = useQuery(releasesQuery);
  const update = updateOf(releases.data, runtime.name);
  return (
    <>
      <span className="mono">{runtime.version || '–'}</span>
      {update && (
        <div className="nowrap">
          <Status tone={update.tone} plain title={update.why || undefined}>
            {update.text}
          </Status>
        </div>
      )}
    </>
  );
}

/** How callers reach it, in words. */
export function accessText(runtime: Runtime): string {
  if (runtime.accessMode === 'ingress') return `Ingress, ${runtime.ingressUrl}`;
  const open = runtime.tunnels ?? 0;
  if (open === 0) return 'Tunnel, not open';
  return open === 1 ? 'Tunnel, open' : `${open} tunnels, open`;
}
