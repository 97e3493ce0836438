import type { FunctionRow } from "./function-queries";
import { fullName } from "./function-words";

// Topics and what reads and writes them, in layers from left to right: what is written lies right of what is read.

export interface TopologyNode {
  id: string;
  kind: "topic" | "code" | "outside";
  label: string;
  /** The row of a function, source or sink. */
  row?: FunctionRow;
  x: number;
  y: number;
}
export interface TopologyEdge {
  from: string;
  to: string;
}
export interface Topology {
  nodes: TopologyNode[];
  edges: TopologyEdge[];
  width: number;
  height: number;
}

export const NODE_WIDTH = 190;
export const NODE_HEIGHT = 44;
export const ROWS_DRAWN_MAX = 40;
const ACROSS = NODE_WIDTH + 70;
const DOWN = NODE_HEIGHT + 16;
const MARGIN = 8;
const ELSEWHERE = { text: "elsewhere" };

/** The graph of these rows, laid out. A cycle ends where it would begin again. */
export function topologyOf(rows: readonly FunctionRow[]): Topology {
  const nodes = new Map<string, Omit<TopologyNode, "x" | "y">>();
  const edges: TopologyEdge[] = [];
  const put = (node: Omit<TopologyNode, "x" | "y">) => {
    nodes.set(node.id, node);
    return node.id;
  };
  for (const row of rows.slice(0, ROWS_DRAWN_MAX)) {
    const id = put({ id: `${row.component} ${fullName(row)}`, kind: "code", label: row.name, row });
    for (const topic of row.inputs)
      edges.push({ from: put({ id: topic, kind: "topic", label: topicLabel(topic) }), to: id });
    if (row.output)
      edges.push({ from: id, to: put({ id: row.output, kind: "topic", label: topicLabel(row.output) }) });
    const outside = row.connector || ELSEWHERE.text;
    if (row.component === "source")
      edges.push({ from: put({ id: `from ${id}`, kind: "outside", label: outside }), to: id });
    if (row.component === "sink")
      edges.push({ from: id, to: put({ id: `to ${id}`, kind: "outside", label: outside }) });
  }
  const layers = layersOf([...nodes.keys()], edges);
  const taken = new Map<number, number>();
  const placed = [...nodes.values()].map((node) => {
    const layer = layers.get(node.id) ?? 0;
    const position = taken.get(layer) ?? 0;
    taken.set(layer, position + 1);
    return { ...node, x: MARGIN + layer * ACROSS, y: MARGIN + position * DOWN };
  });
  return {
    nodes: placed,
    edges,
    width: Math.max(0, ...placed.map(({ x }) => x)) + NODE_WIDTH + MARGIN,
    height: Math.max(0, ...placed.map(({ y }) => y)) + NODE_HEIGHT + MARGIN,
  };
}

/** The length of the longest way to each node; in a cycle at most as many as there are nodes. */
function layersOf(ids: readonly string[], edges: readonly TopologyEdge[]): Map<string, number> {
  const layers = new Map(ids.map((id) => [id, 0]));
  for (let round = 0; round < ids.length; round += 1) {
    let isDone = true;
    for (const { from, to } of edges) {
      const least = (layers.get(from) ?? 0) + 1;
      if ((layers.get(to) ?? 0) < least && least < ids.length) {
        layers.set(to, least);
        isDone = false;
      }
    }
    if (isDone) break;
  }
  // Layers that a cycle has left empty are closed up.
  const used = [...new Set(layers.values())].sort((a, b) => a - b);
  return new Map([...layers].map(([id, layer]) => [id, used.indexOf(layer)]));
}

export function topicLabel(topic: string): string {
  return topic.replace(/^persistent:\/\//, "");
}

/** The curve from the right side of a node to the left side of another. */
export function curveOf(from: TopologyNode, to: TopologyNode): string {
  const [x1, y1] = [from.x + NODE_WIDTH, from.y + NODE_HEIGHT / 2];
  const [x2, y2] = [to.x - 6, to.y + NODE_HEIGHT / 2];
  const bend = Math.max(40, Math.abs(x2 - x1) / 2);
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

const LABEL_MAX = 24;

export function shortLabel(label: string): string {
  return label.length > LABEL_MAX ? `…${label.slice(1 - LABEL_MAX)}` : label;
}
