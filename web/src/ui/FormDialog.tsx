import { Button } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import type { FormEvent, ReactNode } from 'react';
import { Dialog } from './Dialog';
import { Prose } from './Prose';
import { sentence, toFailure } from './States';

/** What the server said against it, where the person looks. */
export function FormError({ error }: { error: unknown }) {
  if (!error) return null;
  return (
    <p role="alert" style={{ color: 'var(--bad)', overflowWrap: 'anywhere' }}>
      <Prose>{sentence(toFailure(error).message)}</Prose>
    </p>
  );
}

interface FormDialogProps {
  title: string;
  /** The verb, not "OK". */
  verb: string;
  onClose: () => void;
  /** Checks the fields, and answers what is to be sent; nothing when they are not right yet. */
  submit: () => (() => Promise<unknown>) | undefined;
  /** Otherwise it closes. */
  onDone?: () => void;
  size?: string;
  children: ReactNode;
}

/**
 * A form in a dialog: sends it, closes when the server has taken it, and shows what the server says otherwise. It is
 * drawn only while it is open, so that it starts afresh each time.
 */
export function FormDialog({ title, verb, onClose, submit, onDone, size, children }: FormDialogProps) {
  const send = useMutation({
    mutationFn: (work: () => Promise<unknown>) => work(),
    onSuccess: onDone ?? onClose,
  });
  const onSubmit = (event: FormEvent) => {
    event.preventDefault();
    // A form inside a dialog is inside its page's form for React: one press is one sending.
    event.stopPropagation();
    const work = submit();
    if (work && !send.isPending) send.mutate(work);
  };
  return (
    <Dialog onClose={onClose} title={title} {...(size ? { size } : {})}>
      <form className="stack" noValidate onSubmit={onSubmit}>
        {children}
        <FormError error={send.error} />
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button type="submit" loading={send.isPending}>
            {verb}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
