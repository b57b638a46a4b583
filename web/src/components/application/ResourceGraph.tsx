import '@xyflow/react/dist/base.css';
import {
  Background,
  ControlButton,
  Controls,
  Handle,
  Position,
  ReactFlow,
  type Edge,
  type Node,
  type NodeProps,
  useReactFlow,
  useStore,
} from '@xyflow/react';
import { useEffect, useMemo, useState } from 'react';
import type { Application } from '../../api/types';
import { ChevronUp, Layers } from '../../ui/icons';
import { ToneIcon } from '../../ui/Status';
import { healthTone, syncTone } from '../tones';
import { layout, NODE_HEIGHT, NODE_WIDTH } from './layout';
import styles from './ResourceGraph.module.css';
import { countByHealth, idOf, plural, ROOT, toGraph, type GraphNode, type TreeNode } from './resourceTree';

interface ResourceGraphProps {
  application: Application;
  /** What of it is drawn. */
  tree: TreeNode[];
  selected: string | undefined;
  onSelect: (id: string | undefined) => void;
}

type FlowNode = Node<{ node: GraphNode; application: Application }, 'card'>;

const nodeTypes = { card: Card };

/** So few are all drawn: a screen reader and the keyboard reach every one. */
const DRAWN_WHOLE = 150;

/** What the application declares and what came of it, as a picture. The table shows the same for reading aloud. */
export function ResourceGraph({ application, tree, selected, onSelect }: ResourceGraphProps) {
  const [expanded, setExpanded] = useState<ReadonlySet<string>>(new Set());
  // The first member of the group that was unfolded last.
  const [opened, setOpened] = useState<string>();
  const { nodes, edges, height } = useMemo(() => {
    const graph = toGraph(tree, expanded);
    const placed = layout(graph);
    return {
      height: placed.reduce((lowest, { y }) => Math.max(lowest, y), 0) + NODE_HEIGHT,
      nodes: placed.map(({ node, x, y }): FlowNode => ({
        id: node.id,
        type: 'card',
        position: { x, y },
        width: NODE_WIDTH,
        height: NODE_HEIGHT,
        data: { node, application },
        ariaLabel: labelOf(node, application),
      })),
      edges: graph.edges.map(({ from, to }): Edge => ({ id: `${from}->${to}`, source: from, target: to })),
    };
  }, [application, tree, expanded]);
  const drawn = useMemo(
    () => nodes.map((node) => ({ ...node, selected: node.id === selected })),
    [nodes, selected],
  );

  const open = (node: GraphNode) => {
    if (node.kind !== 'group') return onSelect(node.id === ROOT ? undefined : node.id);
    setExpanded((before) => new Set([...before, node.id]));
    const [first] = node.members;
    setOpened(first && idOf(first));
  };

  return (
    <div className={styles.frame} style={{ ['--graph-height' as string]: `${height + 48}px` }}>
      <ReactFlow<FlowNode>
        nodes={drawn}
        edges={edges}
        nodeTypes={nodeTypes}
        fitView
        // Never so small that nobody can read it: on a narrow screen one moves around instead.
        fitViewOptions={{ minZoom: 0.6, maxZoom: 1, padding: 0.08 }}
        minZoom={0.15}
        maxZoom={1.5}
        // Thousands of cards are not drawn at once.
        onlyRenderVisibleElements={nodes.length > DRAWN_WHOLE}
        nodesDraggable={false}
        nodesConnectable={false}
        edgesFocusable={false}
        // The page scrolls with the wheel; the buttons and Ctrl with the wheel zoom.
        zoomOnScroll={false}
        preventScrolling={false}
        onNodeClick={(_, node) => open(node.data.node)}
        onPaneClick={() => onSelect(undefined)}
        onKeyDown={(event) => {
          const id = (event.target as HTMLElement).dataset['id'];
          const node = nodes.find((each) => each.id === id);
          if (node && (event.key === 'Enter' || event.key === ' ')) open(node.data.node);
        }}
        proOptions={{ hideAttribution: true }}
      >
        <Background gap={18} color="var(--line)" />
        <Controls showInteractive={false}>
          {expanded.size > 0 && (
            <ControlButton
              title="Collapse groups"
              aria-label="Collapse groups"
              onClick={() => setExpanded(new Set())}
            >
              <ChevronUp />
            </ControlButton>
          )}
        </Controls>
        <KeepInSight id={selected ?? opened} />
      </ReactFlow>
    </div>
  );
}

