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
export function flatten(roots: TreeNode[]): { node: TreeNode; depth: number }[] {
  const rows: { node: TreeNode; depth: number }[] = [];
  const left = roots.map((node) => ({ node, depth: 0 })).toReversed();
  for (let row = left.pop(); row; row = left.pop()) {
    rows.push(row);
    const depth = row.depth + 1;
    left.push(...row.node.children.map((node) => ({ node, depth })).toReversed());
  }
  return rows;
}

/** What of a tree is looked for; what is not said does not count. */
export interface TreeFilter {
  /** Part of a kind or name. */
  find?: string | undefined;
  /** Several with commas. */
  health?: string | undefined;
  sync?: string | undefined;
}

const has = (states: string[] | undefined, state: string | null | undefined) =>
  !states?.length || (state ? states.includes(state) : false);

/** What fits, under the owners that it has: those stay, whatever they are. */
export function filterTree(roots: TreeNode[], { find, health, sync }: TreeFilter): TreeNode[] {
  const words = (find ?? '').trim().toLowerCase();
  const [healths, syncs] = [health, sync].map((states) => states?.split(',').filter(Boolean) ?? []);
  const fits = ({ kind, name, ...resource }: ResourceNode) =>
    `${kind}/${name}`.toLowerCase().includes(words) &&
    has(healths, resource.health) &&
    has(syncs, resource.status);
  const kept = new Map<TreeNode, TreeNode[]>();
  const top: TreeNode[] = [];
  const owner = new Map<TreeNode, TreeNode>();
  const all = flatten(roots).map(({ node }) => node);
  for (const node of all) for (const child of node.children) owner.set(child, node);
  // From below: whoever has something that fits is there before it is asked about.
  for (const node of all.toReversed()) {
    const below = kept.get(node);
    if (!below && !fits(node.resource)) continue;
    const copy = { ...node, children: (below ?? []).toReversed() };
    const above = owner.get(node);
    if (!above) top.push(copy);
    else kept.set(above, push(kept.get(above), copy));
  }
  return top.toReversed();
}

function push<T>(list: T[] | undefined, item: T): T[] {
  if (!list) return [item];
  list.push(item);
  return list;
}

/** How many there are of each, over all of them. */
export function countsOf(
  resources: ResourceNode[],
  state: (resource: ResourceNode) => string | null | undefined,
): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const resource of resources) {
    const word = state(resource);
    if (word) counts[word] = (counts[word] ?? 0) + 1;
  }
  return counts;
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
  const folded = new Set<string>();
  for (const child of children.toSorted((a, b) => byName(a.resource, b.resource))) {
    const group = child.children.length === 0 ? groups.get(child.resource.kind) : undefined;
    const groupId = `${parent}>${child.resource.kind}`;
    if (group && !expanded.has(groupId)) {
      if (!folded.has(groupId)) {
        folded.add(groupId);
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
    const same = byKind.get(child.resource.kind);
    if (same) same.push(child);
    else byKind.set(child.resource.kind, [child]);
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
