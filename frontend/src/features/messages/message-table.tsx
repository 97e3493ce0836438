import { Link } from "@tanstack/react-router";
import { bytes, count, dateTime } from "../../lib/format";
import { parseTopicName } from "../../lib/url-state";
import { looks } from "../../shared/messages/looks";
import type { Message } from "../../shared/messages/message";
import { useTopicId } from "../../shared/topic/use-topic";
import { topicSearchOf } from "../../shared/topic-link";
import { Badge } from "../../ui/badge";
import { type Column, Table } from "../../ui/grid/table";
import { firstLine, kindText } from "./words";

/** Messages, each with the link to its page. */
export function MessageTable({
  messages,
  hasPartitions,
  maxHeight,
}: {
  messages: Message[];
  hasPartitions: boolean;
  maxHeight?: number | undefined;
}) {
  return (
    <Table<Message>
      caption="Messages"
      {...(maxHeight === undefined ? {} : { maxHeight })}
      rows={messages}
      rowKey={(message) => `${message.partition} ${message.id}`}
      columns={columnsOf(hasPartitions)}
    />
  );
}

function columnsOf(hasPartitions: boolean): Column<Message>[] {
  return [
    {
      key: "published",
      header: "Published",
      cell: (message) => <MessageLink message={message} />,
    },
    ...(hasPartitions
      ? [
          {
            key: "partition",
            header: "Partition",
            numeric: true,
            wide: true,
            cell: ({ partition }: Message) => count(partition),
          },
        ]
      : []),
    {
      key: "key",
      header: "Key",
      cell: ({ key }) => (key === null ? "—" : <span style={looks.whole}>{key}</span>),
    },
    {
      key: "value",
      header: "Value",
      grow: true,
      cell: (message) => (
        <span style={looks.value}>
          {message.kind !== "message" && <Badge tone="warn">{kindText(message)}</Badge>} {firstLine(message)}
        </span>
      ),
    },
    {
      key: "size",
      header: "Size",
      numeric: true,
      wide: true,
      cell: ({ value, kind }) => (kind === "damaged" ? "—" : bytes(value.bytes)),
    },
  ];
}

function MessageLink({ message }: { message: Message }) {
  const { cluster } = useTopicId();
  const name = parseTopicName(message.topic);
  const when = message.published === null ? message.id : dateTime(message.published);
  if (name === null) return when;
  return (
    <Link
      to="/c/$cluster/t/$tenant/$namespace/$topic/messages/$message"
      params={{
        cluster,
        tenant: name.tenant,
        namespace: name.namespace,
        topic: name.topic,
        message: message.id,
      }}
      search={topicSearchOf(name)}
      className="topic-link"
      title={`Message ${message.id}`}
    >
      {when}
    </Link>
  );
}
