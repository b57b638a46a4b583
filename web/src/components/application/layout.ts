/** Places for a graph's nodes, left to right. In: a graph. Out: the same nodes with coordinates. */
import { graphlib, layout as dagreLayout } from '@dagrejs/dagre';
import type { Graph, GraphNode } from './resourceTree';

export const NODE_WIDTH = 210;
export const NODE_HEIGHT = 62;

export interface Placed {
  node: GraphNode;
  x: number;
  y: number;
}

export function layout(graph: Graph): Placed[] {
  const dagre = new graphlib.Graph();
  dagre.setGraph({ rankdir: 'LR', nodesep: 14, ranksep: 44, marginx: 8, marginy: 8 });
  dagre.setDefaultEdgeLabel(() => ({}));
  for (const node of graph.nodes) dagre.setNode(node.id, { width: NODE_WIDTH, height: NODE_HEIGHT });
  for (const edge of graph.edges) dagre.setEdge(edge.from, edge.to);
  dagreLayout(dagre);
  return graph.nodes.map((node) => {
    // The library gives centres; the canvas wants corners.
    const { x, y } = dagre.node(node.id) as { x: number; y: number };
    return { node, x: x - NODE_WIDTH / 2, y: y - NODE_HEIGHT / 2 };
  });
}
