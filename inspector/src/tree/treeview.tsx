/** The tree beside the pane. Arrow keys walk it, and the pane follows. */

import { computed, effect, signal } from '@preact/signals';
import type { CSSProperties } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { go, setQuery, view } from '../data/address.ts';
import { childrenOf, extensionNode } from './branches.ts';
import { onChange } from '../data/live.ts';
import { errorText } from '../data/resource.ts';
import { found, search, searching } from './search.ts';
import { extensions } from '../data/session.ts';
import { flatten, move, type Node, type Row, rowOf } from './tree.ts';
import { Icon } from '../parts/ui.tsx';
import { VirtualList } from '../parts/virtual.tsx';

const ROW = 30;
const PAGE = 15;
const GATHER_MS = 300;

const open = signal<ReadonlySet<string>>(new Set());
const children = signal<ReadonlyMap<string, Node[]>>(new Map());
const roots = computed(() => extensions.value.map(extensionNode));
const rows = computed(() => flatten(roots.value, open.value, children.value));
/** The id of the row that the keys start from. */
const cursor = signal('');

async function load(node: Node): Promise<void> {
  let nodes: Node[];
  try {
    nodes = await childrenOf(node);
  } catch (error) {
    nodes = [{ id: `${node.id}/!`, kind: 'note', label: errorText(error), hint: '', view: null, opens: false }];
  }
  children.value = new Map(children.value).set(node.id, nodes);
}

function toggle(row: Row): void {
  const next = new Set(open.value);
  if (row.open) next.delete(row.node.id);
  else {
    next.add(row.node.id);
    void load(row.node);
  }
  open.value = next;
}

/** Open a node, unless it is open. */
async function reveal(node: Node): Promise<void> {
  if (!children.value.has(node.id)) await load(node);
  if (!open.value.has(node.id)) open.value = new Set(open.value).add(node.id);
}

/** Read again what is open below an extension. */
async function refresh(extension: string): Promise<void> {
  const shown = rows.value.filter((row) => row.open && row.node.view?.extension === extension);
  await Promise.all(shown.map((row) => load(row.node)));
}

function select(row: Row | undefined): void {
  if (!row) return;
  cursor.value = row.node.id;
  if (row.node.view) go({ ...row.node.view, query: view.value.query.q ? { q: view.value.query.q } : {} }, 'replace');
}

// The extension that is shown is open in the tree.
effect(() => {
  const { extension } = view.value;
  const root = roots.value.find((each) => each.view?.extension === extension);
  if (root?.opens && !open.peek().has(root.id) && !children.peek().has(root.id))
    void reveal(root).then(() => revealGroups(root));
});

async function revealGroups(root: Node): Promise<void> {
  for (const each of children.value.get(root.id) ?? []) if (each.opens) await reveal(each);
}

export function Tree() {
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = onChange(() => {
      timer ??= setTimeout(() => {
        timer = undefined;
        void refresh(view.value.extension);
      }, GATHER_MS);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, []);

  const query = view.value.query.q ?? '';
  const extension = searched();
  useEffect(() => search(extension, query), [extension, query]);
  // Keys lead from the box to what is found, once the search has ended.
  const [leaving, setLeaving] = useState(false);
  const ended = !searching.value;
  useEffect(() => {
    if (!leaving || searching.value) return;
    setLeaving(false);
    if (!found.value.length) return;
    document.getElementById('found')?.focus();
    if (shownAt() < 0) pick(0, query);
  }, [leaving, ended, query]);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (!query || (event.key !== 'ArrowDown' && event.key !== 'Enter')) return;
    event.preventDefault();
    setLeaving(true);
  };

  return (
    <>
      <search class="search">
        <label class="offscreen" for="search">
          Search names and values
        </label>
        <Icon name="search" />
        <input
          id="search"
          type="search"
          placeholder="Search names and values"
          autocomplete="off"
          spellcheck={false}
          value={query}
          onInput={(event) => {
            setLeaving(false);
            setQuery({ q: event.currentTarget.value });
          }}
          onKeyDown={onKeyDown}
        />
      </search>
      {query ? <Results query={query} /> : <Rows />}
    </>
  );
}

