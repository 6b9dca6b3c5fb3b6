/** The search over names and values of one extension. */

import { signal } from '@preact/signals';
import { read, request } from '../data/api.ts';
import { type Json, Obj, preview, print } from '../data/json.ts';
import { feedState, onChange } from '../data/live.ts';
import type { Character, Chat, Instance } from '../data/records.ts';
import { errorText } from '../data/resource.ts';
import type { Node } from './tree.ts';

const HINT = 60;
const WAIT_MS = 150;

interface Entry {
  node: Node;
  /** The text that is searched, in lower case. */
  text: string;
}

export const found = signal<Node[]>([]);
/** How far the search is, in words; empty when it has ended. */
export const searching = signal('');

let entries: Entry[] = [];
let entriesOf = '';
// Findings may be out of date after any change.
onChange(() => {
  entriesOf = '';
});

/** Search an extension for texts that have all words; return what ends the search. */
export function search(extension: string, query: string): () => void {
  let over = false;
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length || !extension) {
    found.value = [];
    searching.value = '';
    return () => undefined;
  }
  searching.value = 'Searching…';
  const timer = setTimeout(async () => {
    try {
      // Without a feed nothing tells that the entries are out of date.
      if (entriesOf !== extension || feedState.value !== 'live') {
        entries = await readEntries(extension);
        entriesOf = extension;
      }
      if (over) return;
      found.value = matching(entries, words);
      searching.value = '';
    } catch (error) {
      if (!over) searching.value = errorText(error);
    }
  }, WAIT_MS);
  return () => {
    over = true;
    clearTimeout(timer);
  };
}

export function matching(all: Entry[], words: string[]): Node[] {
  return all.filter((each) => words.every((word) => each.text.includes(word))).map((each) => each.node);
}

async function readEntries(extension: string): Promise<Entry[]> {
  const [characters, instances, chats, values] = await Promise.all([
    read<Character[]>('characters', extension),
    read<Instance[]>('instances', extension),
    read<Chat[]>('chats', extension),
    request('GET', 'export?format=json', { extension }),
  ]);
  const made: Entry[] = [];
  const add = (kind: Node['kind'], id: string, key: string | null, label: string, hint: string, text: string): void => {
    const holder = kind === 'key' ? '' : kind;
    made.push({
      node: {
        id: `${kind}/${id}/${key ?? ''}/${made.length}`,
        kind,
        label,
        hint,
        view: { extension, kind: holder, id, key },
        opens: false,
      },
      text: text.toLowerCase(),
    });
  };
  for (const each of chats) add('chat', each.chatId, null, each.chatId, 'chat', each.chatId);
  for (const each of characters)
    add('character', each.id, null, each.name || each.id, 'character', `${each.name ?? ''} ${each.id}`);
  const names = new Map(characters.map((each) => [each.id, each.name || each.id]));
  const owners = new Map(
    instances.map(({ id, characterId, chatId }) => {
      const character = names.get(characterId) ?? characterId;
      return [id, chatId === null ? `of ${character}` : `of ${character} in ${chatId}`];
    }),
  );
  for (const each of instances) {
    const owner = owners.get(each.id) ?? '';
    add('instance', each.id, null, each.name || each.id, owner, `${each.name ?? ''} ${each.id}`);
  }
  for (const row of values.json as Json[]) {
    if (!(row instanceof Obj)) continue;
    const space = row.get('space');
    if (space !== 'instance' && space !== 'chat') continue;
    const id = String(row.get(space === 'instance' ? 'instanceId' : 'chatId'));
    const key = String(row.get('key'));
    const value = row.get('value') ?? null;
    add(
      'key',
      id,
      key,
      key,
      `${preview(value, HINT)} · ${space === 'chat' ? `chat ${id}` : `${id} ${owners.get(id) ?? ''}`}`,
      `${key} ${typeof value === 'string' ? value : print(value)}`,
    );
    const last = made[made.length - 1] as Entry;
    last.node.view = { extension, kind: space, id, key };
  }
  return made;
}
