import { Button, NativeSelect } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { Trace } from "../../api/types";
import { bytes, dateTime, plural } from "../../lib/format";
import { useWhyNot } from "../../shared/access/may";
import { ChangeFailure } from "../../shared/changes/change-failure";
import { nameOf, useTopic, useTopicId } from "../../shared/topic/use-topic";
import { ActionButton } from "../../ui/action-button";
import { Badge } from "../../ui/badge";
import { Table } from "../../ui/grid/table";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { endTracing, fileUrl, trace, tracesQuery } from "./queries";
import { lengthOf, micros, type Step, stepsOf } from "./steps";

const COUNTS = ["1", "5", "20"];
const SECONDS = 60;
const WAITING_MS = 1_000;
const QUIET_MS = 5_000;

/** Times of single messages, from their publish to their acknowledgements. */
export function TracesTab() {
  const id = useTopicId();
  const topic = useTopic(id).data;
  const client = useQueryClient();
  const whyNot = useWhyNot(id.cluster, { topic: nameOf(id) });
  const [entries, setEntries] = useState(COUNTS[0] as string);
  const [isSampledOnly, setSampledOnly] = useState(false);
  const { queryKey } = tracesQuery(id);
  const isStored = id.domain === "persistent";
  const answer = useQuery({
    ...tracesQuery(id),
    enabled: isStored,
    refetchInterval: ({ state }) => (state.data?.left ? WAITING_MS : QUIET_MS),
  });
  const settled = { onSettled: () => client.invalidateQueries({ queryKey }) };
  const start = useMutation({
    mutationFn: () => trace(id, { entries: Number(entries), seconds: SECONDS, sampled_only: isSampledOnly }),
    ...settled,
  });
  const end = useMutation({ mutationFn: () => endTracing(id), ...settled });
  if (!isStored)
    return <Empty title="Only stored messages can be traced">The topic is non-persistent.</Empty>;
  const partitions = topic?.row.partitions ?? 0;
  const traces = answer.data?.traces ?? [];
  const left = answer.data?.left ?? 0;
  return (
    <>
      <Panel
        title="Trace messages"
        note="The next messages that are published. A batch counts as one; payloads are not read."
        actions={
          traces.length > 0 && (
            <>
              <Button component="a" variant="default" href={fileUrl(id)} download="traces.json">
                OpenTelemetry file
              </Button>
              <ActionButton
                variant="default"
                why={whyNot("endTracing")}
                loading={end.isPending}
                onClick={() => end.mutate()}
              >
                Delete traces
              </ActionButton>
            </>
          )
        }
      >
        <form
          style={{ display: "flex", flexWrap: "wrap", gap: 16, alignItems: "end" }}
          onSubmit={(event) => {
            event.preventDefault();
            if (whyNot("traceEntries") === null) start.mutate();
          }}
        >
          <NativeSelect
            label={partitions > 0 ? "Messages of each partition" : "Messages"}
            data={COUNTS}
            value={entries}
            onChange={(event) => setEntries(event.currentTarget.value)}
          />
          <NativeSelect
            label="Which"
            data={[
              { value: "all", label: "the next ones" },
              { value: "sampled", label: "with a sampled traceparent" },
            ]}
            value={isSampledOnly ? "sampled" : "all"}
            onChange={(event) => setSampledOnly(event.currentTarget.value === "sampled")}
          />
          <ActionButton type="submit" why={whyNot("traceEntries")} loading={start.isPending}>
            Start
          </ActionButton>
        </form>
        <p role="status" style={{ marginTop: 10 }}>
          {left > 0
            ? `Waiting for ${plural(left, "more message")}, up to ${SECONDS} s.`
            : "Traces are kept until the topic is unloaded, the last 20."}
        </p>
        {start.error && <ChangeFailure error={start.error} title="The trace was not started" />}
        {end.error && <ChangeFailure error={end.error} title="The traces were not deleted" />}
      </Panel>
      {answer.error && (
        <ErrorNotice
          error={answer.error}
          title="The traces could not be read"
          onRetry={() => answer.refetch()}
        />
      )}
      {answer.isPending && <Loading label="Loading the traces" />}
      {traces.map((one) => (
        <TracePanel key={`${one.trace_id} ${one.spans[0]?.id}`} trace={one} />
      ))}
    </>
  );
}

function TracePanel({ trace }: { trace: Trace }) {
  const steps = stepsOf(trace);
  const length = lengthOf(steps);
  const title = trace.position ? `Message ${trace.position}` : "Message without a position";
  return (
    <Panel
      title={trace.partition === null ? title : `${title} of partition ${trace.partition}`}
      note={`${dateTime(trace.received_ms)}, ${plural(trace.messages, "message")}, ${bytes(trace.bytes)}`}
      actions={
        trace.state !== "stored" && (
          <Badge tone={trace.state === "failed" ? "bad" : "warn"}>
            {trace.state === "failed" ? "not stored" : "not stored yet"}
          </Badge>
        )
      }
      flush
    >
      <Table<Step>
        caption={`Steps of ${title}, trace ${trace.trace_id}`}
        rows={steps}
        rowKey={({ id }) => id}
        columns={[
          {
            key: "step",
            header: "Step",
            cell: ({ depth, label, detail }) => (
              <span style={{ paddingLeft: depth * 14 }}>
                {label} <span style={{ color: "var(--dim)" }}>{detail}</span>
              </span>
            ),
          },
          {
            key: "bar",
            header: "Time in the trace",
            headerHidden: true,
            grow: true,
            wide: true,
            cell: (step) => <Bar step={step} length={length} />,
          },
          {
            key: "start",
            header: "Begins after",
            numeric: true,
            wide: true,
            cell: ({ startUs }) => micros(startUs),
          },
          {
            key: "took",
            header: "Took",
            numeric: true,
            cell: ({ startUs, endUs }) => (endUs === null ? "not ended" : micros(endUs - startUs)),
          },
        ]}
      />
      {trace.more_deliveries > 0 && (
        <p style={{ padding: "8px 16px" }}>
          and {plural(trace.more_deliveries, "more delivery", "more deliveries")}
        </p>
      )}
    </Panel>
  );
}

/** A bar at the step's place in the whole trace; an open end reaches to the right. */
function Bar({ step: { startUs, endUs }, length }: { step: Step; length: number }) {
  const left = Math.min(99, (startUs / length) * 100);
  const width = Math.max(0.5, ((endUs ?? length) / length) * 100 - left);
  return (
    <div aria-hidden style={{ minWidth: 160 }}>
      <div
        style={{
          marginLeft: `${left}%`,
          width: `${width}%`,
          height: 8,
          borderRadius: 2,
          background: "var(--accent)",
          opacity: endUs === null ? 0.35 : 1,
        }}
      />
    </div>
  );
}
