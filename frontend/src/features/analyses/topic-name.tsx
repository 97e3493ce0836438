import { parseTopicName } from "../../lib/url-state";
import { TopicLink } from "../../shared/topic-link";

/** A full topic name as a link to its page; any other text as it is. */
export function TopicName({ name }: { name: string }) {
  const topic = parseTopicName(name);
  return topic ? <TopicLink topic={topic} /> : <span className="mono">{name}</span>;
}
