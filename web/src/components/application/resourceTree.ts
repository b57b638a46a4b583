/**
 * Resources with parents → a tree, and the tree as the graph that is drawn. In: the flat list of the API. Out: nodes
 * and edges. Many leaves of one kind under one parent (the pods of a large deployment) are drawn as one node.
 */
import type { ResourceNode } from '../../api/types';

export interface TreeNode {
  id: string;
  resource: ResourceNode;
  children: TreeNode[];
}

export type GraphNode =
  | { kind: 'application'; id: string }
  | { kind: 'resource'; id: string; resource: ResourceNode }
  | { kind: 'group'; id: string; resourceKind: string; members: ResourceNode[] };

export interface Graph {
  nodes: GraphNode[];
  edges: { from: string; to: string }[];
}

export const ROOT = 'application';
/** More leaves of one kind than this under one parent become a group. */
const GROUP_ABOVE = 6;

export function idOf(resource: ResourceNode): string {
  return resource.uid || [resource.group, resource.kind, resource.namespace, resource.name].join('/');
}

/** A resource whose parent is not in the list is drawn at the top: it must not vanish because a report was partial. */
export function buildTree(resources: ResourceNode[]): TreeNode[] {
  const nodes = new Map<string, TreeNode>();
  for (const resource of resources) nodes.set(idOf(resource), { id: idOf(resource), resource, children: [] });
  const roots: TreeNode[] = [];
  for (const node of nodes.values()) {
    const parent = node.resource.parentUid ? nodes.get(node.resource.parentUid) : undefined;
    if (parent && !isAncestor(node, parent, nodes)) parent.children.push(node);
    else roots.push(node);
  }
  return roots;
}

/** Owner references come from outside; a loop in them must not hang the page. */
function isAncestor(node: TreeNode, of: TreeNode, nodes: Map<string, TreeNode>): boolean {
  const seen = new Set<string>();
  for (
    let at: TreeNode | undefined = of;
    at && !seen.has(at.id);
    at = nodes.get(at.resource.parentUid ?? '')
  ) {
    if (at.id === node.id) return true;
    seen.add(at.id);
  }
  return false;
}

/** Depth first, with the depth: the order of the table. */
export function flatten(roots: TreeNode[], depth = 0): { node: TreeNode; depth: number }[] {
  return roots.flatMap((node) => [{ node, depth }, ...flatten(node.children, depth + 1)]);
}

export function toGraph(roots: TreeNode[], expanded: ReadonlySet<string>): Graph {
  const graph: Graph = { nodes: [{ kind: 'application', id: ROOT }], edges: [] };
  addChildren(graph, ROOT, roots, expanded);
  return graph;
}

function addChildren(
  graph: Graph,
  parent: string,
  children: TreeNode[],
  expanded: ReadonlySet<string>,
): void {
  const groups = leafGroups(children);
  for (const child of children.toSorted((a, b) => byName(a.resource, b.resource))) {
    const group = child.children.length === 0 ? groups.get(child.resource.kind) : undefined;
    const groupId = `${parent}>${child.resource.kind}`;
    if (group && !expanded.has(groupId)) {
      if (!graph.nodes.some(({ id }) => id === groupId)) {
        graph.nodes.push({
          kind: 'group',
          id: groupId,
          resourceKind: child.resource.kind,
          members: group.map((member) => member.resource).toSorted(byName),
        });
        graph.edges.push({ from: parent, to: groupId });
      }
      continue;
    }
    graph.nodes.push({ kind: 'resource', id: child.id, resource: child.resource });
    graph.edges.push({ from: parent, to: child.id });
    addChildren(graph, child.id, child.children, expanded);
  }
}

/** As people count: `web-2` before `web-10`. */
const byName = (a: ResourceNode, b: ResourceNode) => a.name.localeCompare(b.name, 'en', { numeric: true });

function leafGroups(children: TreeNode[]): Map<string, TreeNode[]> {
  const byKind = new Map<string, TreeNode[]>();
  for (const child of children) {
    if (child.children.length > 0) continue;
    byKind.set(child.resource.kind, [...(byKind.get(child.resource.kind) ?? []), child]);
  }
  return new Map([...byKind].filter(([, members]) => members.length > GROUP_ABOVE));
}

/** `ConfigMap` → `ConfigMaps`, `Ingress` → `Ingresses`, `NetworkPolicy` → `NetworkPolicies`. */
export function plural(kind: string): string {
  if (/[^aeiou]y$/.test(kind)) return `${kind.slice(0, -1)}ies`;
  return /(s|x|ch|sh)$/.test(kind) ? `${kind}es` : `${kind}s`;
}

/** How many members of a group are in which state, in the API's own words: "38 Healthy, 2 Progressing". */
export function countByHealth(members: ResourceNode[]): string {
  const counts = new Map<string, number>();
  for (const { health } of members) {
    if (health) counts.set(health, (counts.get(health) ?? 0) + 1);
  }
  return [...counts].map(([health, count]) => `${count} ${health}`).join(', ');
}
