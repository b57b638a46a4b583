import { Button, Modal } from '@mantine/core';
import { useBlocker } from '@tanstack/react-router';

/** Asks before a page with unsaved changes is left: by a link, by the browser's buttons, or by closing the tab. */
export function UnsavedChanges({ when }: { when: boolean }) {
  const { status, proceed, reset } = useBlocker({
    shouldBlockFn: () => when,
    enableBeforeUnload: () => when,
    withResolver: true,
  });
  return (
    <Modal opened={status === 'blocked'} onClose={() => reset?.()} title="Discard your changes?">
      <div className="stack">
        <p>This page has changes that are not saved.</p>
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <Button variant="default" data-autofocus onClick={() => reset?.()}>
            Keep editing
          </Button>
          <Button color="red" onClick={() => proceed?.()}>
            Discard changes
          </Button>
        </div>
      </div>
    </Modal>
  );
}
