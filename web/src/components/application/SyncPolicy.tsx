import { useDisclosure } from '@mantine/hooks';
import { appProxy, type ApplicationRef } from '../../api/appProxy';
import type { Application } from '../../api/types';
import { useChange } from '../../hooks/useChange';
import { Action } from '../../ui/Action';
import { Confirm } from '../../ui/Confirm';

interface SyncPolicyProps {
  application: Application;
  reference: ApplicationRef;
  disabledReason: string | undefined;
}

/** Turns automatic sync on and off; a rollback turns it off. */
export function SyncPolicy({ application, reference, disabledReason }: SyncPolicyProps) {
  const [asking, ask] = useDisclosure();
  const change = useChange(['applications']);
  const { automated = false } = application;
  return (
    <>
      <Action size="compact-xs" disabledReason={disabledReason} onClick={ask.open}>
        {automated ? 'Turn off automatic sync' : 'Turn on automatic sync'}
      </Action>
      <Confirm
        opened={asking}
        onClose={ask.close}
        title={automated ? 'Turn off automatic sync?' : 'Turn on automatic sync?'}
        verb={automated ? 'Turn off' : 'Turn on'}
        action={() => change(appProxy.syncPolicy(reference, !automated))}
      >
        {automated
          ? 'Changes in Git are deployed only when somebody syncs.'
          : 'Changes in Git are deployed as soon as they are seen, beginning now.'}{' '}
        If the Application itself is managed in Git, change it there, too.
      </Confirm>
    </>
  );
}
