import { Button, Modal } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Prose } from './Prose';
import { sentence, toFailure } from './States';

interface ConfirmProps {
  opened: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
  /** The verb, not "OK". */
  verb: string;
  danger?: boolean;
  /** What is asked about holds a diff. */
  wide?: boolean;
  action: () => Promise<unknown>;
}

/** Asks once more, does it, and shows what the server says when it refuses. */
export function Confirm({ opened, onClose, title, children, verb, danger, wide, action }: ConfirmProps) {
  const mutation = useMutation({ mutationFn: action, onSuccess: onClose });
  const close = () => {
    mutation.reset();
    onClose();
  };
  return (
    <Modal opened={opened} onClose={close} title={title} size={wide ? 'xl' : 'md'}>
      <div className="stack">
        <div>{children}</div>
        {mutation.isError && (
          <p role="alert" style={{ color: 'var(--bad)' }}>
            <Prose>{sentence(toFailure(mutation.error).message)}</Prose>
          </p>
        )}
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <Button variant="default" onClick={close}>
            Cancel
          </Button>
          <Button
            color={danger ? 'red' : 'petrol'}
            loading={mutation.isPending}
            onClick={() => mutation.mutate()}
          >
            {verb}
          </Button>
        </div>
      </div>
    </Modal>
  );
}
