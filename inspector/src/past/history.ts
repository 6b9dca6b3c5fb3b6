/** Lists of changes: what they say, grouped the way a person thinks of them. */

import { type Json, Num } from '../data/json.ts';
import type { HistoryItem } from '../data/records.ts';

export interface Group {
  revision: number;
  at: string;
  actor: string;
  items: HistoryItem[];
}

/** Put the changes of one revision together: a bulk change is shown as one. */
export function byRevision(items: HistoryItem[]): Group[] {
  const groups: Group[] = [];
  for (const item of items) {
    const last = groups[groups.length - 1];
    if (last?.revision === item.revision) last.items.push(item);
    else groups.push({ revision: item.revision, at: item.at, actor: item.actor, items: [item] });
  }
  return groups;
}

export interface Step {
  /** The moment as `at` of a request names it. */
  at: string;
  time: string;
}

/** Return the moments that changes lead through, the oldest first: the revisions and the live messages. */
export function stepsOf(items: HistoryItem[]): { revisions: Step[]; messages: Step[] } {
  const revisions = new Map<string, string>();
  const messages = new Map<string, string>();
  for (const each of [...items].reverse()) {
    revisions.set(String(each.revision), each.at);
    if (each.anchor && each.live) messages.set(`message:${each.anchor.messageId}`, each.at);
  }
  const list = (found: Map<string, string>): Step[] => [...found].map(([at, time]) => ({ at, time }));
  return {
    revisions: list(revisions).sort((one, other) => Number(one.at) - Number(other.at)),
    messages: list(messages),
  };
}

/** Return true if changes, the newest first, go back as far as a moment. */
export function reaches(items: HistoryItem[], at: string): boolean {
  if (at.startsWith('message:')) return items.some((each) => each.live && `message:${each.anchor?.messageId}` === at);
  const oldest = items[items.length - 1];
  return !Number(at) || (oldest !== undefined && oldest.revision <= Number(at));
}

export interface Place {
  messageId: string;
  swipe: string;
  live: boolean;
  items: HistoryItem[];
}

/** Put changes together by the message and swipe they were made at, in the order of the story. */
export function byPlace(items: HistoryItem[]): { places: Place[]; elsewhere: HistoryItem[] } {
  const places = new Map<string, Place>();
  const elsewhere: HistoryItem[] = [];
  // The newest come first, also among the changes of one revision.
  for (const item of [...items].reverse()) {
    if (!item.anchor) {
      // A derived change is what came of a swipe; what a person did is told.
      if (item.op !== 'reconcile' && item.op !== 'branch') elsewhere.push(item);
      continue;
    }
    const { messageId, swipe } = item.anchor;
    const name = JSON.stringify([messageId, swipe]);
    const place = places.get(name) ?? { messageId, swipe, live: false, items: [] };
    place.items.push(item);
    place.live ||= item.live;
    places.set(name, place);
  }
  return { places: [...places.values()], elsewhere };
}

/** Return the value of a key after a change; undefined where it is absent, or the change has no effect. */
export function valueAfter(item: HistoryItem): Json | undefined {
  return item.after;
}

/** True for a change that had an effect on the value. */
export function counts(item: HistoryItem): boolean {
  return item.live && !item.superseded && ('after' in item || 'before' in item);
}

export interface Line {
  revisions: number[];
  /** Numbers; or where values are others, the index of each in `names`. */
  heights: (number | null)[];
  names: Json[] | null;
}

/** Return the course of a key as a line: of numbers, or of steps between its values. */
export function lineOf(items: HistoryItem[], text: (value: Json) => string): Line {
  const told = items.filter(counts).sort((one, other) => one.revision - other.revision);
  const values = told.map(valueAfter);
  const revisions = told.map((each) => each.revision);
  const present = values.filter((each) => each !== undefined);
  if (present.length > 0 && present.every((each) => each instanceof Num)) {
    return { revisions, heights: values.map((each) => (each instanceof Num ? Number(each.text) : null)), names: null };
  }
  const known = new Map<string, number>();
  const names: Json[] = [];
  const heights = values.map((each) => {
    if (each === undefined) return null;
    const name = text(each);
    let at = known.get(name);
    if (at === undefined) {
      at = names.length;
      known.set(name, at);
      names.push(each);
    }
    return at;
  });
  return { revisions, heights, names };
}

/** Describe a change in words. */
export function deed(item: HistoryItem): string {
  const words: Record<string, string> = {
    set: 'set',
    remove: 'removed',
    increment: 'added to',
    append: 'appended',
    addToSet: 'added to the list',
    pull: 'taken from the list',
    merge: 'merged',
    patch: 'patched',
    reconcile: 'followed the story',
    restore: 'restored',
    branch: 'came with the branch',
    create: 'created',
    delete: 'deleted',
  };
  return words[item.op] ?? item.op.replaceAll('_', ' ');
}
