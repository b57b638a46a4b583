import { Button, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useEffect, useRef, useState } from 'react';
import type { ApplicationRef } from '../../api/appProxy';
import { openPodShell, type PodShell } from '../../api/podShell';
import { Dialog } from '../../ui/Dialog';
import { Screen } from '../../ui/screen';
import { sentence, toFailure } from '../../ui/States';
import { Terminal } from '../../ui/Terminal';

interface PodTerminalProps {
  reference: ApplicationRef;
  namespace: string;
  pod: string;
  onClose: () => void;
}

interface Wanted {
  container: string;
  command: string;
}

/** A command in a container of a pod. Beginning and end are in the audit log. */
export function PodTerminal({ reference, namespace, pod, onClose }: PodTerminalProps) {
  const [wanted, setWanted] = useState<Wanted>();
  const form = useForm<Wanted>({
    initialValues: { container: '', command: 'sh' },
    validate: { command: (command) => (command.trim() ? null : 'Enter a command') },
  });
  return (
    <Dialog
      onClose={onClose}
      title={`Terminal in ${pod}`}
      size="xl"
      closeOnClickOutside={false}
      closeOnEscape={false}
    >
      {wanted ? (
        <Session {...{ reference, namespace, pod, wanted, onClose }} />
      ) : (
        <form className="stack" noValidate onSubmit={form.onSubmit(setWanted)}>
          <p>
            It runs in the cluster as the container does. Its beginning and its end are recorded in the audit
            log.
          </p>
          <TextInput
            label="Container"
            description="Leave it empty for the pod’s default one."
            {...form.getInputProps('container')}
          />
          <TextInput data-autofocus label="Command" {...form.getInputProps('command')} />
          <div className="row" style={{ justifyContent: 'flex-end' }}>
            <Button variant="default" onClick={onClose}>
              Cancel
            </Button>
            <Button type="submit">Open</Button>
          </div>
        </form>
      )}
    </Dialog>
  );
}

function Session(props: PodTerminalProps & { wanted: Wanted }) {
  const { reference, namespace, pod, wanted, onClose } = props;
  const [screen] = useState(() => new Screen());
  const [text, setText] = useState('');
  const [closed, setClosed] = useState<string>();
  const shell = useRef<PodShell>(undefined);
  const size = useRef<[number, number]>(undefined);
  // Typed before it was open: it is meant for it all the same. Nothing once it is open.
  const early = useRef<string | undefined>('');
  const { runtime, namespace: home, name } = reference;
  const { container, command } = wanted;
  useEffect(() => {
    let left = false;
    const request = {
      namespace,
      pod,
      command: command.trim().split(/\s+/),
      tty: true,
      stdin: true,
      ...(container.trim() ? { container: container.trim() } : {}),
    };
    const opening = openPodShell({ runtime, namespace: home, name }, request, {
      opened: () => {
        if (size.current) shell.current?.resize(...size.current);
        if (early.current) shell.current?.type(early.current);
        early.current = undefined;
      },
      text: (printed) => {
        screen.write(printed);
        setText(screen.lines.join('\n'));
      },
      ended: setClosed,
    });
    opening.then(
      (opened) => {
        if (left) return opened.close();
        shell.current = opened;
      },
      (error: unknown) => setClosed(sentence(toFailure(error).message).replace(/\.$/, '')),
    );
    return () => {
      left = true;
      shell.current?.close();
    };
  }, [runtime, home, name, namespace, pod, container, command, screen]);
  return (
    <Terminal
      of={pod}
      text={text}
      closed={closed}
      waiting={closed ? '' : 'Waiting for the container…'}
      onType={(typed) => {
        if (early.current === undefined) shell.current?.type(typed);
        else early.current += typed;
      }}
      onClose={onClose}
      onSize={(columns, rows) => {
        size.current = [columns, rows];
        shell.current?.resize(columns, rows);
      }}
    />
  );
}
