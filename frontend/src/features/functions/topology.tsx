import { Link } from "@tanstack/react-router";
import { count } from "../../lib/format";
import { parseTopicName } from "../../lib/url-state";
import { TopicLink, topicPagePath } from "../../shared/topic-link";
import { Table } from "../../ui/grid/table";
import { Panel } from "../../ui/panel";
import type { FunctionRow } from "./model/function-queries";
import { nounOf, stateText, toneOf } from "./model/function-words";
import { functionPath } from "./model/places";
import {
  curveOf,
  NODE_HEIGHT,
  NODE_WIDTH,
  ROWS_DRAWN_MAX,
  shortLabel,
  type TopologyEdge,
  type TopologyNode,
  topologyOf,
} from "./model/topology-shape";

const COLOURS = {
  ok: "var(--ok)",
  warn: "var(--warn)",
  bad: "var(--bad)",
  neutral: "var(--line-strong)",
  accent: "var(--accent)",
};

/** Topics and functions as a drawing, with the same in a table. */
export function TopologyPanel({ cluster, rows }: { cluster: string; rows: readonly FunctionRow[] }) {
  const { nodes, edges, width, height } = topologyOf(rows);
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const left = rows.length - ROWS_DRAWN_MAX;
  return (
    <Panel
      title="Topology"
      note={left > 0 ? `the first ${ROWS_DRAWN_MAX} of ${count(rows.length)}` : undefined}
      flush
    >
      <div
        style={{ overflowX: "auto", padding: 8 }}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
        tabIndex={0}
        role="group"
        aria-label="Drawing of topics and functions"
      >
        <svg
          width={width}
          height={height}
          viewBox={`0 0 ${width} ${height}`}
          role="group"
          aria-label="Topology"
        >
          <defs>
            <marker
              id="topology-head"
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerWidth="6"
              markerHeight="6"
              orient="auto"
            >
              <path d="M0 0L8 4L0 8z" fill="var(--dim)" />
            </marker>
          </defs>
          {edges.map(({ from, to }) => {
            const [start, end] = [byId.get(from), byId.get(to)];
            return (
              start &&
              end && (
                <path
                  key={`${from} ${to}`}
                  d={curveOf(start, end)}
                  fill="none"
                  stroke="var(--dim)"
                  strokeWidth="1.5"
                  markerEnd="url(#topology-head)"
                />
              )
            );
          })}
          {nodes.map((node) => (
            <DrawnNode key={node.id} of={node} cluster={cluster} />
          ))}
        </svg>
      </div>
      <Table<TopologyEdge>
        caption="Topology"
        rows={edges}
        maxHeight={320}
        rowKey={({ from, to }) => `${from} ${to}`}
        columns={[
          {
            key: "from",
            header: "From",
            cell: ({ from }) => <NodeName of={byId.get(from)} cluster={cluster} />,
          },
          { key: "to", header: "To", cell: ({ to }) => <NodeName of={byId.get(to)} cluster={cluster} /> },
        ]}
      />
    </Panel>
  );
}

function DrawnNode({ of, cluster }: { of: TopologyNode; cluster: string }) {
  const href = pathOf(of, cluster);
  const shape = (
    <rect
      width={NODE_WIDTH}
      height={NODE_HEIGHT}
      rx={of.kind === "topic" ? 22 : 6}
      fill={of.kind === "code" ? "var(--surface-2)" : "var(--surface)"}
      stroke={of.row ? COLOURS[toneOf(of.row)] : "var(--line-strong)"}
      strokeWidth={of.row ? 2 : 1}
      strokeDasharray={of.kind === "outside" ? "4 3" : undefined}
    />
  );
  return (
    <g transform={`translate(${of.x} ${of.y})`}>
      <title>{nameOf(of)}</title>
      {href === null ? (
        shape
      ) : (
        <a href={href} aria-label={nameOf(of)}>
          {shape}
        </a>
      )}
      {/* The words lie above the link, which has the whole name: the drawn one may be shortened. */}
      <g aria-hidden={href !== null || undefined} pointerEvents="none" textAnchor="middle">
        <text x={NODE_WIDTH / 2} y={of.row ? 19 : 27} fill="var(--text)" fontSize="13">
          {shortLabel(of.label)}
        </text>
        {of.row && (
          <text x={NODE_WIDTH / 2} y="35" fill="var(--dim)" fontSize="12">
            {`${nounOf(of.row.component)}, ${stateText(of.row.state)}`}
          </text>
        )}
      </g>
    </g>
  );
}

const nameOf = ({ row, kind, label }: TopologyNode) =>
  row
    ? `${nounOf(row.component)} ${label}, ${stateText(row.state)}`
    : kind === "topic"
      ? `topic ${label}`
      : label;

function pathOf({ id, kind, row }: TopologyNode, cluster: string): string | null {
  if (row) return functionPath({ cluster, ...row });
  const topic = kind === "topic" ? parseTopicName(id) : null;
  return topic && topicPagePath(cluster, topic, "overview");
}

function NodeName({ of, cluster }: { of: TopologyNode | undefined; cluster: string }) {
  if (of === undefined) return "—";
  if (of.row) {
    const { component, tenant, namespace, name } = of.row;
    return (
      <>
        <small>{nounOf(component)}</small>{" "}
        <Link
          to="/c/$cluster/functions/$component/$tenant/$namespace/$name"
          params={{ cluster, component, tenant, namespace, name }}
          className="topic-link"
        >
          {name}
        </Link>
      </>
    );
  }
  const topic = of.kind === "topic" ? parseTopicName(of.id) : null;
  if (topic)
    return (
      <>
        <small>topic</small> <TopicLink topic={topic} />
      </>
    );
  return of.label;
}
