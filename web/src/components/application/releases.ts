import type { Deployment, Operation } from '../../api/types';

const REASONS: Record<string, string> = {
  first: 'first deployment',
  commit: 'new commit',
  parameters: 'changed parameters',
  drift: 'the cluster had changed',
  manual: 'asked for',
  rollback: 'rollback',
};

/** Why a sync was begun, as people say it; nothing where nobody can tell any more. */
export function reasonOf(sync: Pick<Deployment | Operation, 'why'>): string | undefined {
  return sync.why ? (REASONS[sync.why] ?? sync.why) : undefined;
}

export interface Replaced {
  /** The last part of the image's name: the whole is long. */
  name: string;
  image: string;
  before: string;
  after: string;
}

/** Which images of a deployment took the place of others; digests in eight characters. */
export function replacedIn(deployment: Deployment): Replaced[] {
  return (deployment.imageChanges ?? []).map(({ image, before, after }) => ({
    name: image.slice(image.lastIndexOf('/') + 1),
    image,
    before: versions(before),
    after: versions(after),
  }));
}

function versions(all: readonly string[] | undefined): string {
  return (all ?? []).map(shortVersion).join(', ');
}

function shortVersion(version: string): string {
  return version.replace(/(sha256:[0-9a-f]{8})[0-9a-f]+/, '$1') || 'no tag';
}
