/**
 * CodeMirror, in a shadow root: there its styles are adopted sheets, which the policy of the page
 * allows. This module and all of CodeMirror come with the first edit, not with the page.
 */

import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { json } from '@codemirror/lang-json';
import {
  bracketMatching,
  foldGutter,
  foldKeymap,
  HighlightStyle,
  indentOnInput,
  syntaxHighlighting,
} from '@codemirror/language';
import { MergeView } from '@codemirror/merge';
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search';
import { EditorState, type Extension } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';

export interface EditorHandle {
  text(): string;
  /** Put the cursor where an error is. */
  point(offset: number): void;
  destroy(): void;
}

export interface DiffHandle {
  text(): string;
  destroy(): void;
}

// The colours are those of the page: its variables reach into the shadow root.
const theme = EditorView.theme({
  '&': { color: 'var(--text)', backgroundColor: 'var(--field)', fontSize: '13.5px', maxHeight: '60vh' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55', overflow: 'auto' },
  '.cm-content': { caretColor: 'var(--accent)', padding: '8px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--accent)' },
  '.cm-gutters': { backgroundColor: 'var(--panel)', color: 'var(--faint)', border: 'none' },
  '.cm-activeLine': { backgroundColor: 'var(--hover)' },
  '.cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground': {
    backgroundColor: 'var(--selected)',
  },
  '.cm-panels': { backgroundColor: 'var(--panel)', color: 'var(--text)' },
  '.cm-panels input, .cm-panels button': {
    font: 'inherit',
    color: 'inherit',
    background: 'var(--field)',
    border: '1px solid var(--line)',
    borderRadius: '4px',
  },
  '.cm-changedLine': { backgroundColor: 'var(--changed) !important' },
  '.cm-changedText': { background: 'var(--changed-text) !important' },
});

const colours = syntaxHighlighting(
  HighlightStyle.define([
    { tag: tags.propertyName, color: 'var(--json-name)' },
    { tag: tags.string, color: 'var(--json-text)' },
    { tag: tags.number, color: 'var(--json-number)' },
    { tag: [tags.bool, tags.null], color: 'var(--json-word)' },
  ]),
);

function basics(label: string): Extension[] {
  return [
    lineNumbers(),
    foldGutter(),
    history(),
    drawSelection(),
    indentOnInput(),
    bracketMatching(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    search({ top: true }),
    json(),
    theme,
    colours,
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ 'aria-label': label }),
  ];
}

function shadow(host: HTMLElement): ShadowRoot {
  return host.shadowRoot ?? host.attachShadow({ mode: 'open' });
}

export interface EditorOptions {
  text: string;
  label: string;
  onChange: (text: string) => void;
  onSave: () => void;
}

export function mountEditor(host: HTMLElement, options: EditorOptions): EditorHandle {
  const root = shadow(host);
  const save = {
    key: 'Mod-s',
    run: () => {
      options.onSave();
      return true;
    },
  };
  const editor = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        basics(options.label),
        keymap.of([save, indentWithTab, ...searchKeymap, ...foldKeymap, ...historyKeymap, ...defaultKeymap]),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) options.onChange(update.state.doc.toString());
        }),
      ],
    }),
  });
  editor.focus();
  return {
    text: () => editor.state.doc.toString(),
    point(offset) {
      const at = Math.min(offset, editor.state.doc.length);
      const to = Math.min(at + 1, editor.state.doc.length);
      editor.dispatch({ selection: { anchor: at, head: to }, scrollIntoView: true });
      editor.focus();
    },
    destroy: () => editor.destroy(),
  };
}

export function mountDiff(
  host: HTMLElement,
  options: { before: string; after: string; editable: boolean },
): DiffHandle {
  const root = shadow(host);
  const fixed = [EditorState.readOnly.of(true), EditorView.editable.of(false)];
  const keys = keymap.of([...searchKeymap, ...historyKeymap, ...defaultKeymap]);
  const merge = new MergeView({
    root,
    parent: root,
    a: { doc: options.before, extensions: [basics('Before'), fixed] },
    b: { doc: options.after, extensions: [basics('After'), keys, options.editable ? [] : fixed] },
    collapseUnchanged: { margin: 3, minSize: 8 },
  });
  return {
    text: () => merge.b.state.doc.toString(),
    destroy: () => merge.destroy(),
  };
}
