import { useDisclosure } from '@mantine/hooks';
import { notifications } from '@mantine/notifications';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { appProxy, type ApplicationRef } from '../../api/appProxy';
import type { Application } from '../../api/types';
import { Action } from '../../ui/Action';
import { Confirm } from '../../ui/Confirm';
import { Refresh, Ship, Stop } from '../../ui/icons';
import { sentence, toFailure } from '../../ui/States';
import { DeleteDialog } from '../declare/DeleteDialog';
import { SyncDialog } from './SyncDialog';

interface ApplicationActionsProps {
  application: Application;
  reference: ApplicationRef;
  /** Why nothing can be asked of the runtime now. */
  disabledReason: string | undefined;
}

export function ApplicationActions({ application, reference, disabledReason }: ApplicationActionsProps) {
  const [syncing, syncDialog] = useDisclosure();
  const [stopping, stopDialog] = useDisclosure();
  const [deleting, deleteDialog] = useDisclosure();
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
      <Action disabledReason={disabledReason} onClick={deleteDialog.open}>
        Delete from Git
      </Action>
      {deleting && <DeleteDialog reference={reference} onClose={deleteDialog.close} />}
      {syncing && <SyncDialog {...{ application, reference }} onClose={syncDialog.close} onDone={renew} />}
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
