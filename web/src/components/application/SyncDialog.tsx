import { Button, Checkbox, NumberInput, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { appProxy, type ApplicationRef } from '../../api/appProxy';
import { planQuery } from '../../api/queries';
import type { Application } from '../../api/types';
import { Dialog } from '../../ui/Dialog';
import { Ship } from '../../ui/icons';
import { Prose } from '../../ui/Prose';
import { QueryView, sentence, toFailure } from '../../ui/States';
import { PlanChoice } from './PlanChoice';
import { chosenSteps, isPart, syncRequest, type SyncWish } from './syncWish';

interface SyncDialogProps {
  application: Application;
  reference: ApplicationRef;
  onClose: () => void;
  onDone: () => Promise<unknown>;
}

const NOTHING: SyncWish = {
  revision: '',
  prune: false,
  dryRun: false,
  force: false,
  replace: false,
  serverSide: false,
  withoutHooks: false,
  retries: '',
};

/** What a sync would do, step by step with a tick each, and how it shall be done. */
export function SyncDialog({ application, reference, onClose, onDone }: SyncDialogProps) {
  const form = useForm({ initialValues: NOTHING });
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const { prune, withoutHooks } = form.values;
  const plan = useQuery(planQuery(reference, prune));
  const sync = useMutation({
    mutationFn: (wish: SyncWish) => appProxy.sync(reference, syncRequest(wish, plan.data?.steps ?? [], left)),
    onSuccess: async () => {
      onClose();
      await onDone();
    },
  });
  const steps = plan.data?.steps ?? [];
  const chosen = chosenSteps(steps, left, withoutHooks);
  const pruned = chosen.filter((step) => step.action === 'prune');
  const part = isPart(steps, left);
  const nothingChosen = part && chosen.length === 0;
  // What is chosen and what would be deleted is known with the plan alone: without it a part would become the whole.
  const unknown = plan.isPending || (plan.isError && left.size > 0);
  // Of another revision nobody has made a plan, and of one that failed there is none.
  const prunesUnseen = prune && (plan.isError || form.values.revision.trim() !== '');
  const tick = (field: keyof SyncWish, label: string, description?: string) => (
    <Checkbox
      label={label}
      {...(description ? { description } : {})}
      {...form.getInputProps(field, { type: 'checkbox' })}
    />
  );
  return (
    <Dialog onClose={onClose} title={`Sync ${application.name}`} size="xl">
      <form className="stack" onSubmit={form.onSubmit((values) => sync.mutate(values))}>
        <TextInput
          data-autofocus
          label="Revision"
          description={`Default: ${application.targetRevision || 'HEAD'}`}
          placeholder={application.targetRevision || 'HEAD'}
          {...form.getInputProps('revision')}
        />
        <div
          role="group"
          aria-label="How"
          style={{ display: 'grid', gap: 10, gridTemplateColumns: 'repeat(auto-fill, minmax(280px, 1fr))' }}
        >
          {tick('prune', 'Prune: delete what is no longer in Git')}
          {tick('dryRun', 'Dry run', 'The cluster is asked what would happen; nothing changes.')}
          {tick('withoutHooks', 'Without hooks')}
          {tick('serverSide', 'Server-side apply')}
          {tick('replace', 'Replace', 'Objects are replaced whole, with what others changed in them.')}
          {tick('force', 'Force', 'What cannot be changed in place is deleted and made again.')}
        </div>
        <NumberInput
          label="Retries when it fails"
          description="Empty: as the application has it."
          min={0}
          max={100}
          allowDecimal={false}
          hideControls
          w={220}
          {...form.getInputProps('retries')}
        />
        {form.values.revision.trim() !== '' && (
          <p className="muted">
            The plan below is of {application.targetRevision || 'HEAD'}; what another revision changes is
            known when it is synced.
          </p>
        )}
        <QueryView query={plan} rows={4}>
          {({ steps: all, waiting }) => (
            <PlanChoice steps={all} waiting={waiting} {...{ withoutHooks, left, setLeft }} />
          )}
        </QueryView>
        {prunesUnseen && (
          <p role="alert" style={{ color: 'var(--bad)' }}>
            What is deleted is known when it is synced: everything that Git does not declare any more.
          </p>
        )}
        {pruned.length > 0 && !prunesUnseen && (
          <p role="alert" style={{ color: 'var(--bad)' }}>
            {pruned.length === 1 ? 'One object is deleted' : `${pruned.length} objects are deleted`}:{' '}
            {pruned.map((step) => step.resource).join(', ')}.
          </p>
        )}
        {sync.isError && (
          <p role="alert" style={{ color: 'var(--bad)' }}>
            <Prose>{sentence(toFailure(sync.error).message)}</Prose>
          </p>
        )}
        {nothingChosen && <p role="alert">Nothing is chosen: tick a resource.</p>}
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          <Button
            type="submit"
            leftSection={<Ship />}
            loading={sync.isPending}
            disabled={nothingChosen || unknown}
            {...((pruned.length > 0 || prunesUnseen) && !form.values.dryRun ? { color: 'red' } : {})}
          >
            {form.values.dryRun ? 'Try' : part ? `Sync ${chosen.length} of ${steps.length}` : 'Sync'}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
