import type { Rehearsal } from "../../api/types";
import { bytes, count, dateTime, plural } from "../../lib/format";
import { Stats } from "../../ui/charts/stats";
import { Code } from "../../ui/code/code";
import { Table } from "../../ui/grid/table";
import { Notice } from "../../ui/states";
import styles from "./schema.module.css";

type Failure = Rehearsal["failures"][number];
type LeftOut = Rehearsal["left_out"][number];

/** The last messages as a consumer with the candidate would read them: how many fail, whose and where. */
export function Result({ rehearsal }: { rehearsal: Rehearsal }) {
  const { decoded, failed, failures, left_out, samples } = rehearsal;
  const leftOut = left_out.reduce((sum, one) => sum + one.count, 0);
  return (
    <section aria-label="Rehearsal" className={styles.stack}>
      <h3>Rehearsal</h3>
      <p className={styles.quiet}>{scope(rehearsal)}</p>
      {rehearsal.missing.length > 0 && (
        <Notice tone="warning">
          <p>
            {rehearsal.missing.length > 1
              ? `Partitions ${rehearsal.missing.join(", ")} do not answer: their messages are not among these.`
              : `Partition ${rehearsal.missing[0]} does not answer: its messages are not among these.`}
          </p>
        </Notice>
      )}
      <Stats
        label="Messages of the rehearsal"
        stats={[
          { label: "Decode", value: count(decoded) },
          { label: "Do not decode", value: count(failed) },
          { label: "Left out", value: count(leftOut) },
        ]}
      />
      {failures.length > 0 && (
        <Table<Failure>
          caption="Messages that do not decode, by producer and field"
          maxHeight={360}
          rows={failures}
          rowKey={({ id, path }) => `${id} ${path}`}
          columns={[
            {
              key: "path",
              header: "Field",
              cell: ({ path }) => (path ? <b className="mono">{path}</b> : "the whole message"),
            },
            { key: "count", header: "Messages", numeric: true, cell: (failure) => count(failure.count) },
            { key: "producer", header: "Producer", cell: ({ producer }) => <b>{producer}</b> },
            { key: "version", header: "Written by", cell: ({ version }) => writtenBy(version) },
            {
              key: "reason",
              header: "Why",
              cell: ({ reason }) => (
                <span className={styles.why} lang="en">
                  {reason}
                </span>
              ),
            },
            { key: "id", header: "One of them", cell: ({ id }) => <span className="mono">{id}</span> },
          ]}
        />
      )}
      {rehearsal.more_failures > 0 && (
        <p className={styles.quiet}>and {plural(rehearsal.more_failures, "more kind")} of failure</p>
      )}
      {left_out.length > 0 && (
        <Table<LeftOut>
          caption="Messages that were left out"
          rows={left_out}
          rowKey={({ id }) => id}
          columns={[
            { key: "count", header: "Left out", numeric: true, cell: (one) => count(one.count) },
            {
              key: "reason",
              header: "Because",
              grow: true,
              cell: ({ reason }) => <span lang="en">{reason}</span>,
            },
            { key: "id", header: "One of them", cell: ({ id }) => <span className="mono">{id}</span> },
          ]}
        />
      )}
      {failures.some(({ value }) => value !== null) && (
        <Values
          title="Messages that do not decode, by their own version"
          values={failures.flatMap((one) => (one.value === null ? [] : [{ ...one, value: one.value }]))}
        />
      )}
      {samples.length > 0 && (
        <Values title="Messages as a consumer with it would receive them" values={samples} />
      )}
    </section>
  );
}

function writtenBy(version: number | null): string {
  return version === null ? "no version" : `version ${version}`;
}

/** "The last 100 messages, of all 4 partitions, published …: read 2 KiB in 12 ms" */
function scope({ messages, asked, partitions, span, stopped, bytes: read, took_ms }: Rehearsal): string {
  if (messages === 0)
    return stopped === "begin" ? "The topic holds no messages." : "No message was read in time.";
  const parts = partitions > 0 ? ` of all ${plural(partitions, "partition")}` : "";
  const when = span ? `, published ${dateTime(span.from)} – ${dateTime(span.to)}` : "";
  const why = {
    asked: "",
    begin: ` These are all that the topic holds; ${count(asked)} were requested.`,
    bytes: " More would be too many bytes to read.",
    time: " More would take too long.",
  }[stopped];
  return `The last ${plural(messages, "message")}${parts}${when}. Read ${bytes(read)} in ${count(took_ms)} ms.${why}`;
}

function Values({
  title,
  values,
}: {
  title: string;
  values: { id: string; producer: string; version: number | null; published: number; value: string }[];
}) {
  return (
    <details className={styles.values}>
      <summary>{title}</summary>
      {values.map(({ id, producer, version, published, value }) => (
        <div key={`${id} ${producer}`}>
          <p className={styles.quiet}>
            <span className="mono">{id}</span> of {producer}, {writtenBy(version)}
            {published > 0 && `, ${dateTime(published)}`}
          </p>
          <Code label={`Message ${id}`}>{value}</Code>
        </div>
      ))}
    </details>
  );
}
