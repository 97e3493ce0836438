import { Link, useMatchRoute } from "@tanstack/react-router";
import type { TopicDetail } from "../../api/types";
import { plural } from "../../lib/format";
import { afterName, withMoments } from "../../lib/moments";
import type { TopicId } from "../../shared/topic/queries";
import { topicSearchOf } from "../../shared/topic-link";
import { Notice } from "../../ui/states";
import { numbers } from "./partition-numbers";
import { heldUp, summaryOf } from "./subscription-state";
import styles from "./topic.module.css";

const NAMED_MAX = 3;
const CARDS = "/c/$cluster/t/$tenant/$namespace/$topic/subscriptions";

/**
 * Problems of the topic, its partitions and its subscriptions, before any number; a summary of the subscriptions when
 * there are none. Always there, since a line that appears later would move all numbers below it.
 */
export function TopicState({ topic, id }: { topic: TopicDetail; id: TopicId }) {
  const matchRoute = useMatchRoute();
  const { trouble, subscriptions } = topic;
  const held = heldUp(subscriptions);
  // A few cards are all in sight, and each states its own cause.
  const hasCards = subscriptions.length <= NAMED_MAX && Boolean(matchRoute({ to: CARDS }));
  const named = hasCards ? [] : held.slice(0, NAMED_MAX);
  const missing = missingText(topic);
  if (trouble === null && missing === null && named.length === 0)
    return hasCards ? null : <p className={styles.state}>{summaryOf(subscriptions)}</p>;
  const isError = trouble?.severity === "error" || named.some(({ lag }) => lag?.severity === "error");
  return (
    <Notice tone={isError ? "error" : "warning"}>
      {trouble && <p>{withMoments(trouble.title, topic.at)}.</p>}
      {missing && <p>{missing}</p>}
      {named.map(({ name, lag }) => (
        <p key={name}>
          <Link to={CARDS} params={id} search={topicSearchOf(id)} hash={encodeURIComponent(name)}>
            {name}
          </Link>{" "}
          {lag && withMoments(`${afterName("", lag.title).trim()}: ${lag.detail}`, topic.at)}
        </p>
      ))}
      {!hasCards && held.length > NAMED_MAX && (
        <p>and {plural(held.length - NAMED_MAX, "more subscription")}</p>
      )}
    </Notice>
  );
}

/** What is shown of partitions of which only the last known row is here; null: all of them answer. */
function missingText(topic: TopicDetail): string | null {
  const missing = topic.missing.flatMap((number) => (number === null ? [] : [number]));
  if (missing.length === 0) return null;
  const several = missing.length > 1;
  return (
    `${several ? "Partitions" : "Partition"} ${numbers(missing, 0)} ${several ? "do" : "does"} not answer: ` +
    `${several ? "their" : "its"} backlog and rates are the last known ones, producers, subscriptions and ledgers ` +
    "are those of the other partitions."
  );
}
