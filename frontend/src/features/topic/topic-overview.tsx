import { lazy, Suspense, useMemo } from "react";
import type { TopicDetail } from "../../api/types";
import { useServerNow } from "../../lib/clock";
import { byteRate, bytes, count, known, plural, rate, short } from "../../lib/format";
import { PinnedRuns } from "../../shared/analyses/pinned-runs";
import { BacklogAmount } from "../../shared/backlog/backlog-figures";
import { backlogWords } from "../../shared/backlog/backlog-words";
import { Figure } from "../../shared/figure";
import { RangePicker, useMinutes } from "../../shared/history/range";
import { useMarks } from "../../shared/history/use-marks";
import { usePast, useWithYesterday } from "../../shared/history/use-past";
import { useTopic, useTopicId } from "../../shared/topic/use-topic";
import { Badge } from "../../ui/badge";
import { LazyChart } from "../../ui/charts/lazy-chart";
import { overTime } from "../../ui/charts/over-time";
import { Stats } from "../../ui/charts/stats";
import { columnsOf, useHistory } from "../../ui/charts/use-history";
import { Table } from "../../ui/grid/table";
import { Columns, Panel } from "../../ui/panel";
import { Empty } from "../../ui/states";
import { HeldSpace } from "./held-space";
import { numbers } from "./partition-numbers";
import { Since } from "./since";

const TopicTiers = lazy(() => import("./topic-tiers").then((module) => ({ default: module.TopicTiers })));

const COLUMNS = ["msg_rate_in", "msg_rate_out", "bytes_rate_in", "bytes_rate_out", "backlog"];

export function TopicOverview() {
  const id = useTopicId();
  const topic = useTopic(id).data;
  if (!topic) return null;
  return (
    <>
      <Content cluster={id.cluster} topic={topic} />
      {id.domain === "persistent" && (
        <>
          <HeldSpace id={id} />
          <Suspense>
            <TopicTiers id={id} />
          </Suspense>
        </>
      )}
    </>
  );
}

function Content({ cluster, topic }: { cluster: string; topic: TopicDetail }) {
  const { row } = topic;
  const live = useHistory(`topic/${cluster}/${row.name}`, topic.at, [
    row.msg_rate_in,
    row.msg_rate_out,
    row.bytes_rate_in,
    row.bytes_rate_out,
    row.backlog,
  ]);
  const subject = useMemo(() => ({ topic: row.name }), [row.name]);
  const minutes = useMinutes();
  const history = usePast(cluster, subject, minutes, live, COLUMNS);
  const { xs, ys } = useMemo(() => columnsOf(history, 0, 1, 2, 3, 4), [history]);
  const compared = useWithYesterday(cluster, subject, minutes, history);
  const messages = useMemo(() => compared(COLUMNS.slice(0, 2), pair(ys[0], ys[1])), [compared, ys]);
  const volume = useMemo(() => compared(COLUMNS.slice(2, 4), pair(ys[2], ys[3])), [compared, ys]);
  const backlog = useMemo(
    () => compared(COLUMNS.slice(4), [{ label: "entries", values: ys[4] ?? [] }]),
    [compared, ys],
  );
  const common = { ...overTime(xs, 170), over: useMarks(cluster, row.name, minutes) };
  const waiting = backlogWords(row, short);
  const entries = topic.ledgers.reduce((sum, ledger) => sum + ledger.entries, 0);
  return (
    <>
      <Stats
        label="Numbers of the topic"
        stats={[
          {
            label: "Messages in",
            value: <Figure of={row} value={row.msg_rate_in} text={rate} />,
            unit: "/s",
            detail: known(row.bytes_rate_in, byteRate),
          },
          {
            label: "Messages out",
            value: <Figure of={row} value={row.msg_rate_out} text={rate} />,
            unit: "/s",
            detail: known(row.bytes_rate_out, byteRate),
          },
          {
            label: "Backlog",
            value: <BacklogAmount of={row} backlog={row} />,
            unit: waiting?.unit ?? "messages",
            detail: waiting?.entries ?? plural(topic.subscriptions.length, "subscription"),
          },
          {
            label: "Stored",
            value: <Figure of={row} value={row.storage_bytes} text={bytes} />,
            detail: plural(topic.ledgers.length, "ledger"),
          },
          {
            label: "Producers",
            value: count(topic.producers.length),
            ...(row.partitions > 0 && { detail: `${known(row.producers, count)} on partitions` }),
          },
          {
            label: "Consumers",
            value: <Figure of={row} value={row.consumers} text={count} />,
            ...(row.partitions > 0 && { detail: "on partitions" }),
          },
        ]}
      />
      <Columns even>
        <Panel title="Messages per second" actions={<RangePicker />}>
          <LazyChart
            {...common}
            title="Messages per second"
            now={[row.msg_rate_in, row.msg_rate_out]}
            series={messages}
            yText={rate}
          />
        </Panel>
        <Panel title="Bytes per second">
          <LazyChart
            {...common}
            title="Bytes per second"
            now={[row.bytes_rate_in, row.bytes_rate_out]}
            binary
            series={volume}
            yText={byteRate}
          />
        </Panel>
      </Columns>
      <Columns even>
        <Panel title="Backlog in entries">
          <LazyChart {...common} title="Backlog in entries" series={backlog} yText={short} />
        </Panel>
        <Panel
          title="Ledgers"
          note={`${plural(topic.ledgers.length, "ledger")}, ${plural(entries, "entry", "entries")}`}
          flush
        >
          <Table
            caption="Ledgers of the topic, oldest first"
            maxHeight={218}
            rows={topic.ledgers}
            rowKey={(ledger) => ledger.id}
            empty={<Empty title="Nothing stored">Only persistent topics keep ledgers.</Empty>}
            columns={[
              {
                key: "id",
                header: "Ledger",
                grow: true,
                cell: (ledger) => <span className="mono">{ledger.id}</span>,
              },
              ...(row.partitions > 0
                ? [{ key: "partition", header: "Partition", numeric: true, cell: partitionOf }]
                : []),
              {
                key: "state",
                header: "State",
                cell: (ledger) => (
                  <Badge tone={ledger.state.toLowerCase() === "open" ? "accent" : "neutral"}>
                    {ledger.state.toLowerCase()}
                  </Badge>
                ),
              },
              { key: "entries", header: "Entries", numeric: true, cell: (ledger) => count(ledger.entries) },
              { key: "bytes", header: "Size", numeric: true, cell: (ledger) => bytes(ledger.bytes) },
            ]}
          />
        </Panel>
      </Columns>
      {topic.replication.length > 0 && <Clusters links={topic.replication} />}
      <PinnedRuns topic={row.name} />
      <Producers topic={topic} />
    </>
  );
}

