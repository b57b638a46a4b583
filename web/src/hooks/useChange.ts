import { useQueryClient, type QueryKey } from '@tanstack/react-query';

/** Waits for a change, then renews what it made old, so that a dialog closes on what is true. */
export function useChange(...keys: QueryKey[]) {
  const queryClient = useQueryClient();
  return async <T>(work: Promise<T>): Promise<T> => {
    const answer = await work;
    await Promise.all(keys.map((queryKey) => queryClient.invalidateQueries({ queryKey })));
    return answer;
  };
}
