import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useRef, useState } from "react";
import type { CursorAction, LastChange, SubscriptionRow, TopicDetail } from "../../api/types";
import { useServerNow } from "../../lib/clock";
import { age, count, dateTime, duration, plural, rate, signedRate } from "../../lib/format";
import { useWhyNot } from "../../shared/access/may";
import { AnalyseLink } from "../../shared/analyses/analyse-link";
import { backlogWords, oldestText, oldestTitle } from "../../shared/backlog/backlog-words";
import { changesQuery } from "../../shared/cursor/cursor-queries";
import { DONE, outcome } from "../../shared/cursor/cursor-words";
import { useIsApache } from "../../shared/lacking/lacking";
import { Lag } from "../../shared/lag";
import { nextStep } from "../../shared/next-step";
import { type TopicId, topicQuery } from "../../shared/topic/queries";
import { nameOf, useTopic, useTopicId } from "../../shared/topic/use-topic";
import { ActionButton } from "../../ui/action-button";
import { Badge } from "../../ui/badge";
import { Copy } from "../../ui/copy";
import { Table } from "../../ui/grid/table";
import { ChevronIcon } from "../../ui/icons";
import { Panel } from "../../ui/panel";
import { Empty } from "../../ui/states";
import type { Consumer } from "./endings/ending-queries";
import { Since } from "./since";
import { subscriptionState } from "./subscription-state";
import styles from "./topic.module.css";

const route = getRouteApi("/c/$cluster/t/$tenant/$namespace/$topic/subscriptions");
const CursorDialog = lazy(() =>
  import("../../shared/cursor/cursor-dialog").then((module) => ({ default: module.CursorDialog })),
);
const DeleteSubscriptionDialog = lazy(() =>
  import("./endings/delete-subscription-dialog").then((module) => ({
    default: module.DeleteSubscriptionDialog,
  })),
);
const AgeTargetDialog = lazy(() =>
  import("./age-target-dialog").then((module) => ({ default: module.AgeTargetDialog })),
);
const DisconnectDialog = lazy(() =>
  import("./endings/disconnect-dialog").then((module) => ({ default: module.DisconnectDialog })),
);
const SubscriptionHistory = lazy(() =>
  import("./subscription-history").then((module) => ({ default: module.SubscriptionHistory })),
);
const SubscriptionHolders = lazy(() =>
  import("./subscription-holders").then((module) => ({ default: module.SubscriptionHolders })),
);
const OPEN_MAX = 3; // further charts are shown on request
const HISTORY_PX = 198; // of the charts of a subscription, side by side

export function TopicSubscriptions() {
  const id = useTopicId();
  const topic = useTopic(id).data;
  const { act, sub } = route.useSearch();
  const navigate = useNavigate({ from: "/c/$cluster/t/$tenant/$namespace/$topic/subscriptions" });
  const client = useQueryClient();
  const changes = useQuery(changesQuery(id)).data;
  const [change, setChange] = useState<Change | null>(null);
  // Opened by the address, as by a link of the palette. It stays open when the subscription was deleted.
  const linked = useRef<Change | null>(null);
  if (!topic) return null;
  if (!act || !sub) linked.current = null;
  else if (topic.subscriptions.some(({ name }) => name === sub))
    linked.current = { subscription: sub, action: act };
  const shown = change ?? linked.current;
  return (
    <div className={styles.list}>
      {topic.subscriptions.length === 0 && (
        <Panel title="Subscriptions" flush>
          <Empty title="No subscription">
            No client reads this topic. A subscription is created when its first consumer connects.
          </Empty>
        </Panel>
      )}
      {topic.subscriptions.map((subscription) => (
        <Subscription
          key={subscription.name}
          subscription={subscription}
          topic={id}
          isJudged={topic.subscriptions.length <= JUDGED_MAX}
          trouble={topic.trouble}
          partitioned={topic.row.partitions > 0}
          past={
            <Unfolded label="History" isOpen={topic.subscriptions.length <= OPEN_MAX} heightPx={HISTORY_PX}>
              <SubscriptionHistory
                cluster={id.cluster}
                topic={topic.row.name}
                subscription={subscription}
                arrivals={topic.row.msg_rate_in}
                at={topic.at}
              />
            </Unfolded>
          }
          last={changes?.changes.find((made) => made.subscription === subscription.name)}
          onChange={(change) => setChange({ subscription: subscription.name, ...change })}
        />
      ))}
      {shown && (
        <Suspense fallback={null}>
          <ChangeOf
            id={id}
            change={shown}
            consumers={topic.subscriptions.find(({ name }) => name === shown.subscription)?.consumers ?? []}
            onChanged={() => client.invalidateQueries({ queryKey: topicQuery(id).queryKey })}
            onClose={() => {
              setChange(null);
              if (act) navigate({ search: ({ domain }) => ({ domain }), replace: true });
            }}
          />
        </Suspense>
      )}
    </div>
  );
}

