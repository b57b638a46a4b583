import { Button, Checkbox, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useDisclosure } from '@mantine/hooks';
import { notifications } from '@mantine/notifications';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { appProxy, type ApplicationRef } from '../../api/appProxy';
import type { Application } from '../../api/types';
import { Action } from '../../ui/Action';
import { Confirm } from '../../ui/Confirm';
import { Dialog } from '../../ui/Dialog';
import { Refresh, Ship, Stop } from '../../ui/icons';
import { Prose } from '../../ui/Prose';
import { sentence, toFailure } from '../../ui/States';

interface ApplicationActionsProps {
  application: Application;
  reference: ApplicationRef;
  /** Why nothing can be asked of the runtime now. */
  disabledReason: string | undefined;
}

export function ApplicationActions(props: ApplicationActionsProps) {
  const { application, reference, disabledReason } = props;
  const [syncing, syncDialog] = useDisclosure();
  const [stopping, stopDialog] = useDisclosure();
  const queryClient = useQueryClient();
  const renew = () => queryClient.invalidateQueries({ queryKey: ['applications'] });
  const refresh = useMutation({
    mutationFn: (hard: boolean) => appProxy.refresh(reference, hard),
    onSuccess: renew,
    onError: (error) =>
      notifications.show({
        color: 'red',
        title: 'Not refreshed',
        message: sentence(toFailure(error).message),
      }),
  });
  const running =
    application.operation && !application.operation.finishedAt ? application.operation : undefined;
  return (
    <>
      <Action
        leftSection={<Refresh />}
        loading={refresh.isPending}
        disabledReason={disabledReason}
        onClick={() => refresh.mutate(false)}
      >
        Refresh
      </Action>
      <Action
        leftSection={<Refresh />}
        loading={refresh.isPending}
        disabledReason={disabledReason}
        onClick={() => refresh.mutate(true)}
      >
        Hard refresh
      </Action>
      <Action
        variant="filled"
        leftSection={<Ship />}
        disabledReason={
          disabledReason ?? (running && 'A sync is running; wait until it finishes or terminate it.')
        }
        onClick={syncDialog.open}
      >
        Sync
      </Action>
      <Action
        leftSection={<Stop />}
        disabledReason={disabledReason ?? (running ? undefined : 'No sync is running.')}
        onClick={stopDialog.open}
      >
        Terminate sync
      </Action>
      {syncing && <SyncDialog {...props} onClose={syncDialog.close} onDone={renew} />}
      <Confirm
        opened={stopping}
        onClose={stopDialog.close}
        title="Terminate the running sync?"
        verb="Terminate"
        danger
        action={async () => {
          await appProxy.terminate(reference);
          await renew();
        }}
      >
        Changes that were already applied stay; the rest of the plan is skipped.
      </Confirm>
    </>
  );
}

interface SyncDialogProps extends ApplicationActionsProps {
  onClose: () => void;
  onDone: () => Promise<unknown>;
}

function SyncDialog({ application, reference, onClose, onDone }: SyncDialogProps) {
  const form = useForm({ initialValues: { revision: '', prune: false } });
  const sync = useMutation({
    mutationFn: ({ revision, prune }: { revision: string; prune: boolean }) =>
      appProxy.sync(reference, { prune, revision: revision.trim() || null }),
    onSuccess: async () => {
      onClose();
      await onDone();
    },
  });
  return (
    <Dialog onClose={onClose} title={`Sync ${application.name}`}>
      <form className="stack" onSubmit={form.onSubmit((values) => sync.mutate(values))}>
        <TextInput
          data-autofocus
          label="Revision"
          description={`Default: ${application.targetRevision || 'HEAD'}`}
          placeholder={application.targetRevision || 'HEAD'}
          {...form.getInputProps('revision')}
        />
        <Checkbox
          label="Prune: delete what is no longer in Git"
          {...form.getInputProps('prune', { type: 'checkbox' })}
        />
        {sync.isError && (
          <p role="alert" style={{ color: 'var(--bad)' }}>
            <Prose>{sentence(toFailure(sync.error).message)}</Prose>
          </p>
        )}
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" leftSection={<Ship />} loading={sync.isPending}>
            Sync
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
