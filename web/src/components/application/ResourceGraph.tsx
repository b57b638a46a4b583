import '@xyflow/react/dist/base.css';
import {
  Background,
  Controls,
  Handle,
  Position,
  ReactFlow,
  type Edge,
  type Node,
  type NodeProps,
} from '@xyflow/react';
import { useMemo, useState } from 'react';
import type { Application } from '../../api/types';
import { Layers } from '../../ui/icons';
import { ToneIcon } from '../../ui/Status';
import { healthTone, syncTone } from '../tones';
import { layout, NODE_HEIGHT, NODE_WIDTH } from './layout';
import styles from './ResourceGraph.module.css';
import { buildTree, countByHealth, ROOT, toGraph, type GraphNode } from './resourceTree';

interface ResourceGraphProps {
  application: Application;
  selected: string | undefined;
  onSelect: (id: string | undefined) => void;
}

type FlowNode = Node<{ node: GraphNode; application: Application }, 'card'>;

const nodeTypes = { card: Card };

/** What the application declares and what came of it, as a picture. The table shows the same for reading aloud. */
export function ResourceGraph({ application, selected, onSelect }: ResourceGraphProps) {
  const [expanded, setExpanded] = useState<ReadonlySet<string>>(new Set());
  const { nodes, edges, height } = useMemo(() => {
    const graph = toGraph(buildTree(application.resources ?? []), expanded);
    const placed = layout(graph);
    return {
      height: Math.max(...placed.map(({ y }) => y)) + NODE_HEIGHT,
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
  }, [application, expanded]);
  const drawn = useMemo(
    () => nodes.map((node) => ({ ...node, selected: node.id === selected })),
    [nodes, selected],
  );

  const open = (node: GraphNode) => {
    if (node.kind === 'group') setExpanded((before) => new Set([...before, node.id]));
    else onSelect(node.id === ROOT ? undefined : node.id);
  };

  return (
    <div className={styles.frame} style={{ ['--graph-height' as string]: `${height + 48}px` }}>
      <ReactFlow<FlowNode>
        nodes={drawn}
        edges={edges}
        nodeTypes={nodeTypes}
        fitView
        fitViewOptions={{ maxZoom: 1, padding: 0.08 }}
        minZoom={0.15}
        maxZoom={1.5}
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
        <Controls showInteractive={false} />
      </ReactFlow>
    </div>
  );
}

function labelOf(node: GraphNode, application: Application): string {
  switch (node.kind) {
    case 'application':
      return `Application ${application.name}, ${application.syncStatus}, ${application.healthStatus}`;
    case 'group':
      return `${node.members.length} ${node.resourceKind}, ${countByHealth(node.members)}. Press Enter to show each`;
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
          <span className={styles.name}>{node.members.length} of them</span>
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