/**
 * Moves the picture so that one node is in it: the panel of details takes room beside the graph, and what was clicked must
 * not be what leaves the picture.
 */
function KeepInSight({ id }: { id: string | undefined }) {
  const flow = useReactFlow();
  const width = useStore((state) => state.width);
  const height = useStore((state) => state.height);
  useEffect(() => {
    const node = id ? flow.getNode(id) : undefined;
    if (!node || width === 0) return;
    const { x, y, zoom } = flow.getViewport();
    const left = node.position.x * zoom + x;
    const top = node.position.y * zoom + y;
    const inside =
      left >= 0 && top >= 0 && left + NODE_WIDTH * zoom <= width && top + NODE_HEIGHT * zoom <= height;
    if (inside) return;
    const centre = { x: node.position.x + NODE_WIDTH / 2, y: node.position.y + NODE_HEIGHT / 2 };
    void flow.setCenter(centre.x, centre.y, { zoom });
  }, [flow, id, width, height]);
  return null;
}

function labelOf(node: GraphNode, application: Application): string {
  switch (node.kind) {
    case 'application':
      return `Application ${application.name}, ${application.syncStatus}, ${application.healthStatus}`;
    case 'group':
      return `${node.members.length} ${plural(node.resourceKind)}, ${countByHealth(node.members)}. Press Enter to show each`;
    case 'resource': {
      const { kind, name, status, health } = node.resource;
      return [`${kind} ${name}`, status, health].filter(Boolean).join(', ');
    }
  }
}

function Card({ data, selected }: NodeProps<FlowNode>) {
  return (
    <div className={styles.card} data-kind={data.node.kind} data-selected={selected || undefined}>
      <Handle type="target" position={Position.Left} className={styles.handle ?? ''} />
      <CardBody node={data.node} application={data.application} />
      <Handle type="source" position={Position.Right} className={styles.handle ?? ''} />
    </div>
  );
}

function CardBody({ node, application }: { node: GraphNode; application: Application }) {
  switch (node.kind) {
    case 'application':
      return (
        <>
          <span className={styles.kind}>
            <Layers /> Application
          </span>
          <span className={styles.name}>{application.name}</span>
          <Signs status={application.syncStatus} health={application.healthStatus} />
        </>
      );
    case 'group':
      return (
        <>
          <span className={styles.kind}>{node.resourceKind}</span>
          <span className={styles.name}>
            {node.members.length} {plural(node.resourceKind)}
          </span>
          <span className={styles.info}>{countByHealth(node.members)}</span>
        </>
      );
    case 'resource': {
      const { kind, name, info, status, health, requiresPruning } = node.resource;
      return (
        <>
          <span className={styles.kind}>
            {kind}
            {requiresPruning && <span className={styles.prune}>to be pruned</span>}
          </span>
          <span className={styles.name} title={name}>
            {name}
          </span>
          {info && (
            <span className={styles.info} title={info}>
              {info}
            </span>
          )}
          <Signs status={status} health={health} />
        </>
      );
    }
  }
}

function Signs({
  status,
  health,
}: {
  status?: string | null | undefined;
  health?: string | null | undefined;
}) {
  return (
    <span className={styles.signs}>
      {status && (
        <span title={status}>
          <ToneIcon tone={syncTone(status)} />
        </span>
      )}
      {health && (
        <span title={health}>
          <ToneIcon tone={healthTone(health)} />
        </span>
      )}
    </span>
  );
}
