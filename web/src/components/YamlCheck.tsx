import { Button } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { validateYaml } from '../api/mutations';
import type { ValidateResponse } from '../api/types';
import { Editor } from '../ui/Editor';
import { sentence, toFailure } from '../ui/States';
import { Status } from '../ui/Status';

const START = `version: "1.0"
steps:
  test:
    image: alpine
    commands:
      - echo hello
`;

/** Paste a pipeline file, hear what the server finds in it, with line and column. */
export function YamlCheck() {
  const [yaml, setYaml] = useState(START);
  const check = useMutation({ mutationFn: validateYaml });
  const notes = (check.data?.details ?? []).map((detail) => ({
    line: detail.line ?? 0,
    column: detail.column ?? 0,
    message: detail.message,
    severity: detail.level === 'warning' ? ('warning' as const) : ('error' as const),
  }));
  return (
    <div className="body stack">
      <Editor value={yaml} onChange={setYaml} notes={notes} label="Pipeline file" />
      <div className="row">
        <Button variant="default" loading={check.isPending} onClick={() => check.mutate(yaml)}>
          Check
        </Button>
        <span role="status">
          {check.isError && <Status tone="bad">{sentence(toFailure(check.error).message)}</Status>}
          {check.data && <Verdict answer={check.data} />}
        </span>
      </div>
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

function Verdict({ answer }: { answer: ValidateResponse }) {
  if (!answer.valid)
    return <Status tone="bad">{answer.message ? sentence(answer.message) : 'Not valid'}</Status>;
  if (answer.warningMessage) return <Status tone="warn">{sentence(answer.warningMessage)}</Status>;
  return <Status tone="ok">Valid</Status>;
}
