/** The tree of everything an extension keeps: which rows there are, and how keys walk them. */

import type { View } from '../data/address.ts';

export type Kind = 'extension' | 'group' | 'character' | 'instance' | 'chat' | 'key' | 'note';

export interface Node {
  /** Unique in the tree: an instance stands below its character and below its chat. */
  id: string;
  kind: Kind;
  label: string;
  /** A short text behind the label: a count, or the beginning of a value. */
  hint: string;
  view: Partial<View> | null;
  /** True if it may have something below it. */
  opens: boolean;
}

export interface Row {
  node: Node;
  depth: number;
  open: boolean;
  /** Its position among its siblings, from 1, and their number, for screen readers. */
  position: number;
  siblings: number;
  parent: number;
}

export type Children = ReadonlyMap<string, Node[]>;

/** Return the rows that are to be seen, in their order. */
export function flatten(roots: Node[], open: ReadonlySet<string>, children: Children): Row[] {
  const rows: Row[] = [];
  const add = (nodes: Node[], depth: number, parent: number): void => {
    for (let index = 0; index < nodes.length; index++) {
      const node = nodes[index] as Node;
      const isOpen = node.opens && open.has(node.id);
      rows.push({ node, depth, open: isOpen, position: index + 1, siblings: nodes.length, parent });
      if (isOpen) add(children.get(node.id) ?? [], depth + 1, rows.length - 1);
    }
  };
  add(roots, 0, -1);
  return rows;
}

export type Move = { to: number } | { toggle: number } | null;

/** Return what a key does in the tree, as in other trees: arrows walk, right opens, left closes. */
export function move(rows: Row[], at: number, key: string, page: number): Move {
  const row = rows[at];
  const last = rows.length - 1;
  const clamp = (to: number): Move => ({ to: Math.max(0, Math.min(last, to)) });
  switch (key) {
    case 'ArrowDown':
      return clamp(at + 1);
    case 'ArrowUp':
      return clamp(at < 0 ? 0 : at - 1);
    case 'PageDown':
      return clamp(at + page);
    case 'PageUp':
      return clamp(at - page);
    case 'Home':
      return clamp(0);
    case 'End':
      return clamp(last);
    case 'ArrowRight':
      if (!row?.node.opens) return null;
      return row.open ? clamp(at + 1) : { toggle: at };
    case 'ArrowLeft':
      if (!row) return null;
      if (row.open) return { toggle: at };
      return row.parent >= 0 ? { to: row.parent } : null;
    case 'Enter':
    case ' ':
      return row?.node.opens ? { toggle: at } : null;
    default:
      return null;
  }
}

/** Return the row of a view, if it is to be seen. */
export function rowOf(rows: Row[], view: View): number {
  return rows.findIndex(({ node }) => {
    const shown = node.view;
    return (
      shown !== null &&
      node.kind !== 'group' &&
      view.page === 'extension' &&
      shown.extension === view.extension &&
      (shown.kind ?? '') === view.kind &&
      (shown.id ?? '') === view.id &&
      (shown.key ?? null) === view.key
    );
  });
}
