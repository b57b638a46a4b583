import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { lintGutter, setDiagnostics, type Diagnostic } from '@codemirror/lint';
import { EditorState } from '@codemirror/state';
import { EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view';
import { useEffect, useRef } from 'react';
import { yamlLook } from './codemirror';

export interface EditorNote {
  /** From one; 0 when it is about the whole text. */
  line: number;
  column: number;
  message: string;
  severity: 'error' | 'warning';
}

interface EditorProps {
  value: string;
  onChange?: (value: string) => void;
  notes?: EditorNote[];
  label: string;
  /** For reading and copying only. */
  readOnly?: boolean;
}

const NO_NOTES: EditorNote[] = [];

/** A YAML editor with notes at their lines. Tab leaves it: a keyboard must not be caught in it. */
export function Editor({ value, onChange, notes = NO_NOTES, label, readOnly = false }: EditorProps) {
  const parent = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(undefined);
  const change = useRef(onChange);
  const initial = useRef({ value, label, readOnly });
  useEffect(() => {
    change.current = onChange;
  });

  useEffect(() => {
    if (!parent.current) return;
    const editor = new EditorView({
      parent: parent.current,
      state: EditorState.create({
        doc: initial.current.value,
        extensions: [
          lineNumbers(),
          ...(initial.current.readOnly
            ? [EditorState.readOnly.of(true)]
            : [lintGutter(), history(), highlightActiveLine()]),
          keymap.of([...defaultKeymap, ...historyKeymap]),
          yamlLook,
          EditorView.contentAttributes.of({
            'aria-label': initial.current.label,
            ...(initial.current.readOnly ? { 'aria-readonly': 'true' } : {}),
          }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) change.current?.(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = editor;
    return () => editor.destroy();
  }, []);

  useEffect(() => {
    const editor = view.current;
    if (!editor) return;
    editor.dispatch(
      setDiagnostics(
        editor.state,
        notes.map((note) => toDiagnostic(editor.state, note)),
      ),
    );
  }, [notes]);

  return (
    <div
      ref={parent}
      style={{
        border: '1px solid var(--line)',
        borderRadius: 'var(--radius)',
        overflow: 'hidden',
        minHeight: 120,
      }}
    />
  );
}

function toDiagnostic(state: EditorState, note: EditorNote): Diagnostic {
  const line = state.doc.line(Math.min(Math.max(1, note.line), state.doc.lines));
  const from = Math.min(line.to, line.from + Math.max(0, note.column - 1));
  return { from, to: Math.max(from, line.to), severity: note.severity, message: note.message };
}