type Action = CursorAction | "delete" | "disconnect";

interface Asked {
  action: Action;
  /** The change to undo. */
  undo?: string;
  /** The consumer to disconnect; without it the user chooses one. */
  consumer?: Consumer;
}

interface Change extends Asked {
  subscription: string;
}

function ChangeOf({
  change: { subscription, action, undo, consumer },
  consumers,
  ...rest
}: {
  id: TopicId;
  change: Change;
  consumers: SubscriptionRow["consumers"];
  onChanged: () => void;
  onClose: () => void;
}) {
  switch (action) {
    case "delete":
      return <DeleteSubscriptionDialog {...rest} subscription={subscription} consumers={consumers.length} />;
    case "disconnect":
      return (
        <DisconnectDialog {...rest} subscription={subscription} consumer={consumer} consumers={consumers} />
      );
    default:
      return <CursorDialog {...rest} subscription={subscription} action={action} undo={undo} />;
  }
}

/** The ids of the operations in the API's document. */
const OPERATIONS: Record<Action, string> = {
  reset: "reset",
  skip: "skip",
  "skip-all": "skipAll",
  undo: "undo",
  delete: "deleteSubscription",
  disconnect: "disconnectConsumer",
};
/** Up to this number all subscriptions are judged at once, of more those that the user approaches. */
const JUDGED_MAX = 8;

const ACTIONS: { action: Action; label: string }[] = [
  { action: "reset", label: "Reset…" },
  { action: "skip", label: "Skip…" },
  { action: "skip-all", label: "Skip all…" },
  { action: "delete", label: "Delete…" },
];

/** A part that is loaded when it is opened. */
function Unfolded({
  label,
  isOpen = false,
  heightPx = 0,
  children,
}: {
  label: string;
  isOpen?: boolean;
  /** The height while the part is loaded. */
  heightPx?: number;
  children: React.ReactNode;
}) {
  const [open, setOpen] = useState(isOpen);
  return (
    <details className={styles.consumers} open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <ChevronIcon size={12} /> {label}
      </summary>
      {open && <Suspense fallback={<div style={{ height: heightPx }} />}>{children}</Suspense>}
    </details>
  );
}

