import { Button } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { ApplicationRef } from '../../api/appProxy';
import { declare } from '../../api/declare';
import { gitAccess } from '../../api/gitAccess';
import type { Declared } from '../../api/types';
import { Dialog } from '../../ui/Dialog';
import { FormError } from '../../ui/FormDialog';
import { QueryView } from '../../ui/States';
import { DeclaredIn } from './DeclaredIn';
import { Warnings } from './Outcome';
import { isRepository, NOWHERE, type Place } from './place';

/** Takes an Application out of Git, after it was said what goes with it. */
export function DeleteDialog({ reference, onClose }: { reference: ApplicationRef; onClose: () => void }) {
  const { runtime, name } = reference;
  const [place, setPlace] = useState<Place>(NOWHERE);
  const [tried, setTried] = useState(false);
  const accounts = useQuery({
    queryKey: ['git-access', runtime],
    queryFn: ({ signal }) => gitAccess.accounts(runtime, signal),
  });
  const suggested = `apps/${name}.yaml`;
  const send = useMutation({
    mutationFn: async (dryRun: boolean): Promise<{ dryRun: boolean; declared: Declared }> => {
      const account = accounts.data?.tokens[place.account];
      if (!account) throw new Error('give the runtime your Git access first');
      const body = declare.at(account, { ...place, file: place.file.trim() || suggested });
      return { dryRun, declared: await declare.delete(reference, { ...body, dryRun }) };
    },
  });
  const deleting = send.isPending && !send.variables;
  const looked = send.data?.dryRun ? send.data.declared : undefined;
  const done = send.data && !send.data.dryRun ? send.data.declared : undefined;
  const none = accounts.data?.tokens.length === 0;
  const go = (dryRun: boolean) => {
    setTried(true);
    if (isRepository(place.repository)) send.mutate(dryRun);
  };
  return (
    <Dialog
      onClose={onClose}
      title={`Delete ${name} from Git`}
      size="lg"
      closeOnClickOutside={!send.isPending}
      closeOnEscape={!send.isPending}
    >
      <form
        className="stack"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          event.stopPropagation();
          if (!done) go(!looked);
        }}
      >
        {done ? (
          <>
            <p role="status">
              Deleted by <code>{(done.commit ?? '').slice(0, 7)}</code> on {done.branch}, by {done.author}.
            </p>
            <Warnings of={done} />
          </>
        ) : (
          <>
            <QueryView query={accounts} rows={3}>
              {({ tokens }) => (
                <DeclaredIn
                  runtime={runtime}
                  accounts={tokens}
                  value={place}
                  errors={tried && !isRepository(place.repository) ? { repository: 'Enter owner/name' } : {}}
                  suggestedFile={suggested}
                  onChange={(change) => {
                    setPlace((before) => ({ ...before, ...change }));
                    // What was found of another file is not true of this one. What became of a commit is true all the same.
                    if (!send.isIdle && !deleting) send.reset();
                  }}
                />
              )}
            </QueryView>
            {looked && (
              <div role="status">
                <p>The file declares it. Nothing was committed yet.</p>
                <Warnings of={looked} />
              </div>
            )}
            <FormError error={send.error} />
          </>
        )}
        <div className="row" style={{ justifyContent: 'flex-end' }}>
          <Button variant="default" disabled={deleting} onClick={onClose}>
            {done ? 'Done' : 'Cancel'}
          </Button>
          {!done && !none && (
            <Button type="submit" loading={send.isPending} {...(looked ? { color: 'red' } : {})}>
              {looked ? 'Delete' : 'Check'}
            </Button>
          )}
        </div>
      </form>
    </Dialog>
  );
}
