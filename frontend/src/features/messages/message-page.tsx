import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Fragment, type ReactNode } from "react";
import { failureOf } from "../../lib/errors";
import { bytes, count, dateTime, known } from "../../lib/format";
import { useIsApache } from "../../shared/lacking/lacking";
import { looks } from "../../shared/messages/looks";
import { type Message, messageQuery, valueUrl } from "../../shared/messages/message";
import { nameOf, useTopicId } from "../../shared/topic/use-topic";
import { topicSearchOf } from "../../shared/topic-link";
import { Badge } from "../../ui/badge";
import { Code } from "../../ui/code/code";
import { Copy } from "../../ui/copy";
import { Fact } from "../../ui/fact";
import { Table } from "../../ui/grid/table";
import { DownloadIcon } from "../../ui/icons";
import { Panel } from "../../ui/panel";
import { ErrorNotice, Loading, Notice } from "../../ui/states";
import { type JsonNode, jsonTree, textOf } from "./json/json-tree";
import { MessageHolders } from "./message-holders";
import { chunkNumber, kindText, lackText, type MessageChunks, missingText } from "./words";

const route = getRouteApi("/c/$cluster/t/$tenant/$namespace/$topic/messages/$message");

/** The page of a message: its metadata, its value and its properties. */
export function MessagePage() {
  const id = useTopicId();
  const { message } = route.useParams();
  const answer = useQuery(messageQuery(id, message));
  const failure = failureOf(answer);
  const stored = answer.data;
  const isApache = useIsApache();
  const place = { cluster: id.cluster, tenant: id.tenant, namespace: id.namespace, topic: id.topic };
  return (
    <>
      {failure && (
        <ErrorNotice
          error={failure}
          title={`Message ${message} could not be read`}
          onRetry={failure.status === 403 ? undefined : () => answer.refetch()}
        />
      )}
      {!stored && !failure && <Loading label="Reading the message" rows={6} />}
      {stored && (
        <>
          <Panel
            title={`Message ${stored.id}`}
            actions={
              <>
                <Copy value={location.href} what="the link to this message" />
                {(stored.kind !== "message" || stored.chunks) && (
                  <Badge tone={stored.kind === "message" ? "accent" : "warn"}>{kindText(stored)}</Badge>
                )}
                <Link
                  to="/c/$cluster/t/$tenant/$namespace/$topic/messages"
                  params={place}
                  search={{ ...topicSearchOf(id), position: stored.id }}
                >
                  From here on
                </Link>
                {stored.kind === "message" && (
                  <Link
                    to="/c/$cluster/t/$tenant/$namespace/$topic/publish"
                    params={place}
                    search={{ ...topicSearchOf(id), from: stored.id }}
                  >
                    Edit and send again
                  </Link>
                )}
              </>
            }
          >
            {stored.problem && (
              <Notice tone="error">
                <p>
                  It cannot be decoded: <span lang="en">{stored.problem}</span>.
                </p>
              </Notice>
            )}
            {stored.chunks && !stored.chunks.is_whole && <Lack of={stored.chunks} />}
            <Facts message={stored} />
          </Panel>
          <Value message={stored} href={valueUrl(id, message)} name={nameOf(id)} />
          {Object.keys(stored.properties).length > 0 && (
            <Panel title="Properties" flush>
              <Table<[string, string]>
                caption="Properties of the message"
                rows={Object.entries(stored.properties)}
                rowKey={([name]) => name}
                columns={[
                  { key: "name", header: "Name", cell: ([name]) => name },
                  {
                    key: "value",
                    header: "Value",
                    grow: true,
                    cell: ([, value]) => <span style={looks.whole}>{value}</span>,
                  },
                ]}
              />
            </Panel>
          )}
          {!isApache && <MessageHolders id={id} message={stored.id} />}
        </>
      )}
    </>
  );
}

function Facts({ message }: { message: Message }) {
  const moment = (at: number | null) => known(at, dateTime);
  const facts: [string, ReactNode][] = [
    ["Published", moment(message.published)],
    ["Received by the broker", moment(message.received)],
    ["Event time", moment(message.event)],
    ["Key", message.key === null ? "—" : message.key_is_base64 ? `${message.key} (base64)` : message.key],
    ["Producer", message.producer || "—"],
    ["Sequence id", message.sequence],
    [
      "Batch",
      message.batch ? `${count(message.batch.index + 1)} of ${count(message.batch.size)}` : "not in a batch",
    ],
    ["Compression", message.compression.toLowerCase()],
    [
      "Stored",
      message.entry_bytes === null
        ? "not stated by Apache's REST interface"
        : `${bytes(message.entry_bytes)}${message.batch ? " with its batch" : ""}`,
    ],
    ["Schema version", message.value.schema_version === null ? "none" : count(message.value.schema_version)],
  ];
  if (message.number !== null) facts.push(["Number in the topic", message.number]);
  if (message.ordering_key !== null) facts.push(["Ordering key", `${message.ordering_key} (base64)`]);
  if (message.deliver_at !== null) facts.push(["Not delivered before", dateTime(message.deliver_at)]);
  if (message.replicated_from !== null) facts.push(["Published in cluster", message.replicated_from]);
  if (message.encryption_keys.length > 0) facts.push(["Encrypted with", message.encryption_keys.join(", ")]);
  if (message.chunk) facts.push(["Chunk of message", message.chunk.message]);
  if (message.chunks) facts.push(["Chunks", <Chunks key="chunks" of={message.chunks} here={message.id} />]);
  if (message.compacted_out) facts.push(["Compaction", "a later message has its key"]);
  return (
    <dl style={looks.facts}>
      {facts.map(([label, value]) => (
        <Fact key={label} label={label}>
          {value}
        </Fact>
      ))}
    </dl>
  );
}

