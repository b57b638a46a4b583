/** Registering a runtime, giving it another name, and the token that is shown once. */
import { Button, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useQuery } from '@tanstack/react-query';
import { createRuntime, renameRuntime } from '../api/mutations';
import { runtimeQuery } from '../api/queries';
import type { RuntimeToken } from '../api/types';
import { useChange } from '../hooks/useChange';
import { CopyText } from '../ui/CopyText';
import { Dialog } from '../ui/Dialog';
import { FormDialog } from '../ui/FormDialog';
import { RuntimeState } from './RuntimeState';

const required = (name: string) => (name.trim() ? null : 'Enter a name');

interface RegisterProps {
  onClose: () => void;
  onRegistered: (token: RuntimeToken) => void;
}

export function RegisterRuntimeDialog({ onClose, onRegistered }: RegisterProps) {
  const change = useChange(['runtimes']);
  const form = useForm({ initialValues: { name: '', ingressUrl: '' }, validate: { name: required } });
  return (
    <FormDialog
      title="Register a runtime"
      verb="Register"
      onClose={onClose}
      onDone={() => undefined}
      submit={() => {
        if (form.validate().hasErrors) return undefined;
        const { name, ingressUrl } = form.values;
        return async () => onRegistered(await change(createRuntime(name.trim(), ingressUrl.trim())));
      }}
    >
      <TextInput
        data-autofocus
        label="Name"
        description="Lowercase letters, digits and hyphens. It becomes part of a host name."
        placeholder="production"
        {...form.getInputProps('name')}
      />
      <TextInput
        label="Ingress URL"
        description="Leave it empty for a tunnel: the runtime connects to Slipway and needs no inbound access."
        placeholder="https://runtime.example.com"
        {...form.getInputProps('ingressUrl')}
      />
    </FormDialog>
  );
}

/** The command and the token, and whether the runtime has come. A click beside it does not lose them. */
export function RuntimeTokenDialog({ made, onClose }: { made: RuntimeToken; onClose: () => void }) {
  const runtime = useQuery({ ...runtimeQuery(made.name), refetchInterval: 5_000 });
  return (
    <Dialog onClose={onClose} title={`Connect runtime ${made.name}`} closeOnClickOutside={false} size="lg">
      <div className="stack">
        <p>
          Run this where the cluster is, with the token in the environment. The token is shown now and never
          again.
        </p>
        <CopyText text={`export SLIPWAY_TOKEN=${made.token}`} what="token" />
        <CopyText text={made.command} what="command" />
        <div role="status" className="row">
          {runtime.data ? <RuntimeState runtime={runtime.data} /> : null}
          <span>{runtime.data?.online ? 'It is connected.' : 'Waiting for it to connect…'}</span>
        </div>
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <Button onClick={onClose}>Done</Button>
        </div>
      </div>
    </Dialog>
  );
}

interface RenameProps {
  name: string;
  onClose: () => void;
  onRenamed: (name: string) => void;
}

export function RenameRuntimeDialog({ name, onClose, onRenamed }: RenameProps) {
  const change = useChange(['runtimes'], ['applications']);
  const form = useForm({ initialValues: { name }, validate: { name: required } });
  return (
    <FormDialog
      title={`Rename runtime ${name}`}
      verb="Rename"
      onClose={onClose}
      onDone={() => undefined}
      submit={() => {
        if (form.validate().hasErrors) return undefined;
        return async () => {
          const renamed = await change(renameRuntime(name, form.values.name.trim()));
          onRenamed(renamed.name);
        };
      }}
    >
      <TextInput
        data-autofocus
        label="Name"
        description="Its token and what it reported stay. Access rules that name the runtime have to be changed too."
        {...form.getInputProps('name')}
      />
    </FormDialog>
  );
}
