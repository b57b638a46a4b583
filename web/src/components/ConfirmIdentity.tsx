import { Button, PasswordInput } from '@mantine/core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { confirmPassword } from '../api/confirm';
import { userQuery } from '../api/queries';
import { Dialog } from '../ui/Dialog';
import { FormError } from '../ui/FormDialog';

/** Asks whoever is signed in for the password before something that needs a recent sign-in. */
export function ConfirmIdentity({ onAnswer }: { onAnswer: (confirmed: boolean) => void }) {
  const [password, setPassword] = useState('');
  const queryClient = useQueryClient();
  const confirm = useMutation({
    mutationFn: () => confirmPassword(password),
    onSuccess: (user) => {
      queryClient.setQueryData(userQuery.queryKey, user);
      onAnswer(true);
    },
  });
  return (
    <Dialog
      onClose={() => onAnswer(false)}
      title="Confirm your identity"
      // Above the dialog whose change it lets through.
      zIndex={300}
    >
      <form
        className="stack"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          event.stopPropagation();
          if (password) confirm.mutate();
        }}
      >
        <p className="muted">
          This change needs a recent sign-in. Without a password of your own,{' '}
          <a href="/login">sign in again</a> through your identity provider instead.
        </p>
        <PasswordInput
          data-autofocus
          label="Your password"
          autoComplete="current-password"
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
        />
        <FormError error={confirm.error} />
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <Button variant="default" onClick={() => onAnswer(false)}>
            Cancel
          </Button>
          <Button type="submit" loading={confirm.isPending}>
            Confirm
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
