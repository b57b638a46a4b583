import { MergeView } from '@codemirror/merge';
import { EditorState } from '@codemirror/state';
import { EditorView, lineNumbers } from '@codemirror/view';
import { useEffect, useRef } from 'react';
import { yamlLook } from './codemirror';

interface SideBySideProps {
  before: string;
  after: string;
  beforeLabel: string;
  afterLabel: string;
}

/** Two texts next to each other, equal stretches folded away. */
export function SideBySide({ before, after, beforeLabel, afterLabel }: SideBySideProps) {
  const parent = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!parent.current) return;
    const side = (doc: string, label: string) => ({
      doc,
      extensions: [
        yamlLook,
        lineNumbers(),
        EditorState.readOnly.of(true),
        EditorView.editable.of(false),
        EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
      ],
    });
    const view = new MergeView({
      parent: parent.current,
      a: side(before, beforeLabel),
      b: side(after, afterLabel),
      collapseUnchanged: { margin: 4, minSize: 8 },
      gutter: true,
    });
    return () => view.destroy();
  }, [before, after, beforeLabel, afterLabel]);
  return <div ref={parent} />;
}
