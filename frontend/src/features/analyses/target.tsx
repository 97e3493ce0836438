import { parseNamespace, parseTopicName } from "../../lib/url-state";
import type { Place } from "../../shared/access/may";
import { TopicLink } from "../../shared/topic-link";

/** A full topic name as a link to its page; any other text as it is. */
export function TopicName({ name }: { name: string }) {
  const topic = parseTopicName(name);
  return topic ? <TopicLink topic={topic} /> : <span className="mono">{name}</span>;
}

/** The place whose rights count for an analysis of a target. */
export function placeOfTarget(kind: string, target: string): Place {
  if (kind === "topic") return { topic: target };
  if (kind === "namespace") return parseNamespace(target);
  return kind === "tenant" ? { tenant: target } : {};
}
