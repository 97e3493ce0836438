import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import type { PartitionRow } from "../../api/types";
import { byteRate, bytes, count, plural, rate, time } from "../../lib/format";
import { BacklogFigure } from "../../shared/backlog/backlog-figures";
import { Figure } from "../../shared/figure";
import { useTopic, useTopicId } from "../../shared/topic/use-topic";
import { TopicLink, useCluster } from "../../shared/topic-link";
import { Badge } from "../../ui/badge";
import { DataGrid, type GridColumn } from "../../ui/grid/data-grid";
import { Panel } from "../../ui/panel";
import { Empty } from "../../ui/states";

/** A row for each partition, with who serves it and since when its numbers hold. */
export function TopicPartitions() {
  const id = useTopicId();
  const topic = useTopic(id).data;
  const navigate = useNavigate();
  const columns = useMemo(() => columnsOf(), []);
  if (!topic) return null;
  const rows = topic.partitions;
  return (
    <Panel title="Partitions" note={plural(rows.length, "partition")} flush>
      {rows.length === 0 ? (
        <Empty title="Not partitioned">This topic is one log, served by one broker.</Empty>
      ) : (
        <DataGrid<PartitionRow>
          label="Partitions of the topic"
          columns={columns}
          total={rows.length}
          rowAt={(index) => rows[index]}
          onOpen={(row) =>
            navigate({
              to: "/c/$cluster/t/$tenant/$namespace/$topic/overview",
              params: { cluster: id.cluster, tenant: row.tenant, namespace: row.namespace, topic: row.topic },
            })
          }
          busy={false}
          resetKey={topic.row.name}
          maxHeight={640}
        />
      )}
    </Panel>
  );
}

function columnsOf(): GridColumn<PartitionRow>[] {
  const figure = (
    key: string,
    header: string,
    min: number,
    value: (row: PartitionRow) => number | null,
    text: (value: number) => string,
  ): GridColumn<PartitionRow> => ({
    key,
    header,
    min,
    numeric: true,
    cell: (row) => <Figure of={row} value={value(row)} text={text} />,
  });
  return [
    {
      key: "partition",
      header: "Partition",
      min: 80,
      cell: (row) => (
        <TopicLink topic={row} tabIndex={-1}>
          {row.partition}
        </TopicLink>
      ),
    },
    {
      key: "owner",
      header: "Broker",
      min: 150,
      narrow: 140,
      grow: 2,
      cell: (row) => (row.owner ? <Owner row={row} /> : "—"),
    },
    {
      key: "known",
      header: "State",
      min: 154,
      narrow: 110,
      always: true,
      cell: (row) => <Known row={row} />,
    },
    {
      key: "backlog",
      header: "Backlog",
      min: 168,
      narrow: 84,
      numeric: true,
      always: true,
      cell: (row) => <BacklogFigure of={row} />,
    },
    figure("in", "In/s", 66, (row) => row.msg_rate_in, rate),
    figure("out", "Out/s", 66, (row) => row.msg_rate_out, rate),
    figure("bytes", "Bytes in", 92, (row) => row.bytes_rate_in, byteRate),
    figure("stored", "Stored", 92, (row) => row.storage_bytes, bytes),
    figure("producers", "Producers", 88, (row) => row.producers, count),
    figure("consumers", "Consumers", 95, (row) => row.consumers, count),
  ];
}

const WORDS = { live: "live", at_rest: "at rest", last: "last known", no: "not known" };

function Known({ row }: { row: PartitionRow }) {
  const tone = row.known === "last" || row.known === "no" ? "warn" : "neutral";
  return <Badge tone={tone}>{row.known === "last" ? `as of ${time(row.at)}` : WORDS[row.known]}</Badge>;
}

/** The broker, as the way to the bundles that it owns of this namespace. */
function Owner({ row }: { row: PartitionRow }) {
  const cluster = useCluster();
  return (
    <Link
      to="/c/$cluster/bundles"
      params={{ cluster }}
      search={{ broker: row.owner, q: `${row.tenant}/${row.namespace}` }}
      tabIndex={-1}
    >
      {row.owner}
    </Link>
  );
}
