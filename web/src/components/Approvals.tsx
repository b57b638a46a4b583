import { Button, Textarea } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { answerApproval } from '../api/pipelineMutations';
import type { Build } from '../api/types';
import { useChange } from '../hooks/useChange';
import { FormError } from '../ui/FormDialog';
import { Status } from '../ui/Status';
import { Ago } from '../ui/Time';

/** Steps that wait for somebody, and the answers that were given: who, which way, why. */
export function Approvals({ build }: { build: Build }) {
  const given = build.approvals ?? [];
  const asks = (build.steps ?? []).filter(
    (step) => step.status === 'pending-approval' && !given.some((answer) => answer.step === step.name),
  );
  if (given.length === 0 && asks.length === 0) return null;
  return (
    <section className="panel" aria-label="Approvals">
      <div className="body stack">
        {given.map((answer) => (
          <p key={answer.step}>
            <Status plain tone={answer.approved ? 'ok' : 'bad'}>
              {answer.approved ? 'Approved' : 'Denied'}
            </Status>{' '}
            <code>{answer.step}</code> by {answer.by} <Ago at={answer.at} />
            {answer.reason && <>: “{answer.reason}”</>}
          </p>
        ))}
        {asks.map((step) => (
          <Question key={step.name} build={build} step={step.name} title={step.title || step.name} />
        ))}
      </div>
    </section>
  );
}

function Question({ build, step, title }: { build: Build; step: string; title: string }) {
  const [reason, setReason] = useState('');
  const renew = useChange(['builds']);
  const answer = useMutation({
    mutationFn: (which: 'approve' | 'deny') => renew(answerApproval(build.id, which, step, reason)),
  });
  return (
    <div className="stack">
      <p>
        <Status tone="warn">{title} is waiting for approval</Status>
      </p>
      {build.can?.approve ? (
        <>
          <Textarea
            label="Comment (optional)"
            description="Recorded with your name"
            autosize
            value={reason}
            onChange={(event) => setReason(event.currentTarget.value)}
          />
          <FormError error={answer.error} />
          <div className="row">
            <Button loading={answer.isPending} onClick={() => answer.mutate('approve')}>
              Approve
            </Button>
            <Button variant="default" loading={answer.isPending} onClick={() => answer.mutate('deny')}>
              Deny
            </Button>
          </div>
        </>
      ) : (
        <p className="muted">You need permission to approve this pipeline.</p>
      )}
    </div>
  );
}
