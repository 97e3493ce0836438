import { Link as RouterLink } from "@tanstack/react-router";
import { byteRate, count, known, rate } from "../../lib/format";
import { Badge } from "../../ui/badge";
import { Table } from "../../ui/grid/table";
import { Empty } from "../../ui/states";
import styles from "./geo.module.css";
import type { Link } from "./joined-links";
import { delayWords } from "./link-words";
import { trendPath } from "./trend-line";

const WIDTH = 96;
const HEIGHT = 26;

/** The links of the map as a table: both ends' figures side by side. */
export function LinkTable({ links, now }: { links: readonly Link[]; now: number }) {
  return (
    <Table<Link>
      caption="Links between clusters"
      rows={links}
      rowKey={({ from, to }) => `${from} ${to}`}
      empty={
        <Empty title="Nothing is sent to other clusters">
          Name the clusters in the policy “Clusters” of a namespace or topic.
        </Empty>
      }
      columns={[
        {
          key: "link",
          header: "Link",
          cell: ({ from, to, sender }) =>
            sender === null ? (
              <b>{`${from} → ${to}`}</b>
            ) : (
              <RouterLink to="/c/$cluster/geo/$remote" params={{ cluster: from, remote: to }}>
                <b>{`${from} → ${to}`}</b>
              </RouterLink>
            ),
        },
        {
          key: "state",
          header: "State",
          cell: ({ tone, state }) => (
            <Badge tone={tone} dot>
              {state}
            </Badge>
          ),
        },
        {
          key: "sent",
          header: "Sent",
          numeric: true,
          cell: ({ sender }) => (
            <Both
              one={known(sender?.msg_rate ?? null, rate)}
              two={known(sender?.bytes_rate ?? null, byteRate)}
            />
          ),
        },
        {
          key: "received",
          header: "Received",
          numeric: true,
          cell: ({ receiver }) => (
            <Both
              one={known(receiver?.received_msg_rate ?? null, rate)}
              two={known(receiver?.received_bytes_rate ?? null, byteRate)}
            />
          ),
        },
        {
          key: "backlog",
          header: "Backlog",
          numeric: true,
          cell: ({ sender }) => known(sender?.backlog ?? null, count),
        },
        { key: "delay", header: "Delay", numeric: true, cell: (link) => delayWords(link, now) },
        {
          key: "topics",
          header: "Topics sent, received",
          numeric: true,
          cell: ({ sender, receiver }) => (
            <Both
              one={
                sender === null || sender.topics === null
                  ? "—"
                  : `${count(sender.topics - (sender.stopped ?? 0))} of ${count(sender.topics)}`
              }
              two={known(receiver?.received_topics ?? null, count)}
            />
          ),
        },
        {
          key: "trend",
          header: "15 minutes",
          wide: true,
          cell: ({ sender, receiver }) => (
            <svg width={WIDTH} height={HEIGHT} aria-hidden="true" focusable="false">
              <path
                d={trendPath(sender?.trend?.sent ?? receiver?.trend?.received ?? [], WIDTH, HEIGHT)}
                fill="none"
                stroke="var(--series-1)"
                strokeWidth="1.4"
              />
            </svg>
          ),
        },
        {
          key: "why",
          header: "Why",
          grow: true,
          cell: ({ why }) => (
            <div className={styles.why}>
              {why.map((text) => (
                <p key={text}>{text}</p>
              ))}
            </div>
          ),
        },
      ]}
    />
  );
}

function Both({ one, two }: { one: string; two: string }) {
  return (
    <span className={styles.ends}>
      <span>{one}</span>
      <small>{two}</small>
    </span>
  );
}
