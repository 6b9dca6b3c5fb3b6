/** Where the chats of a family stand in their graph. This module comes with the first graph. */

import { hierarchy, tree } from 'd3-hierarchy';

export interface ChatPoint {
  id: string;
  parent: string | null;
}

export interface Placed {
  id: string;
  x: number;
  y: number;
}

export interface Drawing {
  points: Placed[];
  lines: { from: Placed; to: Placed }[];
  width: number;
  height: number;
}

const ACROSS = 220;
const DOWN = 64;
const MARGIN = 24;

/** Return the positions of a root and all that branched off from it. */
export function layOut(root: string, chats: ChatPoint[]): Drawing {
  const below = new Map<string, string[]>();
  for (const each of chats) {
    if (each.parent !== null) below.set(each.parent, [...(below.get(each.parent) ?? []), each.id]);
  }
  const placed = tree<string>().nodeSize([DOWN, ACROSS])(hierarchy(root, (id) => below.get(id)));
  const nodes = placed.descendants();
  const top = Math.min(...nodes.map((each) => each.x));
  const points = new Map(nodes.map((each) => [each, { id: each.data, x: each.y + MARGIN, y: each.x - top + MARGIN }]));
  return {
    points: [...points.values()],
    lines: placed
      .links()
      .map((each) => ({ from: points.get(each.source) as Placed, to: points.get(each.target) as Placed })),
    width: Math.max(...nodes.map((each) => each.y)) + ACROSS + MARGIN,
    height: Math.max(...nodes.map((each) => each.x)) - top + DOWN + MARGIN,
  };
}