function Subscription({
  subscription,
  topic,
  isJudged,
  trouble,
  past,
  partitioned,
  last,
  onChange,
}: {
  subscription: SubscriptionRow;
  topic: TopicId;
  /** Whether the rights of the user at it are read at once. */
  isJudged: boolean;
  trouble: TopicDetail["trouble"];
  past: React.ReactNode;
  partitioned: boolean;
  last: LastChange | undefined;
  onChange: (change: Asked) => void;
}) {
  const now = useServerNow();
  const [isApproached, setApproached] = useState(false);
  const [isTargeting, setTargeting] = useState(false);
  const approach = () => setApproached(true);
  const place = { topic: nameOf(topic), subscription: subscription.name };
  const whyNot = useWhyNot(topic.cluster, place, isJudged || isApproached);
  const isApache = useIsApache();
  const state = subscriptionState(subscription, trouble !== null);
  const waits = backlogWords(subscription);
  const oldest = subscription.oldest_at;
  const position = subscription.positions.find(({ partition }) => partition === null);
  return (
    <section
      className={styles.sub}
      aria-label={`Subscription ${subscription.name}`}
      id={encodeURIComponent(subscription.name)}
      onPointerEnter={approach}
      onFocus={approach}
    >
      <div className={styles.subHead}>
        <h2>{subscription.name}</h2>
        <Copy value={subscription.name} what={`the name ${subscription.name}`} />
        {hasType(subscription) ? (
          <Badge>{subscription.type}</Badge>
        ) : (
          <span title="Set by its first consumer">
            <Badge>no type yet</Badge>
          </span>
        )}
        {!subscription.durable && <Badge>not durable</Badge>}
        <span title={state.title}>
          <Badge tone={state.tone} dot>
            {state.label}
          </Badge>
        </span>
        <div className={styles.actions}>
          {ACTIONS.filter(({ action }) => !(partitioned && action === "skip")).map(({ action, label }) => (
            <ActionButton
              key={action}
              variant="default"
              size="compact-xs"
              aria-label={`${label} on ${subscription.name}`}
              why={whyNot(OPERATIONS[action])}
              onClick={() => onChange({ action })}
            >
              {label}
            </ActionButton>
          ))}
          <ActionButton
            variant="default"
            size="compact-xs"
            aria-label={`Target age of ${subscription.name}`}
            why={whyNot("setAgeTarget")}
            onClick={() => setTargeting(true)}
          >
            Target age
          </ActionButton>
          {topic.domain === "persistent" && (
            <AnalyseLink
              place={place}
              analysis="who-is-behind"
              label={`Analyse the backlog of ${subscription.name}`}
            >
              Analyse
            </AnalyseLink>
          )}
        </div>
      </div>
      {subscription.lag && (
        <Lag
          lag={subscription.lag}
          now={now}
          step={nextStep(subscription.lag, topic.cluster, topic, subscription.name)}
        />
      )}
      <dl className={styles.numbers}>
        <Fact
          label="Backlog"
          value={waits ? `${waits.amount} ${waits.unit}` : "—"}
          title={waits?.title}
          detail={[
            waits?.entries,
            subscription.net_rate === 0 ? "steady" : `${signedRate(subscription.net_rate)} entries/s`,
          ]
            .filter(Boolean)
            .join(", ")}
        />
        <Fact label="Out" value={`${rate(subscription.msg_rate_out)}/s`} />
        <Fact label="Redelivered" value={`${rate(subscription.msg_rate_redeliver)}/s`} />
        <Fact label="Unacknowledged" value={count(subscription.unacked)} />
        <Fact
          label="Oldest unacknowledged"
          value={oldestText(oldest, now)}
          title={oldestTitle(oldest)}
          {...(subscription.age_target_s ? { detail: `target ${duration(subscription.age_target_s)}` } : {})}
        />
        {position && (
          <>
            <Fact
              label="Acknowledged up to"
              value={<span className="mono">{position.mark_delete || "—"}</span>}
            />
            <Fact label="Reads next" value={<span className="mono">{position.read_position || "—"}</span>} />
          </>
        )}
      </dl>
      <Positions subscription={subscription} />
      {past}
      <Consumers
        subscription={subscription}
        now={now}
        why={whyNot(OPERATIONS.disconnect)}
        onDisconnect={(consumer) => onChange({ action: "disconnect", consumer })}
      />
      {topic.domain === "persistent" && !isApache && (
        <Unfolded label="Who holds what">
          <SubscriptionHolders
            id={topic}
            subscription={subscription.name}
            why={whyNot("acknowledgeMessage")}
          />
        </Unfolded>
      )}
      {isTargeting && (
        <Suspense fallback={null}>
          <AgeTargetDialog
            topic={topic}
            subscription={subscription.name}
            onClose={() => setTargeting(false)}
          />
        </Suspense>
      )}
      {last && (
        <Last
          change={last}
          now={now}
          why={whyNot(OPERATIONS.undo)}
          onUndo={(undo) => onChange({ action: "undo", undo })}
        />
      )}
    </section>
  );
}

/** Apache's brokers call the type of a subscription that never had a consumer "None". */
function hasType({ type }: SubscriptionRow): boolean {
  return type !== "" && type !== "None";
}

