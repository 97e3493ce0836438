import { localized } from "../../../lib/language/sentences";
import { parseTopicName } from "../../../lib/url-state";
import { TopicLink } from "../../../shared/topic-link";

/** The owner of ledgers, with a link where it is a topic. */
export function Owner({ name }: { name: string }) {
  const topic = parseTopicName(name);
  return topic === null ? localized(name) || "owner not known" : <TopicLink topic={topic} />;
}
