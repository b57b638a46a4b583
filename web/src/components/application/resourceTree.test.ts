import { describe, expect, test } from 'vitest';
import type { ResourceNode } from '../../api/types';
import { layout, NODE_HEIGHT, NODE_WIDTH } from './layout';
import { buildTree, countByHealth, countsOf, filterTree, flatten, ROOT, toGraph } from './resourceTree';

const node = (kind: string, name: string, parent = '', health?: string): ResourceNode => ({
  group: '',
  version: 'v1',
  kind,
  namespace: 'demo',
  name,
  uid: `${kind}/${name}`,
  parentUid: parent,
  ...(health ? { health } : {}),
});

const deployment = [
  node('Deployment', 'web'),
  node('ReplicaSet', 'web-1', 'Deployment/web'),
  node('Pod', 'web-1-a', 'ReplicaSet/web-1', 'Healthy'),
  node('Service', 'web'),
];
const pods = (count: number) =>
  Array.from({ length: count }, (_, index) =>
    node('Pod', `p${index}`, 'ReplicaSet/web-1', index < 2 ? 'Progressing' : 'Healthy'),
  );

describe('the tree', () => {
  test('children stand under their owners, whatever the order of the report', () => {
    const rows = flatten(buildTree(deployment.toReversed()));
    expect(rows.map(({ node: { id }, depth }) => `${depth} ${id}`)).toEqual([
      '0 Service/web',
      '0 Deployment/web',
      '1 ReplicaSet/web-1',
      '2 Pod/web-1-a',
    ]);
  });

  test('a resource whose owner is unknown stays visible', () => {
    expect(buildTree([node('Pod', 'lost', 'ReplicaSet/gone')])).toHaveLength(1);
  });

  test('owners in a circle do not hang the page and lose nothing', () => {
    const circle = [node('A', 'a', 'B/b'), node('B', 'b', 'A/a'), node('C', 'c', 'C/c')];
    expect(flatten(buildTree(circle))).toHaveLength(3);
  });

  test('what does not run yet has no uid and is told apart by its name', () => {
    const missing = [node('Service', 'a'), node('Service', 'b')].map((each) => ({ ...each, uid: '' }));
    expect(buildTree(missing)).toHaveLength(2);
  });
});

describe('the graph', () => {
  test('many leaves of one kind are one node until they are asked for', () => {
    const tree = buildTree([...deployment.slice(0, 2), ...pods(40)]);
    const folded = toGraph(tree, new Set());
    const group = folded.nodes.find((each) => each.kind === 'group');
    expect(folded.nodes).toHaveLength(4);
    expect(group?.kind === 'group' && group.members).toHaveLength(40);
    expect(group?.kind === 'group' && countByHealth(group.members)).toBe('2 Progressing, 38 Healthy');
    expect(toGraph(tree, new Set([group?.id ?? ''])).nodes).toHaveLength(43);
  });

  test('a few leaves are drawn each', () => {
    expect(toGraph(buildTree([...deployment.slice(0, 2), ...pods(6)]), new Set()).nodes).toHaveLength(9);
  });

  test('every node hangs on the application', () => {
    const { nodes, edges } = toGraph(buildTree(deployment), new Set());
    const reached = new Set([ROOT]);
    for (const { from, to } of edges) if (reached.has(from)) reached.add(to);
    expect(nodes.every(({ id }) => reached.has(id))).toBe(true);
  });
});

describe('the layout', () => {
  const placed = layout(toGraph(buildTree([...deployment, ...pods(5)]), new Set()));

  test('no two nodes overlap', () => {
    for (const a of placed) {
      for (const b of placed) {
        if (a === b) continue;
        expect(Math.abs(a.x - b.x) >= NODE_WIDTH || Math.abs(a.y - b.y) >= NODE_HEIGHT).toBe(true);
      }
    }
  });

  test('children stand to the right of their owners', () => {
    const x = (id: string) => placed.find(({ node: { id: other } }) => other === id)?.x ?? NaN;
    expect(x(ROOT)).toBeLessThan(x('Deployment/web'));
    expect(x('Deployment/web')).toBeLessThan(x('ReplicaSet/web-1'));
    expect(x('ReplicaSet/web-1')).toBeLessThan(x('Pod/web-1-a'));
  });
});

describe('the filter', () => {
  const tree = buildTree([...deployment.slice(0, 2), ...pods(4), node('Service', 'web', '', 'Healthy')]);
  const shown = (filter: Parameters<typeof filterTree>[1]) =>
    flatten(filterTree(tree, filter)).map(({ node: { id }, depth }) => `${depth} ${id}`);

  test('what fits stays with its owners, in its order', () => {
    expect(shown({ health: 'Progressing' })).toEqual([
      '0 Deployment/web',
      '1 ReplicaSet/web-1',
      '2 Pod/p0',
      '2 Pod/p1',
    ]);
    expect(shown({ find: 'POD/P3' })).toEqual(['0 Deployment/web', '1 ReplicaSet/web-1', '2 Pod/p3']);
    expect(shown({ find: 'service', health: 'Healthy,Degraded' })).toEqual(['0 Service/web']);
  });

  test('nothing asked for is all, and what nobody has is nothing', () => {
    expect(shown({})).toHaveLength(7);
    expect(shown({ find: ' ', health: '' })).toHaveLength(7);
    expect(shown({ sync: 'OutOfSync' })).toEqual([]);
  });

  test('states are counted in their own words', () => {
    expect(countsOf(pods(4), ({ health }) => health)).toEqual({ Progressing: 2, Healthy: 2 });
  });
});

describe('five thousand resources', () => {
  const many = [
    ...Array.from({ length: 500 }, (_, at) => node('Deployment', `d${at}`)),
    ...Array.from({ length: 500 }, (_, at) => node('ReplicaSet', `r${at}`, `Deployment/d${at}`)),
    ...Array.from({ length: 4000 }, (_, at) => node('Pod', `p${at}`, `ReplicaSet/r${at % 500}`, 'Healthy')),
  ];

  test('are a tree, a list, a picture and a search without a pause that one sees', () => {
    const before = performance.now();
    const tree = buildTree(many);
    const every = new Set(many.map((each) => `ReplicaSet/${each.name}>Pod`));
    const placed = layout(toGraph(tree, every));
    const found = flatten(filterTree(tree, { find: 'pod/p1999' }));
    const took = performance.now() - before;
    expect(placed).toHaveLength(5001);
    expect(new Set(placed.map(({ x, y }) => `${x} ${y}`)).size).toBe(5001);
    expect(found).toHaveLength(3);
    // A fraction of a second, also on a busy machine; work for each pair of nodes takes minutes.
    expect(took, `${took} ms`).toBeLessThan(5000);
    expect(flatten(tree)).toHaveLength(5000);
  });

  test('also when each owns the next', () => {
    const chain = Array.from({ length: 5000 }, (_, at) => node('A', `${at}`, at ? `A/${at - 1}` : ''));
    expect(flatten(buildTree(chain)).at(-1)?.depth).toBe(4999);
  });
});
