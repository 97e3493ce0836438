import { answerOf, api } from "../../api/client";
import type { components } from "../../api/schema";
import { count } from "../../lib/format";
import type { NamespaceId } from "../../shared/policies/policy-queries";
import { HeldSpacePanel, heldColumns } from "../../shared/storage/held-space";
import { TopicLink, type TopicRef } from "../../shared/topic-link";
import dialog from "../../ui/dialog.module.css";
import { Table } from "../../ui/grid/table";

type Schemas = components["schemas"];
type Held = Schemas["TopicHeldSpace"];

/** The reasons that keep the ledgers of the namespace's largest topics. */
export function NamespaceSpace({ id }: { id: NamespaceId }) {
  return (
    <HeldSpacePanel<Schemas["HoldingSubscriptionOf"], Schemas["NamespaceHeldSpaceAnswer"]>
      queryKey={["held space", id]}
      read={(signal) =>
        answerOf(
          api.GET("/api/v1/clusters/{cluster}/tenants/{tenant}/namespaces/{namespace}/held-space", {
            params: { path: id },
            signal,
          }),
        )
      }
      rowKey={(row) => `${row.topic} ${row.name}`}
      where={[{ key: "topic", header: "Topic", cell: ({ topic }) => <TopicLink topic={partsOf(topic)} /> }]}
    >
      {(space) => (
        <>
          <p className={dialog.remarks} style={{ padding: "0 16px" }}>
            {`Read: ${count(space.read)} of ${count(space.topics)} persistent topics, those that store most.`}
            {space.unread.length > 0 && ` Not read: ${space.unread.map(unreadText).join("; ")}.`}
          </p>
          <Table<Held>
            caption="Topics by what they store, most first"
            rows={space.by_topic}
            rowKey={(row) => row.topic}
            maxHeight={320}
            empty={null}
            columns={[
              {
                key: "topic",
                header: "Topic",
                grow: true,
                cell: ({ topic }) => <TopicLink topic={partsOf(topic)} />,
              },
              {
                key: "holder",
                header: "Mostly held by",
                cell: (row) => <>{row.holder ? <span lang="en">{row.holder}</span> : "nothing"}</>,
              },
              ...heldColumns<Held>("Stored"),
            ]}
          />
        </>
      )}
    </HeldSpacePanel>
  );
}

function unreadText({ topic, reason }: Schemas["UnreadTopic"]): string {
  return `${topic} (${reason})`;
}

/** "persistent://tenant/namespace/topic" in its parts. */
function partsOf(name: string): TopicRef {
  const [domain = "", rest = ""] = name.split("://");
  const parts = rest.split("/");
  return {
    domain,
    tenant: parts[0] ?? "",
    namespace: parts.slice(1, -1).join("/"),
    topic: parts.at(-1) ?? "",
  };
}
