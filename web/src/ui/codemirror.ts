/** What every editor shares: our colours instead of the library's, and YAML. Loaded only with an editor. */
import { yaml } from '@codemirror/lang-yaml';
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import type { Extension } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { tags } from '@lezer/highlight';

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--accent)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--ok)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--run)' },
  { tag: tags.comment, color: 'var(--muted)', fontStyle: 'italic' },
  { tag: [tags.meta, tags.keyword], color: 'var(--wait)' },
]);

const look = EditorView.theme({
  '&': { fontSize: '12.5px', backgroundColor: 'var(--log-paper)', color: 'var(--log-ink)' },
  '.cm-content, .cm-gutters': { fontFamily: 'var(--mono)' },
  '.cm-content': { caretColor: 'var(--ink)' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-gutters': { backgroundColor: 'var(--surface-2)', color: 'var(--muted)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': {
    backgroundColor: 'color-mix(in srgb, var(--accent) 8%, transparent)',
  },
  '&.cm-focused': { outline: '2px solid var(--focus)', outlineOffset: '-2px' },
  '&.cm-focused .cm-selectionBackground, .cm-selectionBackground, ::selection': {
    backgroundColor: 'color-mix(in srgb, var(--accent) 30%, transparent) !important',
  },
  '.cm-changedLine': { backgroundColor: 'color-mix(in srgb, var(--run) 10%, transparent) !important' },
  '.cm-changedText': { background: 'color-mix(in srgb, var(--run) 28%, transparent) !important' },
  '.cm-deletedChunk': { backgroundColor: 'color-mix(in srgb, var(--bad) 12%, transparent) !important' },
  '.cm-collapsedLines': {
    background: 'var(--surface-2) !important',
    color: 'var(--muted) !important',
    fontFamily: 'var(--sans)',
  },
  // The library's own signs are missing from many fonts.
  '.cm-collapsedLines:before, .cm-collapsedLines:after': { content: '"⋯" !important' },
  '.cm-tooltip': { background: 'var(--surface)', border: '1px solid var(--line)', color: 'var(--ink)' },
});

export const yamlLook: Extension = [yaml(), syntaxHighlighting(colours), look];
