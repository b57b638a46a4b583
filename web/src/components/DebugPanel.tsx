import { Button } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { continueStep, closeShell, openShell, shellOutput, typeIntoShell } from '../api/debug';
import type { Build, BuildStep } from '../api/types';
import { useChange } from '../hooks/useChange';
import { FormError } from '../ui/FormDialog';
import { Screen } from '../ui/screen';
import { Status } from '../ui/Status';
import { Terminal } from '../ui/Terminal';
import { Ago } from '../ui/Time';

const COLUMNS = 100;
const ROWS = 24;
const AGAIN_MS = 1000;

const WHERE: Record<string, string> = {
  before: 'before it begins',
  override: 'instead of its commands',
  after: 'after it finished',
};

/** Steps that stand at a breakpoint: a shell in each, and letting it go on. */
export function DebugPanel({ build }: { build: Build }) {
  const paused = (build.steps ?? []).filter((step) => step.paused);
  if (paused.length === 0) return null;
  return (
    <section className="panel" aria-label="Breakpoints">
      <div className="body stack">
        {paused.map((step) => (
          <PausedStep key={step.name} build={build} step={step} />
        ))}
      </div>
    </section>
  );
}

function PausedStep({ build, step }: { build: Build; step: BuildStep }) {
  const renew = useChange(['builds']);
  const [shell, setShell] = useState<string>();
  const open = useMutation({
    mutationFn: () => openShell(build.id, step.name, COLUMNS, ROWS),
    onSuccess: (opened) => setShell(opened.id),
  });
  const goOn = useMutation({ mutationFn: () => renew(continueStep(build.id, step.name)) });
  const phase = step.paused?.phase ?? '';
  return (
    <div className="stack">
      <p>
        <Status tone="warn">{step.title || step.name} is paused</Status> {WHERE[phase] ?? phase}; it continues
        automatically <Ago at={step.paused?.until ?? ''} />
      </p>
      {build.can?.debug ? (
        <>
          <FormError error={goOn.error ?? open.error} />
          <div className="row">
            <Button loading={goOn.isPending} onClick={() => goOn.mutate()}>
              Continue
            </Button>
            <Button variant="default" loading={open.isPending} onClick={() => open.mutate()}>
              {shell ? 'Open another shell' : 'Open a shell'}
            </Button>
          </div>
          {shell && <Console key={shell} build={build.id} shell={shell} step={step.name} />}
        </>
      ) : (
        <p className="muted">You need permission to debug this pipeline.</p>
      )}
    </div>
  );
}

/** Keys are sent one after the other, in order. */
function Console({ build, shell, step }: { build: string; shell: string; step: string }) {
  const screen = useRef(new Screen());
  const [text, setText] = useState('');
  const [closed, setClosed] = useState<string>();
  useEffect(() => {
    const stop = new AbortController();
    const decoder = new TextDecoder();
    const read = async () => {
      let after = 0;
      while (!stop.signal.aborted) {
        try {
          const answer = await shellOutput(build, shell, after, stop.signal);
          if (answer.bytes.length > 0) {
            after = (answer.offset ?? 0) + answer.bytes.length;
            screen.current.write(decoder.decode(answer.bytes, { stream: true }));
            setText(screen.current.lines.join('\n'));
          }
          if (answer.closed) return setClosed(answer.closed);
        } catch (error) {
          if (stop.signal.aborted) return;
          await new Promise((wake) => setTimeout(wake, AGAIN_MS));
          if ((error as { status?: number }).status === 404) return setClosed('the shell is gone');
        }
      }
    };
    void read();
    return () => stop.abort();
  }, [build, shell]);
  const type = useMutation({
    mutationFn: (typed: string) => typeIntoShell(build, shell, typed),
    scope: { id: `shell ${shell}` },
  });
  const leave = useMutation({ mutationFn: () => closeShell(build, shell) });
  return (
    <div className="stack" style={{ gap: 6 }}>
      <Terminal
        of={step}
        text={text}
        closed={closed}
        waiting="Waiting for the shell…"
        onType={(typed) => type.mutate(typed)}
        onClose={() => leave.mutate()}
        closing={leave.isPending}
      />
      <FormError error={type.error ?? leave.error} />
    </div>
  );
}
