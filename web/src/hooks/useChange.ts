import { useQueryClient, type QueryKey } from '@tanstack/react-query';

/** Waits for a change, then renews what it made old, so that a dialog closes on what is true. */
export function useChange(...keys: QueryKey[]) {
  const queryClient = useQueryClient();
  return async <T>(work: Promise<T>): Promise<T> => {
    const answer = await work;
    await Promise.all(
      keys.map(async (queryKey) => {
        // A first answer that is on its way is not asked for again by itself, and may be of before.
        await queryClient.cancelQueries({ queryKey });
        await queryClient.invalidateQueries({ queryKey });
      }),
    );
    return answer;
  };
}
