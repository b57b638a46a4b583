import { Modal, type ModalProps } from '@mantine/core';
import { useEffect, useState } from 'react';

/**
 * A dialog that is drawn only while it is open. When it goes, the focus returns to what opened it; when that is gone
 * too, to the heading of the page.
 */
export function Dialog(props: Omit<ModalProps, 'opened'>) {
  // Asked while drawing, before the dialog takes the focus.
  const [opener] = useState(() => document.activeElement);
  useEffect(
    () => () => {
      // After the dialog's own clean-up, which would leave the focus on the body.
      setTimeout(() => {
        if (document.activeElement && document.activeElement !== document.body) return;
        const back = opener instanceof HTMLElement && opener.isConnected && opener !== document.body;
        (back ? opener : document.querySelector<HTMLElement>('main h1'))?.focus({ preventScroll: true });
      });
    },
    [opener],
  );
  return <Modal opened returnFocus={false} {...props} />;
}