/** The last manual change of this subscription, with its undo. */
function Last({
  change,
  now,
  why,
  onUndo,
}: {
  change: LastChange;
  now: number;
  why: string | null;
  onUndo: (change: string) => void;
}) {
  return (
    <div className={styles.change}>
      <span title={dateTime(change.at)}>
        Last change, {age(change.at, now)}
        {age(change.at, now) === "now" ? "" : " ago"}: {change.by || "somebody"} {DONE[change.change]} (
        {outcome(change)})
      </span>
      {change.undo && (
        <ActionButton
          variant="default"
          size="compact-xs"
          aria-label={`Undo the last change of ${change.subscription}…`}
          why={why}
          onClick={() => onUndo(change.id)}
        >
          Undo…
        </ActionButton>
      )}
    </div>
  );
}

function Fact({
  label,
  value,
  detail,
  title,
}: {
  label: string;
  value: React.ReactNode;
  detail?: string;
  title?: string | undefined;
}) {
  return (
    <div title={title}>
      <dt>{label}</dt>
      <dd>
        {value} {detail && <small>{detail}</small>}
      </dd>
    </div>
  );
}

/** A subscription's position on each partition. */
function Positions({ subscription }: { subscription: SubscriptionRow }) {
  const positions = subscription.positions.filter(({ partition }) => partition !== null);
  if (positions.length === 0) return null;
  return (
    <details className={styles.consumers}>
      <summary>
        <ChevronIcon size={12} /> Positions on {plural(positions.length, "partition")}
      </summary>
      <Table
        caption={`Positions of ${subscription.name}`}
        maxHeight={320}
        rows={positions}
        rowKey={({ partition }) => partition ?? -1}
        columns={[
          { key: "partition", header: "Partition", cell: ({ partition }) => partition },
          {
            key: "backlog",
            header: "Backlog in entries",
            numeric: true,
            cell: (position) => count(position.backlog),
          },
          {
            key: "mark_delete",
            header: "Acknowledged up to",
            cell: (position) => <span className="mono">{position.mark_delete || "—"}</span>,
          },
          {
            key: "read_position",
            header: "Reads next",
            cell: (position) => <span className="mono">{position.read_position || "—"}</span>,
          },
        ]}
      />
    </details>
  );
}

function Consumers({
  subscription,
  now,
  why,
  onDisconnect,
}: {
  subscription: SubscriptionRow;
  now: number;
  why: string | null;
  onDisconnect: (consumer: Consumer) => void;
}) {
  const { consumers, name } = subscription;
  const parted = consumers.some(({ partition }) => partition !== null);
  if (consumers.length === 0) return <p className={styles.quiet}>No consumer is connected.</p>;
  return (
    <details className={styles.consumers} open={consumers.length <= 5}>
      <summary>
        <ChevronIcon size={12} /> {plural(consumers.length, "consumer")}
      </summary>
      <Table
        caption={`Consumers of ${name}`}
        maxHeight={320}
        rows={consumers}
        rowKey={(consumer, index) => `${consumer.name} ${consumer.address} ${index}`}
        columns={[
          { key: "name", header: "Name", grow: true, cell: (consumer) => <b>{consumer.name}</b> },
          ...(parted
            ? [
                {
                  key: "partition",
                  header: "Partition",
                  numeric: true,
                  cell: (consumer: SubscriptionRow["consumers"][number]) => consumer.partition,
                },
              ]
            : []),
          {
            key: "address",
            header: "Address",
            cell: (consumer) => <span className="mono">{consumer.address}</span>,
          },
          {
            key: "since",
            header: "Connected",
            cell: (consumer) => <Since text={consumer.connected_since} now={now} />,
          },
          { key: "permits", header: "Permits", numeric: true, cell: (consumer) => count(consumer.permits) },
          {
            key: "unacked",
            header: "Unacknowledged",
            numeric: true,
            cell: (consumer) => count(consumer.unacked),
          },
          { key: "rate", header: "Out/s", numeric: true, cell: (consumer) => rate(consumer.msg_rate_out) },
          {
            key: "disconnect",
            header: "Actions",
            headerHidden: true,
            cell: ({ name, address, partition }) => (
              <ActionButton
                variant="default"
                size="compact-xs"
                aria-label={`Disconnect ${name}…`}
                why={why}
                onClick={() => onDisconnect({ name, address, partition })}
              >
                Disconnect…
              </ActionButton>
            ),
          },
        ]}
      />
    </details>
  );
}
