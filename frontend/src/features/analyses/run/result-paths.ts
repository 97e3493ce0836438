import type { Cell } from "../../../api/types";
import { parseTopicName, partitionedOf, stringifySearch } from "../../../lib/url-state";

const POSITION = /^\d+:\d+(:\d+)?$/;

/** The page of what a cell of a result names, below the cluster's pages; null where it names nothing with a page. */
export function pathOf(column: string, cellOf: (column: string) => Cell): string | null {
  const value = cellOf(column);
  switch (column) {
    case "topic":
    case "origin":
      return topicPath(value, "overview");
    case "subscription": {
      // A dead letter's subscription is that of the topic from which it comes.
      const page = topicPath(cellOf("origin") ?? cellOf("topic"), "subscriptions");
      return page && value !== null ? `${page}#${encodeURIComponent(String(value))}` : null;
    }
    case "group":
      return redrivePath(cellOf);
    case "position":
    case "first":
    case "last":
      return typeof value === "string" && POSITION.test(value)
        ? topicPath(cellOf("topic"), `messages/${encodeURIComponent(value)}`)
        : null;
    case "ledger":
      return typeof value === "number"
        ? topicPath(cellOf("topic"), `messages${stringifySearch({ position: `${value}:0` })}`)
        : null;
    case "bookie":
      return value === null ? null : "/bookies";
    default:
      return null;
  }
}

/** The dialog that redrives a group of dead letters, which is that of all partitions. */
function redrivePath(cellOf: (column: string) => Cell): string | null {
  const text = (column: string) => String(cellOf(column) ?? "") || undefined;
  const topic = parseTopicName(text("topic") ?? "");
  const shape = text("shape");
  if (!topic || !shape) return null;
  const name = partitionedOf(topic.topic) ?? topic.topic;
  const search = {
    topic: `persistent://${topic.tenant}/${topic.namespace}/${name}`,
    shape,
    reason: text("reason"),
    origin: text("origin"),
    subscription: text("subscription"),
  };
  return `/dead-letters${stringifySearch(search)}`;
}

function topicPath(name: Cell, page: string): string | null {
  const topic = typeof name === "string" ? parseTopicName(name) : null;
  if (topic?.domain !== "persistent") return null;
  return `/t/${[topic.tenant, topic.namespace, topic.topic].map(encodeURIComponent).join("/")}/${page}`;
}
