import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { lazy, Suspense, useMemo, useState } from "react";
import { environmentQuery } from "../../api/environment";
import { useLive, usePolling } from "../../api/live";
import type { Overview, TopicRow } from "../../api/types";
import { failureOf } from "../../lib/errors";
import { byteRate, bytes, count, known, plural, rate, short } from "../../lib/format";
import { useMayRead } from "../../shared/access/may";
import { BacklogAmount, BacklogFigure, OldestAge } from "../../shared/backlog/backlog-figures";
import { backlogWords, weightOf } from "../../shared/backlog/backlog-words";
import { Figure, figureColumn, type Source, shareKnown } from "../../shared/figure";
import { Freshness } from "../../shared/freshness";
import { RangePicker, useMinutes } from "../../shared/history/range";
import { useMarks } from "../../shared/history/use-marks";
import { usePast, useWithYesterday } from "../../shared/history/use-past";
import { toneOfRoom, usedOf, whyReadOnly } from "../../shared/storage/room";
import { TopicLink } from "../../shared/topic-link";
import { Badge, toneOfState } from "../../ui/badge";
import type { Point } from "../../ui/charts/history";
import { LazyChart } from "../../ui/charts/lazy-chart";
import { Meter } from "../../ui/charts/meter";
import { overTime } from "../../ui/charts/over-time";
import { Stats } from "../../ui/charts/stats";
import { columnsOf, useHistory } from "../../ui/charts/use-history";
import { Table } from "../../ui/grid/table";
import { Columns, Page, PageHead, Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading } from "../../ui/states";
import { useTitle } from "../../ui/use-title";
import { NeedsAttention } from "./needs-attention";
import styles from "./overview.module.css";
import { overviewQuery } from "./queries";
import { WallPage } from "./wall-page";

const Connect = lazy(() =>
  import("../../shared/connect/connect").then((module) => ({ default: module.Connect })),
);

const route = getRouteApi("/");

export function OverviewPage() {
  const { wall } = route.useSearch();
  const cluster = useQuery(environmentQuery).data?.cluster;
  return wall && cluster !== undefined ? <WallPage cluster={cluster} /> : <Figures />;
}

function Figures() {
  useTitle("Overview");
  const cluster = useQuery(environmentQuery).data?.cluster;
  const query = overviewQuery(cluster);
  useLive("overview", { cluster }, query.queryKey, { enabled: cluster !== undefined });
  const overview = useQuery({ ...query, refetchInterval: usePolling() });
  return (
    <Page>
      <PageHead
        title="Overview"
        freshness={overview.data && <Freshness at={overview.data.at} />}
        actions={
          cluster !== undefined && (
            <Link to="/" search={(before) => ({ ...before, wall: "1" })}>
              Wallboard
            </Link>
          )
        }
      />
      {failureOf(overview) && (
        <ErrorNotice
          error={overview.error}
          title="The overview could not be read"
          onRetry={() => overview.refetch()}
        />
      )}
      {overview.data ? (
        <Begun overview={overview.data} />
      ) : (
        overview.isPending && <Loading label="Loading the overview" rows={8} />
      )}
    </Page>
  );
}

/** An instance without topics shows the first steps until the user leaves the page. */
function Begun({ overview }: { overview: Overview }) {
  const [isFirstRun, setFirstRun] = useState(isUnused(overview));
  const seesAll = useMayRead(overview.cluster, "listBrokers");
  if (!isFirstRun || !seesAll) return <Content overview={overview} />;
  return (
    <Suspense fallback={<Loading label="Loading the first steps" rows={8} />}>
      <p>There is no topic yet. Send and receive a first message:</p>
      <Connect />
      <div>
        <Button variant="default" onClick={() => setFirstRun(false)}>
          Show the overview
        </Button>
      </div>
    </Suspense>
  );
}

/** Unknown is not none: an instance is unused only if all its parts answered and reported no topic. */
function isUnused({ totals, attention }: Overview): boolean {
  return totals.topics === 0 && attention.known;
}

const TOTALS = {};
const NO_TOPIC_SEEN = "You may see no topic: an administrator of a tenant can grant your role one.";
const TRENDS = ["msg_rate_in", "msg_rate_out", "backlog"] as const;