function Rows() {
  const shown = rows.value;
  let at = shown.findIndex((row) => row.node.id === cursor.value);
  if (at < 0 || !isShown(shown[at])) {
    const of = rowOf(shown, view.value);
    if (of >= 0) at = of;
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const done = move(shown, at, event.key, PAGE);
    if (!done) return;
    event.preventDefault();
    if ('toggle' in done) toggle(shown[done.toggle] as Row);
    else select(shown[done.to]);
  };
  const row = (index: number, style: CSSProperties) => {
    const each = shown[index] as Row;
    return (
      <div
        key={each.node.id}
        id={`row-${index}`}
        role="treeitem"
        class={`row kind-${each.node.kind}`}
        aria-level={each.depth + 1}
        aria-selected={index === at}
        aria-expanded={each.node.opens ? each.open : undefined}
        aria-posinset={each.position}
        aria-setsize={each.siblings}
        style={{ ...style, paddingLeft: `${8 + each.depth * 16}px` }}
        onClick={() => select(each)}
        onDblClick={() => each.node.opens && toggle(each)}
      >
        <span
          class={`twist ${each.node.opens ? '' : 'none'} ${each.open ? 'open' : ''}`}
          onClick={(event) => {
            event.stopPropagation();
            if (each.node.opens) toggle(each);
          }}
        >
          <Icon name="chevron" />
        </span>
        <Icon name={each.node.kind} />
        <span class="label">{each.node.label}</span>
        <span class="hint">{each.node.hint}</span>
      </div>
    );
  };
  return (
    <VirtualList
      class="tree"
      count={shown.length}
      height={ROW}
      row={row}
      active={at}
      onKeyDown={onKeyDown}
      attributes={{
        role: 'tree',
        'aria-label': 'Extensions and what they keep',
        tabIndex: 0,
        'aria-activedescendant': at >= 0 ? `row-${at}` : undefined,
      }}
    />
  );
}

/** True if a row is what the pane shows; a group shows its extension. */
function isShown(row: Row | undefined): boolean {
  const now = view.value;
  const shown = row?.node.view;
  if (!shown) return row?.node.kind === 'note';
  return (
    shown.extension === now.extension &&
    (shown.kind ?? '') === now.kind &&
    (shown.id ?? '') === now.id &&
    (shown.key ?? null) === now.key
  );
}

/** Return the extension to search in: the one that is shown, or the only one. */
function searched(): string {
  const [first, ...others] = extensions.value;
  return view.value.extension || (first && !others.length ? first.id : '');
}

/** Return the place of what the pane shows among what was found. */
function shownAt(): number {
  return found.value.findIndex((each) => isShown({ node: each } as Row));
}

function pick(index: number, query: string): void {
  const each = found.value[Math.max(0, Math.min(found.value.length - 1, index))];
  if (each?.view) go({ ...each.view, query: { q: query } }, 'replace');
}

function Results({ query }: { query: string }) {
  const shown = found.value;
  const at = shownAt();
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE, PageUp: -PAGE }[event.key];
    if (!step) return;
    event.preventDefault();
    pick(at < 0 ? 0 : at + step, query);
  };
  const row = (index: number, style: CSSProperties) => {
    const each = shown[index] as Node;
    return (
      <div
        key={each.id}
        id={`found-${index}`}
        role="option"
        class={`row result kind-${each.kind}`}
        aria-selected={index === at}
        style={style}
        onClick={() => pick(index, query)}
      >
        <Icon name={each.kind} />
        <span class="label">{each.label}</span>
        <span class="hint" title={each.hint}>
          {each.hint}
        </span>
      </div>
    );
  };
  return (
    <>
      <p class="found" role="status">
        {searching.value ||
          (searched() ? `${shown.length.toLocaleString('en')} found` : 'Choose an extension to search in.')}
      </p>
      <VirtualList
        class="tree"
        count={shown.length}
        height={ROW}
        row={row}
        active={at}
        onKeyDown={onKeyDown}
        attributes={{
          id: 'found',
          role: 'listbox',
          'aria-label': 'What was found',
          tabIndex: 0,
          'aria-activedescendant': at >= 0 ? `found-${at}` : undefined,
        }}
      />
    </>
  );
}
