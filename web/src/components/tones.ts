/**
 * Words of the API → how they are drawn. Only colour and sign are decided here; a word that is not known is drawn
 * neutrally, so that a newer server can bring new ones.
 */
import type { Tone } from '../ui/Status';

const BUILD: Record<string, Tone> = {
  pending: 'queue',
  delayed: 'queue',
  elected: 'queue',
  'pending-approval': 'wait',
  running: 'run',
  terminating: 'run',
  success: 'ok',
  error: 'bad',
  denied: 'bad',
  terminated: 'off',
  skipped: 'off',
};

const SYNC: Record<string, Tone> = { Synced: 'ok', OutOfSync: 'drift', Unknown: 'off' };

const HEALTH: Record<string, Tone> = {
  Healthy: 'ok',
  Progressing: 'run',
  Degraded: 'bad',
  Suspended: 'off',
  Missing: 'warn',
  Unknown: 'off',
};

const PHASE: Record<string, Tone> = {
  Running: 'run',
  Terminating: 'run',
  Succeeded: 'ok',
  Failed: 'bad',
  Error: 'bad',
};

/** Of a hook, and of what a sync did to an object. */
const RESULT: Record<string, Tone> = {
  ...PHASE,
  Synced: 'ok',
  SyncFailed: 'bad',
  Pruned: 'ok',
  PruneSkipped: 'off',
};

const ROLLOUT: Record<string, Tone> = { Healthy: 'ok', Progressing: 'run', Paused: 'wait', Degraded: 'bad' };

const STEP: Record<string, Tone> = {
  PENDING: 'queue',
  ACTIVE: 'run',
  PASSED: 'ok',
  FAILED: 'bad',
  PAUSED_INDEFINITE: 'wait',
  PAUSED_INCONCLUSIVE: 'wait',
  TERMINATED: 'off',
};

/** Of an analysis, a metric and a measurement. */
const RUN: Record<string, Tone> = {
  Pending: 'queue',
  Running: 'run',
  Successful: 'ok',
  Failed: 'bad',
  Error: 'bad',
  Inconclusive: 'wait',
};

const CHANGE: Record<string, Tone> = { add: 'ok', change: 'wait', delete: 'bad', same: 'off' };

export const buildTone = (status: string): Tone => BUILD[status] ?? 'off';
export const syncTone = (status: string): Tone => SYNC[status] ?? 'off';
export const healthTone = (status: string): Tone => HEALTH[status] ?? 'off';
export const phaseTone = (phase: string): Tone => PHASE[phase] ?? 'off';
export const resultTone = (status: string): Tone => RESULT[status] ?? 'off';
export const rolloutTone = (phase: string): Tone => ROLLOUT[phase] ?? 'off';
export const stepTone = (state: string): Tone => STEP[state] ?? 'off';
export const runTone = (phase: string): Tone => RUN[phase] ?? 'off';
export const changeTone = (change: string): Tone => CHANGE[change] ?? 'off';
export const onlineTone = (online: boolean): Tone => (online ? 'ok' : 'bad');