type Link = TopicDetail["replication"][number];

/** Other clusters that the topic is sent to or comes from. */
function Clusters({ links }: { links: readonly Link[] }) {
  const behind = links.filter(({ sent, connected }) => sent && !connected).length;
  return (
    <Panel
      title="Other clusters"
      note={behind > 0 ? `${plural(behind, "link")} without a connection` : plural(links.length, "cluster")}
      flush
    >
      <Table<Link>
        caption="Other clusters that the topic is sent to or comes from"
        rows={links}
        rowKey={({ cluster }) => cluster}
        columns={[
          { key: "cluster", header: "Cluster", cell: ({ cluster }) => <b>{cluster}</b> },
          {
            key: "state",
            header: "Sent there",
            cell: ({ sent, connected }) => (
              <Badge tone={!sent ? "neutral" : connected ? "ok" : "bad"}>
                {!sent ? "no" : connected ? "connected" : "not connected"}
              </Badge>
            ),
          },
          {
            key: "why",
            header: "Why not",
            grow: true,
            cell: ({ blocked_by }) => blocked_by ?? "",
          },
          {
            key: "backlog",
            header: "Entries to send",
            numeric: true,
            cell: ({ sent, backlog }) => (sent ? count(backlog) : ""),
          },
          {
            key: "out",
            header: "Out, messages/s",
            numeric: true,
            cell: ({ sent, msg_rate_out }) => (sent ? rate(msg_rate_out) : ""),
          },
          {
            key: "in",
            header: "In, messages/s",
            numeric: true,
            cell: ({ msg_rate_in }) => rate(msg_rate_in),
          },
        ]}
      />
    </Panel>
  );
}

function partitionOf({ partition }: { partition: number | null }): string {
  return partition === null ? "" : String(partition);
}

function pair(incoming: (number | null)[] | undefined, outgoing: (number | null)[] | undefined) {
  return [
    { label: "in", values: incoming ?? [] },
    { label: "out", values: outgoing ?? [] },
  ];
}

function Producers({ topic }: { topic: TopicDetail }) {
  const now = useServerNow();
  return (
    <Panel title="Producers" note={count(topic.producers.length)} flush>
      <Table
        caption="Producers of the topic"
        maxHeight={420}
        rows={topic.producers}
        rowKey={(producer) => `${producer.address} ${producer.id} ${producer.name}`}
        empty={<Empty title="No producer is connected" />}
        columns={[
          { key: "name", header: "Name", grow: true, cell: (producer) => <b>{producer.name}</b> },
          {
            key: "address",
            header: "Address",
            cell: (producer) => <span className="mono">{producer.address}</span>,
          },
          ...(topic.row.partitions > 0
            ? [
                {
                  key: "partitions",
                  header: "Partitions",
                  cell: (producer: TopicDetail["producers"][number]) =>
                    numbers(producer.partitions, topic.row.partitions),
                },
              ]
            : []),
          { key: "version", header: "Client", cell: (producer) => producer.client_version || "—" },
          {
            key: "since",
            header: "Connected",
            cell: (producer) => <Since text={producer.connected_since} now={now} />,
          },
          {
            key: "rate",
            header: "Messages/s",
            numeric: true,
            cell: (producer) => rate(producer.msg_rate_in),
          },
          {
            key: "bytes",
            header: "Bytes",
            numeric: true,
            cell: (producer) => byteRate(producer.bytes_rate_in),
          },
        ]}
      />
    </Panel>
  );
}