/** The reason why the message of a chunk is not shown as a whole. */
function Lack({ of }: { of: MessageChunks }) {
  return (
    <div style={{ marginBottom: 12 }}>
      <Notice tone="warning">
        <p>
          {lackText(of)}
          {of.begun_again !== null && (
            <>
              {" "}
              <ChunkLink id={of.begun_again}>Its first chunk there</ChunkLink>
            </>
          )}
        </p>
        {of.missing.length > 0 && of.unread !== null && <p lang="en">{of.unread}.</p>}
        <p>The value below is that of this chunk alone, as it is stored.</p>
      </Notice>
    </div>
  );
}

function ChunkLink({ id, children }: { id: string; children: ReactNode }) {
  const topic = useTopicId();
  return (
    <Link
      to="/c/$cluster/t/$tenant/$namespace/$topic/messages/$message"
      params={{
        cluster: topic.cluster,
        tenant: topic.tenant,
        namespace: topic.namespace,
        topic: topic.topic,
        message: id,
      }}
      search={topicSearchOf(topic)}
      style={{ textDecoration: "underline" }}
    >
      {children}
    </Link>
  );
}

/** The position of each chunk that was found, and which are not. */
function Chunks({ of, here }: { of: MessageChunks; here: string }) {
  return (
    <>
      {of.positions.slice(0, CHUNKS_MAX).map(({ index, id }, place) => (
        <Fragment key={index}>
          {place > 0 && ", "}
          {chunkNumber(index)}: {id === here ? id : <ChunkLink id={id}>{id}</ChunkLink>}
        </Fragment>
      ))}
      {of.positions.length > CHUNKS_MAX && ` and ${count(of.positions.length - CHUNKS_MAX)} more`}
      {of.missing.length > 0 && `; not found: ${missingText(of)}`}
    </>
  );
}

function Value({ message, href, name }: { message: Message; href: string; name: string }) {
  const { value } = message;
  if (message.kind === "marker" || message.kind === "damaged") return null;
  const tree = value.form === "json" && !value.cut ? jsonTree(value.text) : null;
  return (
    <Panel
      title="Value"
      note={value.form === "none" ? "none" : `${bytes(value.bytes)}, ${FORMS[value.form]}`}
      actions={
        value.form !== "none" && (
          <Button
            component="a"
            variant="default"
            leftSection={<DownloadIcon size={14} />}
            href={href}
            download={`${message.id.replaceAll(":", "-")}.bin`}
            title={`The value of message ${message.id} of ${name}, byte for byte`}
          >
            Download
          </Button>
        )
      }
    >
      {value.error && (
        <Notice tone="warning">
          <p>
            Its schema cannot decode it: <span lang="en">{value.error}</span>.
          </p>
        </Notice>
      )}
      {value.form === "none" ? (
        <p style={looks.dim}>The message has no value: in a compacted topic it deletes its key.</p>
      ) : tree ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
        <div style={looks.tree} role="region" aria-label="The value" tabIndex={0}>
          <Node node={tree} open />
        </div>
      ) : (
        <Code label="The value">{value.text}</Code>
      )}
      {value.cut && <p style={looks.dim}>Only the beginning is shown; the download has all of it.</p>}
    </Panel>
  );
}

const FORMS = { json: "JSON", text: "text", bytes: "as hexadecimal digits", none: "" } as const;
/** Chunks whose positions are named. */
const CHUNKS_MAX = 20;
/** Parts of a value that are open at first: deeper ones open on demand. */
const OPEN_ITEMS_MAX = 50;

function Node({ node, name, open = false }: { node: JsonNode; name?: ReactNode; open?: boolean }) {
  const label = name !== undefined && <span style={looks.name}>{name}: </span>;
  if (node.kind !== "object" && node.kind !== "array")
    return (
      <div>
        {label}
        <span style={looks[node.kind]}>{node.kind === "text" ? textOf(node.source) : node.source}</span>
      </div>
    );
  const parts: [string, JsonNode][] =
    node.kind === "object" ? node.members : node.items.map((item, index) => [String(index), item]);
  const size = node.kind === "object" ? `{${count(parts.length)}}` : `[${count(parts.length)}]`;
  return (
    <details open={open && parts.length <= OPEN_ITEMS_MAX}>
      <summary>
        {label}
        <span style={looks.dim}>{size}</span>
      </summary>
      <div style={looks.inner}>
        {parts.map(([part, inner], index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a stored value does not change, and names may repeat
          <Node key={index} node={inner} name={part} open={open} />
        ))}
      </div>
    </details>
  );
}
