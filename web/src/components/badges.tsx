import type { Operation } from '../api/types';
import { Status } from '../ui/Status';
import { buildTone, healthTone, onlineTone, phaseTone, syncTone } from './tones';

export function BuildStatus({ status, plain }: { status: string; plain?: boolean }) {
  return (
    <Status tone={buildTone(status)} {...(plain ? { plain } : {})}>
      {status}
    </Status>
  );
}

export function SyncStatus({ status }: { status: string }) {
  return <Status tone={syncTone(status)}>{spaced(status)}</Status>;
}

export function HealthStatus({ status, message }: { status: string; message?: string | null | undefined }) {
  return (
    <Status tone={healthTone(status)} title={message ?? undefined}>
      {status}
    </Status>
  );
}

/** What a sync operation is called on the pages; the phase itself is the API's. */
const PHASE_TEXT: Record<string, string> = {
  Running: 'Syncing',
  Terminating: 'Terminating the sync',
  Succeeded: 'Sync succeeded',
  Failed: 'Sync failed',
  Error: 'Sync error',
};

export function OperationStatus({ operation }: { operation: Operation }) {
  return (
    <Status tone={phaseTone(operation.phase)} title={operation.message || undefined}>
      {PHASE_TEXT[operation.phase] ?? operation.phase}
    </Status>
  );
}

export function OnlineStatus({ online }: { online: boolean }) {
  return <Status tone={onlineTone(online)}>{online ? 'Online' : 'Offline'}</Status>;
}

/** `OutOfSync` → `Out of sync`: the API's word, spaced for reading. */
export function spaced(word: string): string {
  const words = word.replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
