import { useQuery } from '@tanstack/react-query';
import { useDebouncedValue } from '@mantine/hooks';
import { useMemo } from 'react';
import { validateYaml } from '../api/mutations';
import { Editor } from '../ui/Editor';
import { Status } from '../ui/Status';
import { counted } from '../ui/counted';
import { StepGraph } from './StepGraph';

interface PipelineTextProps {
  value: string;
  onChange: (value: string) => void;
}

/** A pipeline's text with what the server's linter finds in it, at its lines, while one types. */
export function PipelineText({ value, onChange }: PipelineTextProps) {
  const [settled] = useDebouncedValue(value, 300);
  const check = useQuery({
    queryKey: ['lint', settled],
    queryFn: () => validateYaml(settled),
    staleTime: Infinity,
    gcTime: 60_000,
  });
  const notes = useMemo(
    () =>
      (check.data?.details ?? []).map((detail) => ({
        line: detail.line ?? 0,
        column: detail.column ?? 0,
        message: detail.hint ? `${detail.message} (${detail.hint})` : detail.message,
        severity: detail.level === 'warning' ? ('warning' as const) : ('error' as const),
      })),
    [check.data],
  );
  const errors = notes.filter((note) => note.severity === 'error').length;
  return (
    <div className="stack">
      <Editor value={value} onChange={onChange} notes={notes} label="Pipeline text" />
      <StepGraph steps={check.data?.steps ?? []} />
      <span role="status">
        {!check.data ? (
          <span className="muted">Checking…</span>
        ) : errors > 0 ? (
          <Status tone="bad">{counted(errors, 'error')}</Status>
        ) : notes.length > 0 ? (
          <Status tone="warn">Valid, with {counted(notes.length, 'warning')}</Status>
        ) : (
          <Status tone="ok">Valid</Status>
        )}
      </span>
      {notes.length > 0 && (
        <ul style={{ margin: 0, paddingLeft: 18 }}>
          {notes.map((note) => (
            <li key={`${note.line}:${note.column}:${note.message}`}>
              <code>
                {note.line}:{note.column}
              </code>{' '}
              {note.message}
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
