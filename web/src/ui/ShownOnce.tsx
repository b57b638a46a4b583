import { Button } from '@mantine/core';
import type { ReactNode } from 'react';
import { CopyText } from './CopyText';
import { Dialog } from './Dialog';

interface ShownOnceProps {
  title: string;
  text: string;
  /** What is copied, for the button's name. */
  what: string;
  onClose: () => void;
  children: ReactNode;
}

/** Something that the server tells once: to be copied now. A click beside it does not lose it. */
export function ShownOnce({ title, text, what, onClose, children }: ShownOnceProps) {
  return (
    <Dialog onClose={onClose} title={title} closeOnClickOutside={false} size="lg">
      <div className="stack">
        <div>{children}</div>
        <CopyText text={text} what={what} />
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <Button onClick={onClose}>Done</Button>
        </div>
      </div>
    </Dialog>
  );
}
