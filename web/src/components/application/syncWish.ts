/** What a person asks of a sync, as the request that the runtime takes. */
import type { ApplicationPlan, SyncRequest } from '../../api/types';

export type Step = ApplicationPlan['steps'][number];

export interface SyncWish {
  revision: string;
  prune: boolean;
  dryRun: boolean;
  force: boolean;
  replace: boolean;
  serverSide: boolean;
  withoutHooks: boolean;
  /** Empty: as the Application has it. */
  retries: number | string;
}

export const stepId = ({ group = '', kind, namespace = '', name }: Step): string =>
  [group, kind, namespace, name].join('/');

export const isHook = ({ action }: Step): boolean => action.includes('hook');

/** Whether a resource of this plan is left out: a tick that was taken away in an earlier plan says nothing of this one. */
export const isPart = (steps: Step[], left: ReadonlySet<string>): boolean =>
  steps.some((step) => left.has(stepId(step)));

/** A part of an Application is synced without its hooks, as Argo CD does. */
export function chosenSteps(steps: Step[], left: ReadonlySet<string>, withoutHooks: boolean): Step[] {
  const part = isPart(steps, left);
  return steps.filter((step) => !left.has(stepId(step)) && !(isHook(step) && (part || withoutHooks)));
}

/** `left`: the resources whose tick was taken away. With all ticked nothing is named, and the whole Application is synced. */
export function syncRequest(wish: SyncWish, steps: Step[], left: ReadonlySet<string>): SyncRequest {
  const options = [
    ...(wish.replace ? ['Replace=true'] : []),
    ...(wish.serverSide ? ['ServerSideApply=true'] : []),
  ];
  const resources = isPart(steps, left) ? chosenSteps(steps, left, wish.withoutHooks) : [];
  return {
    ...(wish.revision.trim() ? { revision: wish.revision.trim() } : {}),
    prune: wish.prune,
    dryRun: wish.dryRun,
    force: wish.force,
    ...(wish.withoutHooks ? { strategy: 'apply' as const } : {}),
    ...(options.length > 0 ? { syncOptions: options } : {}),
    ...(wish.retries === '' ? {} : { retry: { limit: Number(wish.retries) } }),
    ...(resources.length > 0
      ? {
          resources: resources.map(({ group = '', kind, namespace = '', name }) => ({
            group,
            kind,
            namespace,
            name,
          })),
        }
      : {}),
  };
}
