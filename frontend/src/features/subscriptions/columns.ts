import type { ListedSubscription } from "../../api/types";
import { columnChoice } from "../../shared/lists/column-choice";
import { problemState, type State } from "../../shared/problems";
import type { Sort as Order } from "../../ui/grid/sorting";

export const SORTS = [
  "topic",
  "tenant",
  "namespace",
  "subscription",
  "type",
  "consumers",
  "unacked",
  "msg_rate_out",
  "backlog",
  "oldest_age",
  "age_target_s",
] as const;
export type Sort = (typeof SORTS)[number];
export type SortOrder = Order<Sort>;
export const DEFAULT_SORT: SortOrder = "-oldest_age";

/** Columns that people choose; the name, topic, state, age and backlog are always there. */
export const CHOICES = [
  "age_target_s",
  "msg_rate_out",
  "consumers",
  "unacked",
  "type",
  "tenant",
  "namespace",
] as const satisfies readonly Sort[];
export type Choice = (typeof CHOICES)[number];

export const DEFAULT_CHOICE: readonly Choice[] = [
  "age_target_s",
  "msg_rate_out",
  "consumers",
  "unacked",
  "type",
];

export const TITLES: Record<Sort, string> = {
  topic: "Topic",
  tenant: "Tenant",
  namespace: "Namespace",
  subscription: "Subscription",
  type: "Type",
  consumers: "Consumers",
  unacked: "Unacknowledged",
  msg_rate_out: "Out/s",
  backlog: "Backlog",
  oldest_age: "Oldest",
  age_target_s: "Target",
};

export const { parseChoice, choiceText, withSorted } = columnChoice(CHOICES);

/** The state of a subscription, by its problem, else by whether anything is consumed. */
export function subscriptionState(row: ListedSubscription): State {
  if (row.known === "no")
    return { tone: "warn", label: "Not known", title: "Its figures cannot be read now" };
  if (row.known === "last")
    return {
      tone: "warn",
      label: "Last known",
      title: "Its broker does not answer: the numbers are as last known",
    };
  if (row.attention) return problemState(row.attention);
  if (row.known === "at_rest")
    return {
      tone: "neutral",
      label: "At rest",
      title: "No broker has its topic loaded: the numbers are as stored",
    };
  if (row.msg_rate_out) return { tone: "ok", label: "Active", title: "Messages are sent to consumers" };
  return { tone: "neutral", label: "Idle", title: "No message was sent to a consumer in the last second" };
}

/** Whether the oldest message is older than the target. */
export function isLate(row: Pick<ListedSubscription, "oldest_at" | "age_target_s">, now: number): boolean {
  return Boolean(row.oldest_at && row.age_target_s && now - row.oldest_at > row.age_target_s * 1000);
}
