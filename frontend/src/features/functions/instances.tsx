import { count, dateTime, known, plural, rate } from "../../lib/format";
import { ActionButton } from "../../ui/action-button";
import { Badge } from "../../ui/badge";
import { BarList } from "../../ui/charts/bar-list";
import { Code } from "../../ui/code/code";
import { Table } from "../../ui/grid/table";
import { Panel } from "../../ui/panel";
import { Since } from "../../ui/since";
import { Empty } from "../../ui/states";
import type { InstanceRow, Run } from "./model/function-queries";
import { histogramOf, millis, originText, stateOf, summedBuckets } from "./model/function-words";

export function Instances({
  rows,
  why,
  onRun,
}: {
  rows: readonly InstanceRow[];
  why: string | null;
  onRun: (run: Run) => void;
}) {
  return (
    <Panel title="Instances" note={count(rows.length)} flush>
      <Table<InstanceRow>
        caption="Instances"
        rows={rows}
        maxHeight={420}
        rowKey={(row) => row.instance}
        columns={[
          { key: "instance", header: "Instance", numeric: true, cell: (row) => row.instance },
          { key: "state", header: "State", grow: true, cell: (row) => <State of={row} /> },
          { key: "worker", header: "Worker", wide: true, cell: (row) => row.worker || "—" },
          {
            key: "rate",
            header: "In",
            numeric: true,
            cell: (row) => (row.received_rate === null ? "—" : `${rate(row.received_rate)}/s`),
          },
          { key: "done", header: "Done in all", numeric: true, cell: (row) => known(row.processed, count) },
          { key: "failures", header: "Exceptions", numeric: true, cell: (row) => known(row.failures, count) },
          { key: "latency", header: "Latency", numeric: true, cell: (row) => millis(row.latency_ms) },
          { key: "restarts", header: "Restarts", numeric: true, cell: (row) => count(row.restarts) },
          {
            key: "last",
            header: "Last message ago",
            wide: true,
            cell: (row) => (row.last_at ? <Since at={row.last_at} /> : "—"),
          },
          {
            key: "run",
            header: "Actions",
            headerHidden: true,
            cell: (row) => (
              <ActionButton
                why={why}
                size="xs"
                variant="default"
                onClick={() => onRun({ verb: row.stopped ? "start" : "restart", instance: row.instance })}
                aria-label={
                  row.stopped ? `Start instance ${row.instance}` : `Restart instance ${row.instance}`
                }
              >
                {row.stopped ? "Start …" : "Restart …"}
              </ActionButton>
            ),
          },
        ]}
      />
    </Panel>
  );
}

function State({ of }: { of: InstanceRow }) {
  const { word, tone } = stateOf(of);
  return (
    <>
      <Badge tone={tone} dot>
        {word}
      </Badge>{" "}
      {of.error && (
        <small lang="en" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
          {lastLine(of.error)}
        </small>
      )}
    </>
  );
}

/** The line of a traceback that says what happened. */
function lastLine(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}

export function Exceptions({ rows }: { rows: readonly InstanceRow[] }) {
  const all = rows
    .flatMap(({ instance, exceptions }) => exceptions.map((each) => ({ ...each, instance })))
    .sort((a, b) => b.at - a.at);
  const dead = rows.filter(({ error }) => error.includes("\n"));
  return (
    <Panel title="Exceptions" note={all.length > 0 ? `the latest ${count(all.length)}` : undefined}>
      {all.length === 0 && dead.length === 0 && (
        <Empty title="No exception is known">The instances keep their latest ten.</Empty>
      )}
      {dead.map(({ instance, error }) => (
        <details key={`dead ${instance}`} open>
          <summary>{`Instance ${instance} does not run`}</summary>
          <Code label={`Why instance ${instance} does not run`}>{error}</Code>
        </details>
      ))}
      {all.map(({ instance, at, kind, text }, index) => (
        <details key={`${instance} ${at} ${text.length} ${kind}`} open={index === 0}>
          <summary style={{ overflowWrap: "anywhere" }}>
            {`${dateTime(at)}, instance ${instance}, ${originText(kind)}`}:{" "}
            <span lang="en">{lastLine(text)}</span>
          </summary>
          <Code label={`Traceback of instance ${instance}, ${dateTime(at)}`}>{text}</Code>
        </details>
      ))}
    </Panel>
  );
}

export function Latency({ rows }: { rows: readonly InstanceRow[] }) {
  const items = histogramOf(summedBuckets(rows));
  const total = items.reduce((sum, { value }) => sum + value, 0);
  return (
    <Panel
      title="Latency"
      note={total > 0 ? `of ${plural(total, "call")} since the instances started` : undefined}
    >
      {total === 0 ? (
        <Empty title="No call was measured">A call is measured when it ends.</Empty>
      ) : (
        <BarList caption="Calls by latency" xLabel="Latency" yLabel="Calls" items={items} yText={count} />
      )}
    </Panel>
  );
}
