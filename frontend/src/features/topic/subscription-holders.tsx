import { TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { useServerNow } from "../../lib/clock";
import { failureOf } from "../../lib/errors";
import { age, count, dateTime, known, plural } from "../../lib/format";
import {
  type DelayedEntry,
  type Held,
  type Holders,
  type HoldingConsumer,
  holdersQuery,
  type UnackedEntry,
} from "../../shared/holding/holding-queries";
import { holderText, keyText, rangeText, redeliveredText } from "../../shared/holding/holding-words";
import { type TopicId, topicQuery } from "../../shared/topic/queries";
import { topicSearchOf } from "../../shared/topic-link";
import { ActionButton } from "../../ui/action-button";
import { type Column, Table } from "../../ui/grid/table";
import { ErrorNotice, Loading, Notice } from "../../ui/states";

const AcknowledgeDialog = lazy(() =>
  import("../../shared/holding/acknowledge-dialog").then((module) => ({ default: module.AcknowledgeDialog })),
);
const TYPING_MS = 300;
const REFRESH_MS = 5_000;
const RANGES_SHOWN = 3;
const HEIGHT_PX = 320;
const looks = {
  part: { padding: "8px 16px" },
  title: { padding: "8px 16px 4px", fontSize: 13.5, fontWeight: 600 },
  dim: { color: "var(--dim)", fontSize: 13 },
} as const;

/** Unacknowledged messages of a subscription by consumer, the consumer of a key, delayed messages by due time. */
export function SubscriptionHolders({
  id,
  subscription,
  why,
}: {
  id: TopicId;
  subscription: string;
  /** The reason for which the user may not acknowledge messages; null: allowed. */
  why: string | null;
}) {
  const [key, setKey] = useState("");
  const [asked] = useDebouncedValue(key, TYPING_MS);
  const client = useQueryClient();
  const [held, setHeld] = useState<Held | null>(null);
  const answer = useQuery({
    ...holdersQuery(id, subscription, asked),
    refetchInterval: REFRESH_MS,
    placeholderData: (before) => before,
  });
  const failure = failureOf(answer);
  if (failure && !answer.data)
    return (
      <div style={looks.part}>
        <ErrorNotice
          error={failure}
          title="Who holds what could not be read"
          onRetry={() => answer.refetch()}
        />
      </div>
    );
  if (!answer.data) return <Loading label="Reading who holds what" rows={3} />;
  const cancel = (message: Held, label: string) => (
    <ActionButton
      variant="default"
      size="compact-xs"
      aria-label={`${label.replace("…", "")} message ${message.message}…`}
      why={why}
      onClick={() => setHeld(message)}
    >
      {label}
    </ActionButton>
  );
  return (
    <>
      {answer.data.missing.length > 0 && (
        <div style={looks.part}>
          <Notice tone="warning">
            <p>
              Without {plural(answer.data.missing.length, "partition")}, which did not answer:{" "}
              {answer.data.missing.map(({ partition, reason }) => `${partition} (${reason})`).join(", ")}
            </p>
          </Notice>
        </div>
      )}
      <Consumers holders={answer.data} />
      <Unacked id={id} holders={answer.data} cancel={cancel} />
      {answer.data.keyed && (
        <>
          <div style={looks.part}>
            <TextInput
              label="Which consumer does a key go to?"
              placeholder="A key"
              value={key}
              maxLength={1000}
              onChange={(event) => setKey(event.currentTarget.value)}
            />
            <div aria-live="polite" style={looks.dim}>
              {asked !== "" &&
                answer.data.keys.map((place) => <p key={place.partition ?? -1}>{keyText(place)}</p>)}
            </div>
          </div>
          <Draining holders={answer.data} />
        </>
      )}
      <Delayed id={id} holders={answer.data} cancel={cancel} />
      {held && (
        <Suspense fallback={null}>
          <AcknowledgeDialog
            id={id}
            subscription={subscription}
            held={held}
            onChanged={() => {
              client.invalidateQueries({ queryKey: ["holders", id, subscription] });
              client.invalidateQueries({ queryKey: topicQuery(id).queryKey });
            }}
            onClose={() => setHeld(null)}
          />
        </Suspense>
      )}
    </>
  );
}

type Cancel = (message: Held, label: string) => React.ReactNode;

function Consumers({ holders }: { holders: Holders }) {
  const now = useServerNow();
  const { consumers, consumers_total: total, keyed } = holders;
  if (total === 0) return <p style={looks.title}>No consumer is connected, so no message is held.</p>;
  const columns: Column<HoldingConsumer>[] = [
    { key: "name", header: "Consumer", grow: true, cell: (one) => <b>{one.name}</b> },
    {
      key: "address",
      header: "Address",
      wide: true,
      cell: (one) => <span className="mono">{one.address}</span>,
    },
    { key: "entries", header: "Entries", numeric: true, cell: (one) => known(one.entries, count) },
    {
      key: "messages",
      header: "Messages",
      numeric: true,
      cell: (one) => (one.messages === null ? "—" : count(one.messages)),
    },
    {
      key: "oldest",
      header: "Oldest",
      cell: (one) => (one.oldest === null ? "—" : known(one.oldest_at, (at) => age(at, now))),
    },
    { key: "redelivered", header: "Sent again", numeric: true, cell: (one) => count(one.redelivered) },
  ];
  if (holders.consumers.some(({ partition }) => partition !== null))
    columns.splice(1, 0, {
      key: "partition",
      header: "Partition",
      numeric: true,
      cell: (one) => one.partition,
    });
  if (keyed) columns.push({ key: "ranges", header: "Hashes", cell: rangesOf });
  return (
    <>
      <h3 style={looks.title}>
        Delivered and not acknowledged:{" "}
        {known(holders.entries, (entries) => plural(entries, "entry", "entries"))}
      </h3>
      <Table
        caption="Unacknowledged by consumer"
        maxHeight={HEIGHT_PX}
        rows={consumers}
        rowKey={({ name, address, partition }, index) => `${name} ${address} ${partition} ${index}`}
        columns={columns}
      />
      <Left shown={consumers.length} total={total} what="consumers" />
    </>
  );
}

function rangesOf({ ranges }: HoldingConsumer) {
  const shown = ranges.slice(0, RANGES_SHOWN).map(rangeText).join(", ");
  const more = ranges.length - RANGES_SHOWN;
  return (
    <span title={ranges.map(rangeText).join(", ")}>{more > 0 ? `${shown} and ${more} more` : shown}</span>
  );
}

function Left({ shown, total, what }: { shown: number; total: number | null; what: string }) {
  if (total !== null && shown >= total) return null;
  return (
    <p style={{ ...looks.part, ...looks.dim }}>
      The first {count(shown)} of {total === null ? "more" : count(total)} {what}.
    </p>
  );
}

function MessageLink({ id, message, partition }: { id: TopicId; message: string; partition: number | null }) {
  const { cluster, tenant, namespace, topic } = id;
  return (
    <Link
      to="/c/$cluster/t/$tenant/$namespace/$topic/messages/$message"
      params={{
        cluster,
        tenant,
        namespace,
        topic: partition === null ? topic : `${topic}-partition-${partition}`,
        message,
      }}
      search={topicSearchOf(id)}
    >
      <span className="mono">{message}</span>
    </Link>
  );
}

function Unacked({ id, holders, cancel }: { id: TopicId; holders: Holders; cancel: Cancel }) {
  const now = useServerNow();
  const columns: Column<UnackedEntry>[] = [
    {
      key: "id",
      header: "Entry",
      cell: (one) => <MessageLink id={id} message={one.id} partition={one.partition} />,
    },
    {
      key: "age",
      header: "Published",
      cell: (one) => (
        <span title={known(one.published, dateTime)}>
          {known(one.published, (at) => (age(at, now) === "now" ? "now" : `${age(at, now)} ago`))}
        </span>
      ),
    },
    { key: "consumer", header: "Consumer", grow: true, cell: ({ consumer }) => holderText(consumer) },
    { key: "redeliveries", header: "Given back", cell: (one) => redeliveredText(one.redeliveries) },
    {
      key: "messages",
      header: "Messages",
      numeric: true,
      cell: ({ messages }) => (messages === null ? "—" : count(messages)),
    },
    {
      key: "acknowledge",
      header: "Actions",
      headerHidden: true,
      cell: ({ id: message, partition }) => cancel({ message, partition }, "Acknowledge…"),
    },
  ];
  if (holders.unacked.some(({ partition }) => partition !== null))
    columns.splice(1, 0, {
      key: "partition",
      header: "Partition",
      numeric: true,
      cell: (one) => one.partition,
    });
  if (holders.keyed)
    columns.splice(-1, 0, { key: "slot", header: "Hash", numeric: true, cell: (one) => one.slot });
  if (holders.unacked.length === 0) return null;
  return (
    <>
      <h3 style={looks.title}>Oldest unacknowledged messages</h3>
      <Table
        caption="Unacknowledged messages, oldest first"
        maxHeight={HEIGHT_PX}
        rows={holders.unacked}
        rowKey={({ id, partition }) => `${partition} ${id}`}
        columns={columns}
      />
      <Left shown={holders.unacked.length} total={holders.entries} what="entries" />
    </>
  );
}

function Draining({ holders }: { holders: Holders }) {
  if (holders.draining_total === 0) return null;
  return (
    <>
      <h3 style={looks.title}>
        {plural(holders.draining_total, "hash", "hashes")} moved to another consumer and{" "}
        {holders.draining_total === 1 ? "waits" : "wait"} for acknowledgements of the former one
      </h3>
      <Table
        caption="Draining hashes"
        maxHeight={HEIGHT_PX}
        rows={holders.draining}
        rowKey={({ slot, partition }) => `${partition} ${slot}`}
        columns={[
          { key: "slot", header: "Hash", numeric: true, cell: ({ slot }) => slot },
          {
            key: "consumer",
            header: "Former consumer",
            grow: true,
            cell: ({ consumer }) => holderText(consumer),
          },
          { key: "entries", header: "Unacknowledged", numeric: true, cell: ({ entries }) => count(entries) },
          { key: "refused", header: "Had to wait", numeric: true, cell: ({ refused }) => count(refused) },
        ]}
      />
      <Left shown={holders.draining.length} total={holders.draining_total} what="hashes" />
    </>
  );
}

function Delayed({
  id,
  holders: { delayed, type },
  cancel,
}: {
  id: TopicId;
  holders: Holders;
  cancel: Cancel;
}) {
  const now = useServerNow();
  if (delayed === null)
    return type === "Exclusive" || type === "Failover" ? (
      <p style={{ ...looks.part, ...looks.dim }}>
        A subscription of this type delivers delayed messages at once.
      </p>
    ) : (
      <p style={{ ...looks.part, ...looks.dim }}>
        Delayed messages are not known: the broker keeps delivery times while a consumer is connected.
      </p>
    );
  if (delayed.entries === 0) return <p style={{ ...looks.part, ...looks.dim }}>No message is delayed.</p>;
  const last = delayed.last === null ? null : dateTime(delayed.last);
  return (
    <>
      <h3 style={looks.title}>
        {known(delayed.entries, (entries) => plural(entries, "delayed message"))}
        {last !== null && `, the last due ${delayed.last_is_exact ? "" : "not before "}${last}`}
      </h3>
      <Table<DelayedEntry>
        caption="Delayed messages by due time"
        maxHeight={HEIGHT_PX}
        rows={delayed.rows}
        rowKey={(one) => `${one.partition} ${one.id}`}
        columns={[
          { key: "due", header: "Due", cell: ({ due }) => dateTime(due) },
          { key: "in", header: "In", cell: ({ due }) => (due <= now ? "due" : age(now, due)) },
          {
            key: "id",
            header: "Message",
            grow: true,
            cell: (one) => <MessageLink id={id} message={one.id} partition={one.partition} />,
          },
          {
            key: "cancel",
            header: "Actions",
            headerHidden: true,
            cell: ({ id: message, partition }) => cancel({ message, partition }, "Cancel…"),
          },
        ]}
      />
      <Left shown={delayed.rows.length} total={delayed.entries} what="delayed messages" />
    </>
  );
}
