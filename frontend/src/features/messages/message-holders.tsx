import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { failureOf } from "../../lib/errors";
import { count, plural } from "../../lib/format";
import { useWhyNots } from "../../shared/access/may";
import { type MessageAtSubscription, messageHoldersQuery } from "../../shared/holding/holding-queries";
import { redeliveredText, stateText } from "../../shared/holding/holding-words";
import type { TopicId } from "../../shared/topic/queries";
import { nameOf } from "../../shared/topic/use-topic";
import { ActionButton } from "../../ui/action-button";
import { Table } from "../../ui/grid/table";
import { Panel } from "../../ui/panel";
import { Empty, ErrorNotice, Loading, Notice } from "../../ui/states";

const AcknowledgeDialog = lazy(() =>
  import("../../shared/holding/acknowledge-dialog").then((module) => ({ default: module.AcknowledgeDialog })),
);
/** Up to this number the user's rights at each subscription are read. */
const JUDGED_MAX = 8;

/** The place of a message at every subscription of its topic. */
export function MessageHolders({ id, message }: { id: TopicId; message: string }) {
  const answer = useQuery(messageHoldersQuery(id, message));
  const [subscription, setSubscription] = useState<string | null>(null);
  const failure = failureOf(answer);
  const rows = answer.data?.subscriptions ?? [];
  const judged = rows.length <= JUDGED_MAX ? rows : [];
  const whyNots = useWhyNots(
    id.cluster,
    judged.map(({ name }) => ({ topic: nameOf(id), subscription: name })),
  );
  return (
    <Panel title="Who holds it" flush>
      {failure && (
        <ErrorNotice
          error={failure}
          title="Who holds the message could not be read"
          onRetry={failure.status === 403 ? undefined : () => answer.refetch()}
        />
      )}
      {!answer.data && !failure && <Loading label="Reading who holds the message" rows={2} />}
      {answer.data && answer.data.unread.length > 0 && (
        <Notice tone="warning">
          <p>
            Not known for {plural(answer.data.unread.length, "subscription")} that cannot be read now:{" "}
            {answer.data.unread.join(", ")}
          </p>
        </Notice>
      )}
      {answer.data && (
        <Table<MessageAtSubscription>
          caption="The message at each subscription"
          maxHeight={420}
          rows={rows}
          rowKey={({ name }) => name}
          empty={
            <Empty title="No subscription">
              The topic has no subscription, so no consumer waits for the message.
            </Empty>
          }
          columns={[
            { key: "name", header: "Subscription", cell: ({ name }) => <b>{name}</b> },
            { key: "type", header: "Type", wide: true, cell: ({ type }) => type || "—" },
            {
              key: "state",
              header: "Message",
              grow: true,
              cell: (at) => stateText(at, answer.data.deliver_at),
            },
            { key: "again", header: "Given back", cell: (at) => redeliveredText(at.redeliveries) },
            {
              key: "slot",
              header: "Hash",
              numeric: true,
              wide: true,
              cell: ({ slot }) => (slot === null ? "—" : slot),
            },
            {
              key: "acknowledge",
              header: "Actions",
              headerHidden: true,
              cell: (at) =>
                at.state !== "acknowledged" && (
                  <ActionButton
                    variant="default"
                    size="compact-xs"
                    aria-label={`Acknowledge for ${at.name}…`}
                    why={whyNots[judged.indexOf(at)]?.("acknowledgeMessage") ?? null}
                    onClick={() => setSubscription(at.name)}
                  >
                    {at.state === "delayed" ? "Cancel…" : "Acknowledge…"}
                  </ActionButton>
                ),
            },
          ]}
        />
      )}
      {answer.data && answer.data.total > rows.length && (
        <p>
          The first {count(rows.length)} of {count(answer.data.total)} subscriptions.
        </p>
      )}
      {subscription !== null && (
        <Suspense fallback={null}>
          <AcknowledgeDialog
            id={id}
            subscription={subscription}
            held={{ message, partition: null }}
            onChanged={() => answer.refetch()}
            onClose={() => setSubscription(null)}
          />
        </Suspense>
      )}
    </Panel>
  );
}
