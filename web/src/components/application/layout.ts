/**
 * Places for a tree's nodes, left to right. In: a graph in which every node but the first hangs on one other, owners before what they
 * own. Out: the same nodes with coordinates. Each node stands in the middle of what hangs on it; takes a moment for thousands.
 */
import type { Graph, GraphNode } from './resourceTree';

export const NODE_WIDTH = 210;
export const NODE_HEIGHT = 62;
const BESIDE = 44;
const BETWEEN = 14;
/** Families stand a little apart. */
const APART = 8;
const MARGIN = 8;

export interface Placed {
  node: GraphNode;
  x: number;
  y: number;
}

export function layout({ nodes, edges }: Graph): Placed[] {
  const owner = new Map(edges.map(({ from, to }) => [to, from]));
  const depth = new Map<string, number>();
  const owns = new Set<string>();
  for (const { id } of nodes) {
    const from = owner.get(id);
    depth.set(id, from === undefined ? 0 : (depth.get(from) ?? 0) + 1);
    if (from !== undefined) owns.add(from);
  }
  // Leaves from above to below, in the order of the graph, which goes to the bottom of each branch first.
  const y = new Map<string, number>();
  let next = MARGIN;
  let before: string | undefined;
  for (const { id } of nodes) {
    if (owns.has(id)) continue;
    if (before !== undefined && owner.get(before) !== owner.get(id)) next += APART;
    y.set(id, next);
    next += NODE_HEIGHT + BETWEEN;
    before = id;
  }
  // Owners in the middle, from the last to the first: what they own is placed by then.
  const range = new Map<string, { top: number; bottom: number }>();
  for (const { id } of nodes.toReversed()) {
    const own = range.get(id);
    const at = own ? (own.top + own.bottom) / 2 : (y.get(id) ?? MARGIN);
    y.set(id, at);
    const from = owner.get(id);
    if (from === undefined) continue;
    const { top, bottom } = range.get(from) ?? { top: at, bottom: at };
    range.set(from, { top: Math.min(top, at), bottom: Math.max(bottom, at) });
  }
  return nodes.map((node) => ({
    node,
    x: MARGIN + (depth.get(node.id) ?? 0) * (NODE_WIDTH + BESIDE),
    y: y.get(node.id) ?? MARGIN,
  }));
}
