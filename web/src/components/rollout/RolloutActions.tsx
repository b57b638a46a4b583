import { notifications } from '@mantine/notifications';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { appProxy, ROLLOUT_OPERATIONS, type ApplicationRef, type RolloutOperation } from '../../api/appProxy';
import type { Rollout } from '../../api/types';
import { Action } from '../../ui/Action';
import { Confirm } from '../../ui/Confirm';
import { sentence, toFailure } from '../../ui/States';

interface RolloutActionsProps {
  rollout: Rollout;
  reference: ApplicationRef;
  disabledReason: string | undefined;
  onDone: () => unknown;
}

interface Face {
  label: string;
  /** Asked once more, with this. */
  question?: string;
  danger?: boolean;
}

const FACES: Record<RolloutOperation, Face> = {
  'rollout-resume': { label: 'Resume' },
  'rollout-skip-current-step': { label: 'Skip step' },
  'rollout-promote-full': {
    label: 'Promote fully',
    question:
      'All steps, pauses and analyses that are left are skipped: every request goes to the new version.',
  },
  'rollout-pause': { label: 'Pause' },
  'rollout-abort': {
    label: 'Abort',
    question:
      'All requests go back to the stable version. Git does not change: retry it, or commit another version.',
    danger: true,
  },
  'rollout-retry': { label: 'Retry' },
  'rollout-restart': {
    label: 'Restart pods',
    question: 'Pods are replaced a few at a time, with the same version.',
  },
};

const isKnown = (operation: string): operation is RolloutOperation =>
  ROLLOUT_OPERATIONS.some((known) => known === operation);

/** What can be asked of it; what cannot be asked now says why. */
export function RolloutActions({ rollout, reference, disabledReason, onDone }: RolloutActionsProps) {
  const [asked, setAsked] = useState<RolloutOperation>();
  const order = (operation: RolloutOperation) =>
    appProxy.rollout(reference, operation, { namespace: rollout.namespace, resourceName: rollout.name });
  const done = async ({ message }: { message: string }) => {
    // It begins with the name of the Rollout, which is written as it is.
    notifications.show({ message });
    await onDone();
  };
  const run = useMutation({
    mutationFn: order,
    onSuccess: done,
    onError: (error) =>
      notifications.show({ color: 'red', title: 'Not done', message: sentence(toFailure(error).message) }),
  });
  const question = asked && FACES[asked];
  return (
    <div className="row" style={{ flexWrap: 'wrap' }} role="group" aria-label="What can be asked of it">
      {rollout.actions.map(({ operation, disabledReason: reason }) => {
        if (!isKnown(operation)) return null;
        const face = FACES[operation];
        const why = disabledReason ?? reason ?? undefined;
        return (
          <Action
            key={operation}
            size="xs"
            {...(face.danger ? { color: 'red' } : {})}
            loading={run.isPending && run.variables === operation}
            disabledReason={why}
            onClick={() => (face.question ? setAsked(operation) : run.mutate(operation))}
          >
            {face.label}
          </Action>
        );
      })}
      <Confirm
        opened={asked !== undefined}
        onClose={() => setAsked(undefined)}
        title={`${question?.label ?? ''}: ${rollout.name}`}
        verb={question?.label ?? ''}
        {...(question?.danger ? { danger: true } : {})}
        action={async () => {
          if (asked) await done(await order(asked));
        }}
      >
        {question?.question}
      </Confirm>
    </div>
  );
}
