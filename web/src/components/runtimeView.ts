/** What the pages of runtimes say of them, from what the platform says: words, tones, what fits a search. */
import type { ReleaseStatus, Runtime, RuntimeDetail } from '../api/types';
import type { Tone } from '../ui/Status';
import { counted } from '../ui/counted';

const TYPES: Record<string, string> = { up: 'Built in', helm: 'Helm', process: 'Process' };

/** How it was installed, as it says; empty where it has not said. */
export const typeText = ({ installedBy = '' }: Runtime): string => TYPES[installedBy] ?? installedBy;

/** Columns that say something of at least one of them. */
export function optionalColumns(runtimes: Runtime[]): { type: boolean; modules: boolean } {
  return {
    type: runtimes.some((runtime) => typeText(runtime) !== ''),
    modules: runtimes.some(({ modules }) => (modules ?? []).length > 0),
  };
}

/** By its name, where it is, and the clusters that it deploys to. */
export function fits(runtime: Runtime, search: string): boolean {
  const wanted = search.trim().toLowerCase();
  const clusters = (runtime.clusters ?? []).flatMap(({ name, server }) => [name, server]);
  const words = [runtime.name, runtime.cluster, runtime.namespace ?? '', ...clusters];
  return words.some((word) => word.toLowerCase().includes(wanted));
}

export interface Update {
  tone: Tone;
  text: string;
  why: string;
}

/** What the release feed says of its version; nothing where there is no feed, or nothing newer. */
export function updateOf(releases: ReleaseStatus | undefined, name: string): Update | undefined {
  const found = releases?.components.find((one) => one.component === 'runtime' && one.name === name);
  const why = found?.message ?? '';
  if (found?.update === 'required') return { tone: 'bad', text: 'Update required', why };
  if (found?.update === 'available') return { tone: 'warn', text: 'Update available', why };
  return undefined;
}

export interface Box {
  name: string;
  /** The heading of the part of the page that says more. */
  target: string;
  tone: Tone;
  text: string;
}

const all = <T>(items: T[], is: (item: T) => boolean): number => items.filter(is).length;

const box = (name: string, target: string, tone: Tone, text: string): Box => ({ name, target, tone, text });

/** The status panel: one box for each part of a runtime, the worst that is in it, and how much. */
export function statusBoxes(runtime: RuntimeDetail): Box[] {
  const ways = runtime.connectivity ?? [];
  const lost = all(ways, ({ state }) => state === 'unreachable');
  const silent = all(ways, ({ state }) => state === 'silent');
  const open = all(ways, ({ state }) => state === 'connected');
  const components = (runtime.components ?? []).filter(({ state }) => state !== 'off');
  const degraded = all(components, ({ state }) => state === 'degraded');
  const clusters = runtime.clusters ?? [];
  const failed = all(clusters, ({ state }) => state === 'Failed');
  const reached = all(clusters, ({ state }) => state === 'Successful');
  const connectivity = (): [Tone, string] => {
    if (lost > 0) return ['bad', `${lost} of ${counted(ways.length, 'way')} unreachable`];
    if (silent > 0) return ['warn', `${silent} of ${counted(ways.length, 'way')} silent`];
    if (open === 0) return ['wait', 'Not connected yet'];
    return ['ok', `${open} of ${counted(ways.length, 'way')} connected`];
  };
  const parts = (): [Tone, string] => {
    if (components.length === 0) return ['wait', 'Not known'];
    if (degraded > 0) return ['warn', `${degraded} of ${components.length} degraded`];
    return ['ok', `${components.length} healthy`];
  };
  const reach = (): [Tone, string] => {
    if (clusters.length === 0) return ['wait', 'Not known'];
    if (failed > 0) return ['bad', `${failed} of ${clusters.length} failed`];
    if (reached < clusters.length)
      return ['wait', `${clusters.length - reached} of ${clusters.length} unknown`];
    return ['ok', `${clusters.length} successful`];
  };
  return [
    box('Connectivity', 'connectivity', ...connectivity()),
    box('Components', 'components', ...parts()),
    box('Clusters', 'topology', ...reach()),
  ];
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

/** `1.5 MiB`; nothing where a platform of an older version does not count. */
export function bytesText(count: number | undefined): string {
  if (count === undefined) return '–';
  const unit = Math.min(UNITS.length - 1, count < 1 ? 0 : Math.floor(Math.log2(count) / 10));
  const value = count / 1024 ** unit;
  return `${unit === 0 || value >= 10 ? Math.round(value) : value.toFixed(1)} ${UNITS[unit]}`;
}