function Content({ overview }: { overview: Overview }) {
  const { totals } = overview;
  const part = shareKnown(totals);
  const source: Source = { known: part ? "last" : "live", at: overview.at };
  const waiting = backlogWords(totals, short);
  const sum = (value: number, text: (value: number) => string) => (
    <Figure of={source} value={value} text={text} why={part || undefined} />
  );
  const live = useHistory(
    `overview/${overview.cluster}`,
    overview.at,
    TRENDS.map((name) => (name === "backlog" && totals.unknown > 0 ? null : totals[name])),
  );
  // The recorded totals are those of the whole cluster.
  const isRecorded = useMayRead(overview.cluster, "getHistory");
  const minutes = useMinutes();
  const history = usePast(overview.cluster, TOTALS, minutes, live, TRENDS, isRecorded);
  const seesBrokers = useMayRead(overview.cluster, "listBrokers");
  const seesBookies = useMayRead(overview.cluster, "listBookies");
  return (
    <>
      <div className={styles.first}>
        <NeedsAttention
          attention={overview.attention}
          cluster={overview.cluster}
          at={overview.at}
          totals={totals}
        />
        <Stats
          label={seesBrokers ? "Totals of the cluster" : "Totals of the topics that you may see"}
          stats={[
            {
              label: "Messages in",
              value: sum(totals.msg_rate_in, rate),
              unit: "/s",
              detail: byteRate(totals.bytes_rate_in),
              trend: { points: history, column: 0 },
            },
            {
              label: "Messages out",
              value: sum(totals.msg_rate_out, rate),
              unit: "/s",
              detail: byteRate(totals.bytes_rate_out),
              trend: { points: history, column: 1 },
            },
            {
              label: "Backlog",
              value: <BacklogAmount of={source} backlog={totals} why={part || undefined} />,
              unit: waiting?.unit,
              detail: (
                <>
                  {part ||
                    [waiting?.entries, `of ${plural(totals.subscriptions, "subscription")}`]
                      .filter(Boolean)
                      .join(" ")}
                  <br />
                  oldest: <OldestAge at={totals.oldest_at} />
                </>
              ),
              trend: { points: history, column: 2 },
            },
            {
              label: "Stored",
              value: sum(totals.storage_bytes, bytes),
              detail: part || "before replication",
            },
            {
              label: "Topics",
              value: count(totals.topics),
              detail: seesBrokers ? plural(overview.brokers.length, "broker") : "that you may see",
            },
            {
              label: "Clients",
              value: sum(totals.producers + totals.consumers, count),
              detail: `${short(totals.producers)} producing, ${short(totals.consumers)} consuming`,
            },
          ]}
        />
      </div>
      <Columns>
        <TopBacklogs overview={overview} seesAll={seesBrokers} />
        <Panel title="Messages per second" actions={isRecorded && <RangePicker />}>
          <RateChart
            cluster={overview.cluster}
            points={history}
            totals={totals}
            minutes={minutes}
            isRecorded={isRecorded}
          />
        </Panel>
      </Columns>
      {(seesBrokers || seesBookies) && (
        <Columns even>
          {seesBrokers && <Brokers overview={overview} />}
          {seesBookies && <Bookies overview={overview} />}
        </Columns>
      )}
    </>
  );
}

function TopBacklogs({ overview, seesAll }: { overview: Overview; seesAll: boolean }) {
  const rows = overview.top_backlogs;
  const top = Math.max(1, ...rows.flatMap((row) => weightOf(row) ?? []));
  return (
    <Panel
      title="Largest backlogs"
      note="in messages, ≈ where estimated"
      flush
      actions={
        <Link to="/c/$cluster/topics" params={{ cluster: overview.cluster }} className={styles.more}>
          All topics
        </Link>
      }
    >
      <Table<TopicRow>
        caption="Topics with the largest backlogs"
        rows={rows}
        rowKey={(row) => row.name}
        empty={
          <Empty title="No topic has a backlog">
            {overview.totals.topics > 0
              ? "Consumers keep up everywhere."
              : seesAll
                ? "Publish to any topic and it appears here."
                : NO_TOPIC_SEEN}
          </Empty>
        }
        columns={[
          {
            key: "topic",
            header: "Topic",
            grow: true,
            cell: (row) => <TopicLink topic={row} tab="subscriptions" />,
          },
          {
            key: "bar",
            header: "Share",
            headerHidden: true,
            cell: (row) => {
              const weight = weightOf(row);
              return weight !== null && <Meter share={weight / top} />;
            },
          },
          {
            key: "backlog",
            header: "Backlog",
            numeric: true,
            cell: (row) => (
              <b className={styles.backlog}>
                <BacklogFigure of={row} />
              </b>
            ),
          },
          figureColumn("in", "In/s", (row) => row.msg_rate_in, rate),
          figureColumn("out", "Out/s", (row) => row.msg_rate_out, rate),
        ]}
      />
    </Panel>
  );
}

