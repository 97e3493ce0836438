import { useServerNow } from "../../lib/clock";
import { age, byteRate, bytes, count, plural, rate } from "../../lib/format";
import { Figure } from "../../shared/figure";
import { TopicLink } from "../../shared/topic-link";
import { Badge } from "../../ui/badge";
import { Table } from "../../ui/grid/table";
import { Panel } from "../../ui/panel";
import { Empty } from "../../ui/states";
import { useTopic, useTopicId } from "./use-topic";

/** A row for each partition, with who serves it and since when its numbers hold. */
export function TopicPartitions() {
  const id = useTopicId();
  const topic = useTopic(id).data;
  const now = useServerNow();
  if (!topic) return null;
  return (
    <Panel title="Partitions" note={plural(topic.partitions.length, "partition")} flush>
      <Table
        caption="Partitions of the topic"
        maxHeight={640}
        rows={topic.partitions}
        rowKey={(row) => row.partition}
        empty={<Empty title="Not partitioned">This topic is one log, served by one broker.</Empty>}
        columns={[
          {
            key: "partition",
            header: "Partition",
            cell: (row) => <TopicLink topic={row}>{row.partition}</TopicLink>,
          },
          { key: "owner", header: "Broker", cell: (row) => row.owner || "—" },
          {
            key: "known",
            header: "State",
            cell: (row) =>
              row.known === "last" ? (
                <Badge tone="warn">{`as of ${age(row.at, now)} ago`}</Badge>
              ) : (
                <Badge tone={row.known === "no" ? "warn" : "neutral"}>{WORDS[row.known]}</Badge>
              ),
          },
          {
            key: "backlog",
            header: "Backlog",
            numeric: true,
            cell: (row) => <Figure of={row} value={row.backlog} text={count} />,
          },
          {
            key: "in",
            header: "In/s",
            numeric: true,
            cell: (row) => <Figure of={row} value={row.msg_rate_in} text={rate} />,
          },
          {
            key: "out",
            header: "Out/s",
            numeric: true,
            cell: (row) => <Figure of={row} value={row.msg_rate_out} text={rate} />,
          },
          {
            key: "bytes",
            header: "Bytes in",
            numeric: true,
            cell: (row) => <Figure of={row} value={row.bytes_rate_in} text={byteRate} />,
          },
          {
            key: "stored",
            header: "Stored",
            numeric: true,
            cell: (row) => <Figure of={row} value={row.storage_bytes} text={bytes} />,
          },
          {
            key: "producers",
            header: "Producers",
            numeric: true,
            cell: (row) => <Figure of={row} value={row.producers} text={count} />,
          },
          {
            key: "consumers",
            header: "Consumers",
            numeric: true,
            cell: (row) => <Figure of={row} value={row.consumers} text={count} />,
          },
        ]}
      />
    </Panel>
  );
}

const WORDS = { live: "live", at_rest: "at rest", last: "last known", no: "unknown" };
