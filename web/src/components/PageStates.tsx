/** What the router draws while a page's code comes, and when drawing it fails. */
import type { ErrorComponentProps } from '@tanstack/react-router';
import { useRouter } from '@tanstack/react-router';
import { ErrorNotice, Loading } from '../ui/States';

export function PageLoading() {
  return <Loading rows={6} />;
}

export function PageError({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  return (
    <main>
      <ErrorNotice
        error={error}
        retry={() => {
          reset();
          void router.invalidate();
        }}
      />
    </main>
  );
}
