import { useQuery } from '@tanstack/react-query';
import { validateYaml } from '../api/mutations';
import { StepGraph } from './StepGraph';

/** The steps of a text before they run. Nothing while the text has errors, which the editor tells. */
export function PipelineGraph({ text }: { text: string }) {
  const check = useQuery({
    queryKey: ['lint', text],
    queryFn: () => validateYaml(text),
    staleTime: Infinity,
    gcTime: 60_000,
  });
  return <StepGraph steps={check.data?.steps ?? []} />;
}
