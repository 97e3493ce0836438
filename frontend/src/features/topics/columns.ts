import { columnChoice } from "../../shared/lists/column-choice";
import type { TopicSort } from "./search";

/** Columns that people choose; the name, state, trend and backlog are always there. */
export const CHOICES = [
  "tenant",
  "namespace",
  "oldest_age",
  "msg_rate_in",
  "msg_rate_out",
  "bytes_rate_in",
  "bytes_rate_out",
  "storage_bytes",
  "producers",
  "consumers",
  "subscriptions",
  "partitions",
] as const satisfies readonly TopicSort[];
export type Choice = (typeof CHOICES)[number];

export const DEFAULT_CHOICE: readonly Choice[] = [
  "oldest_age",
  "msg_rate_in",
  "msg_rate_out",
  "storage_bytes",
  "producers",
  "consumers",
  "subscriptions",
];

export const TITLES: Record<TopicSort, string> = {
  topic: "Topic",
  backlog: "Backlog",
  oldest_age: "Oldest unacknowledged",
  tenant: "Tenant",
  namespace: "Namespace",
  msg_rate_in: "In/s",
  msg_rate_out: "Out/s",
  bytes_rate_in: "Bytes in",
  bytes_rate_out: "Bytes out",
  storage_bytes: "Stored",
  producers: "Producers",
  consumers: "Consumers",
  subscriptions: "Subscriptions",
  partitions: "Partitions",
};

export const { parseChoice, choiceText, withSorted } = columnChoice(CHOICES);

const KEY = "magnetar-topic-columns";

export function storedChoice(): Choice[] | null {
  try {
    return parseChoice(localStorage.getItem(KEY));
  } catch {
    return null; // Storage may be blocked; the choice then lasts as long as the address.
  }
}

export function storeChoice(choice: readonly Choice[]): void {
  try {
    localStorage.setItem(KEY, choiceText(choice));
  } catch {
    // As above.
  }
}
