import type { Runtime } from '../api/types';
import { Status, type Tone } from '../ui/Status';

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

/** How callers reach it, in words. */
export function accessText(runtime: Runtime): string {
  if (runtime.accessMode === 'ingress') return `Ingress, ${runtime.ingressUrl}`;
  const open = runtime.tunnels ?? 0;
  if (open === 0) return 'Tunnel, not open';
  return open === 1 ? 'Tunnel, open' : `${open} tunnels, open`;
}