function RateChart({
  cluster,
  points,
  totals,
  minutes,
  isRecorded,
}: {
  cluster: string;
  points: readonly Point[];
  totals: Overview["totals"];
  minutes: number;
  isRecorded: boolean;
}) {
  const { xs, ys } = useMemo(() => columnsOf(points, 0, 1), [points]);
  const over = useMarks(cluster, null, minutes);
  const compared = useWithYesterday(cluster, TOTALS, minutes, points, isRecorded);
  return (
    <LazyChart
      {...overTime(xs, 340)}
      over={over}
      title="Messages per second"
      yText={(y) => rate(y)}
      now={[totals.msg_rate_in, totals.msg_rate_out]}
      series={compared(TRENDS.slice(0, 2), [
        { label: "in", values: ys[0] ?? [] },
        { label: "out", values: ys[1] ?? [] },
      ])}
    />
  );
}

type Broker = Overview["brokers"][number];

function Brokers({ overview }: { overview: Overview }) {
  return (
    <Panel
      title="Brokers"
      note={count(overview.brokers.length)}
      flush
      actions={
        <Link to="/c/$cluster/brokers" params={{ cluster: overview.cluster }} className={styles.more}>
          Brokers and bundles
        </Link>
      }
    >
      <Table
        caption="Brokers"
        rows={overview.brokers}
        rowKey={(broker) => broker.id}
        empty={<Empty title="No broker is registered">Topics cannot be served until one starts.</Empty>}
        columns={[
          {
            key: "id",
            header: "Broker",
            grow: true,
            cell: (broker) => (
              <span className="mono" title={broker.url}>
                {broker.id}
              </span>
            ),
          },
          { key: "state", header: "State", cell: (broker) => <State text={broker.state} /> },
          figureColumn<Broker>("topics", "Topics", (broker) => broker.topics, count),
          figureColumn<Broker>("in", "In/s", (broker) => broker.msg_rate_in, rate),
          figureColumn<Broker>("out", "Out/s", (broker) => broker.msg_rate_out, rate),
        ]}
      />
    </Panel>
  );
}

function Bookies({ overview }: { overview: Overview }) {
  return (
    <Panel
      title="Bookies"
      note={count(overview.bookies.length)}
      flush
      actions={
        <Link to="/c/$cluster/bookies" params={{ cluster: overview.cluster }} className={styles.more}>
          Racks and disks
        </Link>
      }
    >
      <Table
        caption="Bookies"
        rows={overview.bookies}
        rowKey={(bookie) => bookie.id}
        empty={<Empty title="No bookie is registered">Nothing can be stored until one starts.</Empty>}
        columns={[
          {
            key: "id",
            header: "Bookie",
            grow: true,
            cell: (bookie) => <span className="mono">{bookie.id}</span>,
          },
          {
            key: "state",
            header: "State",
            cell: (bookie) => (
              <span title={whyReadOnly(bookie) ?? undefined}>
                <State text={bookie.state} />
              </span>
            ),
          },
          {
            key: "bar",
            header: "Disk used",
            headerHidden: true,
            cell: (bookie) => {
              const used = usedOf(bookie);
              if (used === null) return null;
              return (
                <Meter
                  share={used.share}
                  tone={toneOfRoom(bookie, used.share)}
                  mark={bookie.usage_limit ?? undefined}
                />
              );
            },
          },
          {
            key: "disk",
            header: "Disk free",
            numeric: true,
            cell: (bookie) =>
              usedOf(bookie) === null
                ? "unknown"
                : `${known(bookie.free_bytes, bytes)} of ${known(bookie.total_bytes, bytes)}`,
          },
        ]}
      />
    </Panel>
  );
}

function State({ text }: { text: string }) {
  return (
    <Badge tone={toneOfState(text)} dot>
      {text}
    </Badge>
  );
}
