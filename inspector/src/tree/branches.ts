/** Reads what stands below a node of the tree. */

import { read, request, seg } from '../data/api.ts';
import { Obj, preview } from '../data/json.ts';
import type { Character, Chat, Extension, Instance } from '../data/records.ts';
import type { Node } from './tree.ts';

const HINT = 48;

export function extensionNode(each: Extension): Node {
  const sound = each.status === 'ok' || each.status === 'verifying';
  return {
    id: `e:${each.id}`,
    kind: 'extension',
    label: each.title || each.id,
    hint: sound ? (each.keys === undefined ? '' : `${each.keys.toLocaleString('en')} keys`) : each.status,
    view: { extension: each.id },
    opens: sound,
  };
}

/** Return what stands below a node; the id of a node says what it is. */
export async function childrenOf(node: Node): Promise<Node[]> {
  const extension = node.view?.extension ?? '';
  if (node.kind === 'extension') {
    const [characters, chats] = await Promise.all([
      read<Character[]>('characters', extension),
      read<Chat[]>('chats', extension),
    ]);
    return [
      group(node, 'chats', 'Chats', chats.length, extension),
      group(node, 'characters', 'Characters', characters.length, extension),
    ];
  }
  if (node.kind === 'group' && node.id.endsWith('/characters')) {
    const [characters, instances] = await Promise.all([
      read<Character[]>('characters', extension),
      read<Instance[]>('instances', extension),
    ]);
    const counts = new Map<string, number>();
    for (const each of instances) counts.set(each.characterId, (counts.get(each.characterId) ?? 0) + 1);
    return characters.map((each) => ({
      id: `${node.id}/${each.id}`,
      kind: 'character',
      label: each.name || each.id,
      hint: each.name && each.name !== each.id ? each.id : '',
      view: { extension, kind: 'character', id: each.id },
      opens: (counts.get(each.id) ?? 0) > 0,
    }));
  }
  if (node.kind === 'group') {
    const chats = await read<Chat[]>('chats', extension);
    return chats.map((each) => ({
      id: `${node.id}/${each.chatId}`,
      kind: 'chat',
      label: each.chatId,
      hint: each.parent ? 'branch' : '',
      view: { extension, kind: 'chat', id: each.chatId },
      opens: true,
    }));
  }
  const id = node.view?.id ?? '';
  if (node.kind === 'character') {
    const found = await read<Instance[]>(`instances?characterId=${encodeURIComponent(id)}`, extension);
    return found.map((each) => instanceNode(node, each, extension));
  }
  if (node.kind === 'chat') {
    const [found, keys] = await Promise.all([
      read<Instance[]>(`instances?chatId=${encodeURIComponent(id)}`, extension),
      keyNodes(node, `chats/${seg(id)}/data`, extension, 'chat', id),
    ]);
    return [...found.map((each) => instanceNode(node, each, extension)), ...keys];
  }
  if (node.kind === 'instance') return keyNodes(node, `instances/${seg(id)}/data`, extension, 'instance', id);
  return [];
}

function group(parent: Node, name: string, label: string, count: number, extension: string): Node {
  return {
    id: `${parent.id}/${name}`,
    kind: 'group',
    label,
    hint: count.toLocaleString('en'),
    view: { extension },
    opens: count > 0,
  };
}

function instanceNode(parent: Node, each: Instance, extension: string): Node {
  return {
    id: `${parent.id}/i:${each.id}`,
    kind: 'instance',
    label: each.name || each.id,
    hint: parent.kind === 'chat' ? each.characterId : (each.chatId ?? ''),
    view: { extension, kind: 'instance', id: each.id },
    opens: true,
  };
}

async function keyNodes(parent: Node, path: string, extension: string, kind: string, id: string): Promise<Node[]> {
  const answer = await request('GET', path, { extension });
  const found = answer.json;
  if (!(found instanceof Obj)) return [];
  return found.entries.map(([key, value]) => ({
    id: `${parent.id}/k:${key}`,
    kind: 'key',
    label: key,
    hint: preview(value, HINT),
    view: { extension, kind, id, key },
    opens: false,
  }));
}
