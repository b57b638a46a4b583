import { lazy, Suspense, useEffect, useState, type ReactNode } from 'react';
import { askWith } from '../api/confirm';

const ConfirmIdentity = lazy(async () => ({
  default: (await import('../components/ConfirmIdentity')).ConfirmIdentity,
}));

/** Lets `confirmed` calls ask for the password while the frame is there. Answers what to draw. */
export function useConfirmIdentity(): ReactNode {
  const [answer, setAnswer] = useState<(confirmed: boolean) => void>();
  useEffect(
    () =>
      askWith(
        () =>
          new Promise((resolve) => {
            setAnswer(() => (confirmed: boolean) => {
              setAnswer(undefined);
              resolve(confirmed);
            });
          }),
      ),
    [],
  );
  if (!answer) return null;
  return (
    <Suspense fallback={null}>
      <ConfirmIdentity onAnswer={answer} />
    </Suspense>
  );
}
